package fit_test

import (
	"math"
	"math/rand/v2"
	"os"
	"testing"

	"github.com/riffle-dp/riffle/internal/population"
	"github.com/riffle-dp/riffle/pkg/learn/estimate"
)

// Where every row of the census is noised on its own, a linear fit at epsilon 20 has intervals, which hold what the
// fit of the whole census finds without noise. Of 4 samples (50 with RIFFLE_LONG=1) of 32 561 rows all have them, and
// at most 4 of the 16 intervals (20 of the 200) miss. At 95 % more do with probability 1.4 % (4 %) if the four of a
// sample miss together, and less if not; seeds are fixed. Half as wide, 24 of 80 missed: the long test finds that.
func TestLocalFitsOfTheCensusHold(t *testing.T) {
	all, err := population.ReadAdult()
	if err != nil {
		t.Fatal(err)
	}
	rows, target := make([][]float64, len(all)), make([]float64, len(all))
	for i, c := range all {
		rows[i] = []float64{float64(c.Age), float64(c.EducationNum), float64(c.Hours)}
		if c.Over50K {
			target[i] = 1
		}
	}
	of := func(run byte, local bool) estimate.Fit {
		return estimate.Fit{Features: []estimate.Range{{Low: 17, High: 90}, {Low: 1, High: 16}, {Low: 1, High: 99}},
			Target: estimate.Range{Low: 0, High: 1}, Epsilon: 20, Delta: 1e-6, Level: 0.95, Local: local,
			Noise: rand.NewChaCha8([32]byte{run, 31})}
	}
	exact := of(0, false)
	exact.Epsilon = math.Inf(1)
	truth, err := exact.Linear(rows, target)
	if err != nil {
		t.Fatal(err)
	}
	samples, most, missed := 4, 4, 0
	if os.Getenv("RIFFLE_LONG") != "" {
		samples, most = 50, 20
	}
	draw := rand.New(rand.NewPCG(4, 20))
	for run := range samples {
		x, y := make([][]float64, 32_561), make([]float64, 32_561)
		for i := range x {
			k := draw.IntN(len(rows))
			x[i], y[i] = rows[k], target[k]
		}
		out, err := of(byte(run), true).Linear(x, y)
		if err != nil {
			t.Fatal(err)
		}
		if !out.Reliable && !out.Bounded {
			t.Errorf("sample %d has no intervals", run)
		}
		for i, c := range append([]estimate.Coefficient{out.Intercept}, out.Coefficients...) {
			want := truth.Intercept.Value
			if i > 0 {
				want = truth.Coefficients[i-1].Value
			}
			if want < c.Low || want > c.High {
				missed++
			}
		}
	}
	t.Logf("of %d intervals %d miss the truth", 4*samples, missed)
	if missed > most {
		t.Errorf("of %d intervals %d miss the truth, want at most %d", 4*samples, missed, most)
	}
}

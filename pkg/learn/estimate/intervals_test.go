package estimate_test

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"testing"

	"github.com/riffle-dp/riffle/pkg/learn/estimate"
)

// The truth of the test's population, in units of the data: features are correlated, and residuals have one variance.
var truth = []float64{12, 0.8, -3} // intercept, age, dose

// people are rows of a population that stays within its public bounds but for a few.
func people(n int, draw *rand.Rand) (rows [][]float64, target []float64) {
	for range n {
		u := draw.Float64()
		age := 20 + 60*u
		dose := 1 + 2*draw.Float64() + u
		rows = append(rows, []float64{age, dose})
		target = append(target, truth[0]+truth[1]*age+truth[2]*dose+4*draw.NormFloat64())
	}
	return rows, target
}

func fit(epsilon float64, local bool, seed byte) estimate.Fit {
	return estimate.Fit{Features: []estimate.Range{{Low: 20, High: 80}, {Low: 1, High: 4}},
		Target: estimate.Range{Low: 0, High: 90}, Epsilon: epsilon, Delta: 1e-6, Local: local, Level: 0.95,
		Noise: rand.NewChaCha8([32]byte{seed, 77})}
}

// coverage is the share of intervals that hold the truth, over all coefficients, the mean squared error in units of the
// stated standard errors, and how many runs were not reliable.
func coverage(t *testing.T, n, runs int, epsilon float64, local bool) (held, squared float64, unreliable int) {
	t.Helper()
	draw, count := rand.New(rand.NewPCG(uint64(n), 5)), 0.0
	for run := range runs {
		rows, target := people(n, draw)
		f := fit(epsilon, local, byte(run))
		f.Noise = rand.NewChaCha8([32]byte{byte(run), byte(run >> 8), 77})
		out, err := f.Linear(rows, target)
		if err != nil {
			t.Fatal(err)
		}
		if !out.Reliable {
			unreliable++
			continue
		}
		for i, c := range append([]estimate.Coefficient{out.Intercept}, out.Coefficients...) {
			if count++; c.Low <= truth[i] && truth[i] <= c.High {
				held++
			}
			squared += (c.Value - truth[i]) * (c.Value - truth[i]) / (c.Sampling*c.Sampling + c.Noise*c.Noise)
		}
	}
	return held / count, squared / count, unreliable
}

// Intervals of 95 % hold the truth, and the squared errors have the size that the standard errors state. Three
// intervals of a run are dependent; over 200 runs the share has a standard error of at most 1.6 %, hence the limit is
// at two and a half of them. Half of the noise, or intervals without it, change the squared error by a factor of two
// and more. The long test has more runs, and the local trust.
func TestIntervalsCover(t *testing.T) {
	if testing.Short() {
		t.Skip("nothing of it runs at the same time as anything else")
	}
	type setting struct {
		n, runs int
		epsilon float64
		local   bool
	}
	settings := []setting{{3500, 200, 1, false}, {2000, 100, 8, false}}
	if os.Getenv("RIFFLE_LONG") != "" {
		settings = []setting{{3000, 1000, 1, false}, {4000, 1000, 1, false}, {20_000, 300, 1, false},
			{2000, 1000, 8, false}, {2000, 1000, math.Inf(1), false}, {30_000, 100, 30, true}}
	}
	for _, s := range settings {
		t.Run(fmt.Sprintf("%d rows, epsilon %v, local %v", s.n, s.epsilon, s.local), func(t *testing.T) {
			held, squared, unreliable := coverage(t, s.n, s.runs, s.epsilon, s.local)
			t.Logf("coverage %.4f, mean squared standardised error %.3f, %d of %d runs without intervals", held,
				squared,
				unreliable, s.runs)
			if held < 0.91 || squared < 0.75 || squared > 1.25 || unreliable > s.runs/10 {
				t.Errorf("coverage %v, want 0.95; squared errors %v; %d runs are not reliable", held, squared,
					unreliable)
			}
		})
	}
}

// The same for logistic regression. The truth is in logits per unit of the data.
func TestLogisticIntervalsCover(t *testing.T) {
	if testing.Short() {
		t.Skip("nothing of it runs at the same time as anything else")
	}
	type setting struct {
		n, runs int
		epsilon float64
	}
	settings := []setting{{8000, 60, 2}}
	if os.Getenv("RIFFLE_LONG") != "" {
		settings = []setting{{8000, 300, 2}, {15_000, 200, 1}, {20_000, 200, 1}, {6000, 300, 8},
			{6000, 300, math.Inf(1)}}
	}
	logits := []float64{-2, 0.05, -0.4}
	for _, s := range settings {
		t.Run(fmt.Sprintf("%d rows, epsilon %v", s.n, s.epsilon), func(t *testing.T) {
			draw, held, squared, count, unreliable := rand.New(rand.NewPCG(uint64(s.n), 6)), 0.0, 0.0, 0.0, 0
			for run := range s.runs {
				rows, target := people(s.n, draw)
				for i, row := range rows {
					target[i] = 0
					if p := 1 / (1 + math.Exp(-logits[0]-logits[1]*row[0]-logits[2]*row[1])); draw.Float64() < p {
						target[i] = 1
					}
				}
				f := fit(s.epsilon, false, 0)
				f.Noise = rand.NewChaCha8([32]byte{byte(run), byte(run >> 8), 78})
				out, err := f.Logistic(rows, target)
				if err != nil {
					t.Fatal(err)
				}
				if !out.Reliable {
					unreliable++
					continue
				}
				for i, c := range append([]estimate.Coefficient{out.Intercept}, out.Coefficients...) {
					if count++; c.Low <= logits[i] && logits[i] <= c.High {
						held++
					}
					squared += (c.Value - logits[i]) * (c.Value - logits[i]) / (c.Sampling*c.Sampling + c.Noise*c.Noise)
				}
			}
			held, squared = held/count, squared/count
			t.Logf("coverage %.4f, mean squared standardised error %.3f, %d of %d runs without intervals", held,
				squared,
				unreliable, s.runs)
			if !(held > 0.9) || !(squared > 0.6 && squared < 1.4) || unreliable > s.runs/2 {
				t.Errorf("coverage %v, want 0.95; squared errors %v; %d runs are not reliable", held, squared,
					unreliable)
			}
		})
	}
}

// What cannot be fitted is refused, and where the noise drowns the data there are no intervals.
func TestFitRefuses(t *testing.T) {
	rows, target := people(200, rand.New(rand.NewPCG(1, 1)))
	for name, change := range map[string]func(f *estimate.Fit){
		"no features":       func(f *estimate.Fit) { f.Features = nil },
		"other features":    func(f *estimate.Fit) { f.Features = f.Features[:1] },
		"bounds reversed":   func(f *estimate.Fit) { f.Features = []estimate.Range{{Low: 1}, {High: 1}} },
		"no bounds":         func(f *estimate.Fit) { f.Target = estimate.Range{Low: math.Inf(-1), High: math.Inf(1)} },
		"narrow bounds":     func(f *estimate.Fit) { f.Target = estimate.Range{Low: 1e16, High: 1e16 + 2} },
		"no width at all":   func(f *estimate.Fit) { f.Target = estimate.Range{Low: 0, High: 1e-320} },
		"huge bounds":       func(f *estimate.Fit) { f.Target = estimate.Range{Low: 0, High: 1e300} },
		"NaN bounds":        func(f *estimate.Fit) { f.Target.High = math.NaN() },
		"level of 1":        func(f *estimate.Fit) { f.Level = 1 },
		"delta above 1/n":   func(f *estimate.Fit) { f.Delta = 0.01 },
		"no delta":          func(f *estimate.Fit) { f.Delta = 0 },
		"epsilon below 0":   func(f *estimate.Fit) { f.Epsilon = -1 },
		"epsilon no number": func(f *estimate.Fit) { f.Epsilon = math.NaN() },
	} {
		f := fit(1, false, 1)
		change(&f)
		if out, err := f.Linear(rows, target); !errors.Is(err, estimate.ErrFit) {
			t.Errorf("%s: %+v, %v", name, out, err)
		}
	}
	if _, err := fit(1, false, 1).Linear(rows, target[1:]); !errors.Is(err, estimate.ErrFit) {
		t.Errorf("a target too few: %v", err)
	}
	rows[7] = []float64{30, math.NaN()}
	if _, err := fit(1, false, 1).Linear(rows, target); !errors.Is(err, estimate.ErrFit) {
		t.Errorf("a row with a NaN: %v", err)
	}
	rows[7] = []float64{30, 2}
	out, err := fit(0.1, true, 1).Linear(rows, target)
	if err != nil || out.Reliable || !math.IsInf(out.Coefficients[0].High, 1) || math.IsNaN(out.Coefficients[0].Value) {
		t.Errorf("200 rows in the trust local at epsilon 0.1: %+v, %v", out, err)
	}
}

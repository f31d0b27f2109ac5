package protocol_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/riffle-dp/riffle/pkg/protocol"
)

// roundings draws reports of one value and counts how often it is rounded up.
func roundings(t *testing.T, fraction float64, reports int, src protocol.Source) (up int) {
	e := uniform(100, 0, 8, 1, 0, protocol.BiasHalf)
	x := make([]float64, 100)
	for j := range x {
		x[j] = 5 + fraction
	}
	var levels []uint32
	for range reports / 100 {
		var err error
		if levels, err = e.Round(levels, x, src); err != nil {
			t.Fatal(err)
		}
		for _, level := range levels {
			up += int(level) - 5
		}
	}
	return up
}

// Rounding has the right mean. False alarm 1e-6 per fraction (normal deviate of 10^7 coins). Power: a fraction wrong by
// a relative 0.4 % at 0.7 is 19 standard errors away, one cut to 6 binary digits (0.6875) 86, and rounding to the
// nearest level thousands; each planted defect below must be rejected by the same test.
func TestRoundingIsUnbiased(t *testing.T) {
	statistical(t)
	const reports = 10_000_000
	reject := func(up int, fraction float64) bool {
		z := (float64(up) - reports*fraction) / math.Sqrt(reports*fraction*(1-fraction))
		return twoSided(z) < falseAlarm
	}
	for i, fraction := range []float64{0.7, 0.5, 1e-3} {
		if reject(roundings(t, fraction, reports, seeded("rounding", i)), fraction) {
			t.Errorf("fraction %v: biased", fraction)
		}
	}
	for name, wrong := range map[string]float64{"0.4 % more": 0.7 * 1.004, "0.4 % less": 0.7 * 0.996,
		"six digits": 0.6875} {
		if !reject(roundings(t, wrong, reports, seeded("rounding", 9)), 0.7) {
			t.Errorf("%s: not rejected", name)
		}
	}
	if !reject(reports, 0.7) || !reject(0, 0.7) {
		t.Error("rounding to the nearest level, or down: not rejected")
	}
}

// Exact moments of the decoded sum over 2*10^5 releases of 50 reports: unbiased within 4 standard errors per
// coordinate, variance within 3 %, coordinates uncorrelated within 0.01. False alarm about 6*6e-5 + 1e-4 over random
// seeds (the seed is fixed). Power: a noise bit too few or too many moves the mean by over 1000 standard errors.
func TestDecodedSumsHaveTheirMoments(t *testing.T) {
	statistical(t)
	const reports, releases = 50, 200_000
	e := uniform(6, -1, 1, 8, 5, protocol.BiasHalf) // 16 levels
	population := rand.New(seeded("population", 0))
	vectors := make([][]float64, reports)
	sum, variance := make([]float64, 6), make([]float64, 6)
	for i := range vectors {
		vectors[i] = make([]float64, 6)
		for j := range vectors[i] {
			x := 2*population.Float64() - 1
			if i < 4 {
				x = float64(i%2)*2 - 1 // extremes
			}
			vectors[i][j] = x
			sum[j] += x
			level := (x + 1) * 8
			fraction := level - math.Floor(level)
			variance[j] += (fraction*(1-fraction) + 5*0.25) / 64
		}
	}
	first := make([]float64, 6)
	products := [6][6]float64{}
	src := seeded("moments", 0)
	ones, counts := []uint32{}, make([]uint64, 6)
	for range releases {
		clear(counts)
		for _, x := range vectors {
			var err error
			if ones, err = e.Encode(ones, x, src); err != nil {
				t.Fatal(err)
			}
			for j, count := range ones {
				counts[j] += uint64(count)
			}
		}
		decoded, err := e.Decode(counts, reports, 0)
		if err != nil {
			t.Fatal(err)
		}
		for j := range decoded {
			decoded[j] -= sum[j]
			first[j] += decoded[j]
			for k := range j + 1 {
				products[j][k] += decoded[j] * decoded[k]
			}
		}
	}
	bound := e.Variance(reports, 0)
	for j := range 6 {
		if mean := first[j] / releases; math.Abs(mean) > 4*math.Sqrt(variance[j]/releases) {
			t.Errorf("coordinate %d: mean error %v, standard error %v", j, mean, math.Sqrt(variance[j]/releases))
		}
		if got := products[j][j] / releases; math.Abs(got/variance[j]-1) > 0.03 {
			t.Errorf("coordinate %d: variance %v, want %v", j, got, variance[j])
		}
		if variance[j] > bound[j] {
			t.Errorf("coordinate %d: variance %v above the worst case %v", j, variance[j], bound[j])
		}
		for k := range j {
			if c := products[j][k] / math.Sqrt(products[j][j]*products[k][k]); math.Abs(c) > 0.01 {
				t.Errorf("coordinates %d and %d: correlation %v", j, k, c)
			}
		}
	}
}

// Encoding into memory that is there makes no garbage.
func TestEncodingAllocatesNothing(t *testing.T) {
	e := uniform(35, -1, 1, 6.5, 6, protocol.BiasQuarter)
	x, src := make([]float64, 35), rand.NewChaCha8([32]byte{1})
	ones, bits := make([]uint32, 35), make([]protocol.Bit, 0, e.Messages())
	n := testing.AllocsPerRun(20, func() {
		var err error
		if ones, err = e.Encode(ones, x, src); err != nil {
			t.Fatal(err)
		}
		if bits, err = e.AppendBits(bits[:0], ones); err != nil {
			t.Fatal(err)
		}
	})
	if n != 0 {
		t.Errorf("%v allocations", n)
	}
}

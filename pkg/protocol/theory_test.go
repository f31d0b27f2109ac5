package protocol_test

import (
	"math"
	"testing"

	"github.com/riffle-dp/riffle/pkg/protocol"
)

func TestTheoryHasThePaperParameters(t *testing.T) {
	theory := protocol.Theory{Reports: 1000, Dimension: 3, Epsilon: 1, Delta: 1e-6}
	if g, b := theory.Levels(), theory.NoiseBits(); g != 64 || math.Abs(b/3.012e8-1) > 5e-4 {
		t.Errorf("g = %v, b = %v, want 64 and 3.012e8", g, b)
	}
	// deviation is the standard deviation of a decoded sum of values in [-1, 1].
	deviation := func() float64 {
		e := uniform(1, -1, 1, theory.Levels()/2, uint32(theory.NoiseBits()), protocol.BiasQuarter)
		return math.Sqrt(e.Variance(uint64(theory.Reports), 0)[0])
	}
	if got := deviation(); math.Abs(got-7426.48) > 0.01 {
		t.Errorf("standard deviation of a sum %v, want 7426.48", got)
	}
	// 212 W ln(4(d^2+1)/delta)/epsilon, whatever the cohort.
	for _, n := range []int{100, 10_000, 1_000_000} {
		theory.Reports = n
		want := math.Sqrt(24e4*3.0/16) * 2 * math.Log(4e7)
		if got := deviation(); math.Abs(got/want-1) > 1e-6 {
			t.Errorf("n = %d: standard deviation %v, want %v", n, got, want)
		}
	}
	for _, c := range []struct {
		n, d int
		want float64
	}{{1, 1, 4}, {4, 9, 9}, {100, 5, 20}, {101, 5, 21}} {
		if got := (protocol.Theory{Reports: c.n, Dimension: c.d}).Levels(); got != c.want {
			t.Errorf("n = %d, d = %d: g = %v, want %v", c.n, c.d, got, c.want)
		}
	}
}

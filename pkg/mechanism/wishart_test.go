package mechanism_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/riffle-dp/riffle/pkg/mechanism"
)

// The moments of the noise by itself, of two matrices at once, and of a sum of draws: mean 0, and the variances of a
// Wishart matrix, 2 m v^2 on the diagonal and m v^2 beside it, times the square of the factor. Of 20000 draws a mean
// has a standard error of .007 of the deviation and a variance one of at most 2.5 % (the kurtosis is at most 12): a
// false alarm, at 4.5 of them in 24 numbers, comes in less than one of 5000 tests of other seeds. Noise half as large
// has a quarter of the variance, and fails.
func TestWishartMoments(t *testing.T) {
	if testing.Short() {
		t.Skip("nothing of it runs at the same time as anything else")
	}
	w := mechanism.Wishart{Dim: 2, Degrees: 3, Variance: 1.5, Factor: 3}
	const draws = 20_000
	src := rand.NewPCG(1, 2)
	for name, c := range map[string]struct {
		add  func(x []float64)
		many float64
	}{
		"one draw":   {func(x []float64) { w.Add(x, src) }, 1},
		"many draws": {func(x []float64) { w.AddSum(x, 1000, src) }, 1000},
	} {
		var sum, square [6]float64
		for range draws {
			x := make([]float64, 6)
			c.add(x)
			for i, v := range x {
				sum[i], square[i] = sum[i]+v/draws, square[i]+v*v/draws
			}
		}
		for i := range sum {
			want := 9 * 3 * 1.5 * 1.5 * c.many
			if i%3 != 1 {
				want *= 2
			}
			if math.Abs(sum[i]) > 4.5*math.Sqrt(want/draws) || math.Abs(square[i]/want-1) > .11 {
				t.Errorf("%s: coordinate %d has the mean %v and the variance %v, not 0 and %v", name, i, sum[i],
					square[i], want)
			}
		}
	}
	if d := w.Deviation(); math.Abs(d*d-2*9*3*1.5*1.5) > 1e-9 {
		t.Errorf("the deviation is %v", d)
	}
	if g := w.Guarantee(mechanism.Sensitivity{Dim: 6, L1: 1, L2: 1}); !math.IsInf(g.Mu, 1) {
		t.Errorf("noise that hides nothing promises %+v", g)
	}
}

package estimate_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// A column that hardly varies and two that determine each other are named where the noise allows to see it, and a
// column at the limit is not. Of 100 runs noise alone may name it in one of a hundred: more than 5 are a false alarm of
// 5e-4. Half of the noise in the bound names it in a quarter of the runs.
func TestWeakColumnsAreNamed(t *testing.T) {
	for _, c := range []struct {
		name    string
		epsilon float64
		third   func(first, own float64) float64
		want    []int // columns of the one reason; nil: none
	}{
		{"constant", 1, func(float64, float64) float64 { return 0.4 }, []int{2}},
		{"the same", 50, func(first, _ float64) float64 { return 0.9 * first }, []int{0, 2}},
		{"at the limit", 1, func(_, own float64) float64 { return 0.3 * own }, nil}, // a spread of 0.1
		{"correlated", 1, func(first, own float64) float64 { return 0.5*first + own }, nil},
	} {
		draw, named := rand.New(rand.NewPCG(3, 3)), 0
		const n, runs = 20_000, 100
		for run := range runs {
			rows, target := make([][]float64, n), make([]float64, n)
			for i := range rows {
				first, second, own := draw.NormFloat64()/3, draw.NormFloat64()/3, draw.NormFloat64()/3
				rows[i] = []float64{first, second, c.third(first, own)}
				target[i] = 0.3*first + 0.2*draw.NormFloat64()
			}
			out, err := unitFit(3, c.epsilon, run).Linear(rows, target)
			if err != nil {
				t.Fatal(err)
			}
			if c.want == nil && len(out.Weak) > 0 || c.want != nil && len(out.Weak) == 1 &&
				slices.Equal(out.Weak[0].Columns, c.want) {
				named++
			}
			for _, w := range out.Weak {
				if !(w.Spread > 0 && w.Spread < 0.1) || math.IsNaN(w.Spread) {
					t.Errorf("%s: %+v", c.name, w)
				}
			}
		}
		if c.want == nil && named > 5 || c.want != nil && named < 95 {
			t.Errorf("%s: named in %d of %d runs", c.name, named, runs)
		}
	}
}

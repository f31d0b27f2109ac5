package estimate_test

import (
	"math"
	"testing"

	"github.com/riffle-dp/riffle/pkg/learn/estimate"
)

// At points that do not depend on the data the bound holds with probability 1 - delta_0 and more, jointly private at
// epsilon 1 and without privacy, and it says something. The paper's holds, too.
func TestBoundOfTheReweightedLinearRegression(t *testing.T) {
	if testing.Short() {
		t.Skip("nothing of it runs at the same time as anything else")
	}
	theta := []float64{0.3, -0.4, 0.5, 0.3, 0.6}
	sorts := scaled(theta)
	for _, c := range []struct {
		variant     string
		local       bool
		epsilon     float64
		people      int
		width, most float64 // of the mean bound and of the error
	}{
		{"", false, 1, 1e5, 0.3, 0.02}, {"", false, math.Inf(1), 1e5, 0.3, 0.02}, {"", true, 1, 1e8, 0.6, 0.05},
		{estimate.Literal, false, 1, 1e6, 2, 0.05},
	} {
		s := linearSetting(5, c.people, c.epsilon)
		s.Variant = c.variant
		missed, all, width, mad := 0, 0, 0.0, 0.0
		const seeds = 20
		for seed := range uint64(seeds) {
			m, err := estimate.ReweightedLinear(s, c.people, newCrowd(t, sorts, c.local, c.epsilon, seed).ask)
			if err != nil {
				t.Fatal(err)
			}
			for _, k := range sorts {
				all++
				if math.Abs(m.Predict(k.x)-(2*k.one-1)) > m.Bound(k.x) {
					missed++
				}
				width += k.share * m.Bound(k.x) / seeds
			}
			mad += meanError(sorts, m) / seeds
		}
		t.Logf("%+v: missed %d of %d, mean bound %.3f, error %.4f", c, missed, all, width, mad)
		if float64(missed) > s.Failure*float64(all) || mad > c.most || width > c.width {
			t.Errorf("%+v: %d of %d bounds missed, mean bound %v, error %v", c, missed, all, width, mad)
		}
	}
}

// A matrix that cannot be inverted gives a model without a bound, not a wrong one.
func TestReweightedLinearRegressionOfNothing(t *testing.T) {
	sorts := linearSorts([][]float64{{0, 0}}, nil, []float64{0, 0})
	s := linearSetting(2, 1e4, math.Inf(1))
	m, err := estimate.ReweightedLinear(s, 1e4, newCrowd(t, sorts, false, math.Inf(1), 1).ask)
	if err != nil {
		t.Fatal(err)
	}
	x := []float64{1, 0}
	if v := m.Predict(x); v != 0 || !(m.Bound(x) >= 1) {
		t.Errorf("prediction %v, bound %v, from no data", v, m.Bound(x))
	}
}

package convex_test

import (
	"errors"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/riffle-dp/riffle/pkg/convex"
)

// The two terms have values worked out by hand, and parameters out of range are refused.
func TestSmoothErrorIsTheSumOfItsTwoTerms(t *testing.T) {
	good := convex.SmoothInputs{Reports: 100, Dimension: 3, Rounds: 10, Step: 4, Start: 2, SumVariance: 50}
	for _, c := range []struct {
		name   string
		change func(in *convex.SmoothInputs)
		want   float64
	}{
		{"start", func(in *convex.SmoothInputs) { in.SumVariance = 0 }, 100 * 4 / (4 * math.E * 4 * 6)},
		{"noise", func(in *convex.SmoothInputs) { in.Start = 0 }, 2 * 4 * 3 * 50 / 100.0},
		{"one round", func(in *convex.SmoothInputs) { in.Start, in.Rounds = 0, 1 }, 4 * 3 * 50 / 100.0},
		{"both", func(*convex.SmoothInputs) {}, 100*4/(4*math.E*4*6) + 12},
	} {
		in := good
		c.change(&in)
		if got, err := convex.SmoothError(in); err != nil || math.Abs(got-c.want) > 1e-12*c.want {
			t.Errorf("%s: %v, %v; want %v", c.name, got, err, c.want)
		}
	}
	for name, change := range map[string]func(in *convex.SmoothInputs){
		"reports":   func(in *convex.SmoothInputs) { in.Reports = 0 },
		"dimension": func(in *convex.SmoothInputs) { in.Dimension = 0 },
		"rounds":    func(in *convex.SmoothInputs) { in.Rounds = 0 },
		"step":      func(in *convex.SmoothInputs) { in.Step = 0 },
		"NaN start": func(in *convex.SmoothInputs) { in.Start = math.NaN() },
		"variance":  func(in *convex.SmoothInputs) { in.SumVariance = -1 },
		"infinite":  func(in *convex.SmoothInputs) { in.SumVariance = math.Inf(1) },
	} {
		in := good
		change(&in)
		if _, err := convex.SmoothError(in); !errors.Is(err, convex.ErrParameter) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// The optimiser of the paper profile runs on a quadratic whose curvatures are the largest that the step allows, the one
// for which ten rounds are worst, and a small one: from far away without noise, from the minimum with noise, and both.
// The mean excess of the cumulative loss over 400 runs must stay below the estimate, and not be far below. (It is 0.71
// of the estimate, 0.05 and 0.56, with a standard error of a twentieth of itself: the bound on the noise holds for any
// convex loss, and a quadratic averages most of its noise away.)
func TestSmoothErrorHolds(t *testing.T) {
	const n, rounds, step, runs = 400, 10, 4.0, 400
	curvature := []float64{1 / step, 1 / (13 * step), 1 / (100 * step)}
	for name, c := range map[string]struct {
		start    []float64
		variance float64
	}{
		"start": {[]float64{0, 2, 0}, 0},
		"noise": {[]float64{0, 0, 0}, 400},
		"both":  {[]float64{0, 2, 0}, 30},
	} {
		nu, err := convex.SmoothError(convex.SmoothInputs{
			Reports: n, Dimension: 3, Rounds: rounds, Step: step, Start: math.Abs(c.start[1]), SumVariance: c.variance})
		if err != nil {
			t.Fatal(err)
		}
		rng := rand.New(rand.NewPCG(1, 2))
		mean := 0.0
		for range runs {
			o, err := convex.NewOptimizer(convex.OptimizerConfig{
				Start: c.start, Rounds: rounds, Radius: 1e6, Step: step, Averaging: convex.AverageSecondHalf})
			if err != nil {
				t.Fatal(err)
			}
			for !o.Done() {
				sum := o.Iterate()
				for j := range sum {
					sum[j] = n*curvature[j]*sum[j] + math.Sqrt(c.variance)*rng.NormFloat64()
				}
				if err := o.Absorb(sum, n); err != nil {
					t.Fatal(err)
				}
			}
			for j, v := range o.Result() {
				mean += n * curvature[j] * v * v / 2 / runs
			}
		}
		t.Logf("%s: %.3f of the estimate %.3f", name, mean/nu, nu)
		if mean > nu || mean < nu/40 {
			t.Errorf("%s: mean excess %v, estimate %v", name, mean, nu)
		}
	}
}

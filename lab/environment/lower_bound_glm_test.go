package environment_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/riffle-dp/riffle/internal/population"
	"github.com/riffle-dp/riffle/lab/environment"
)

// The floor is below the regret of learners that are about the best for the instance: the arm that did better so far,
// by counts (with Laplace noise, anew at every look, so that it is less private than it says), and it is not far below.
// It grows as epsilon falls, like 1/epsilon, up to uniform play.
func TestFloorIsBelowGoodLearners(t *testing.T) {
	const n, seeds = 2000, 30
	s := environment.Spec{Kind: environment.LowerBound, Dimension: 2, Norm: 0.4}
	for _, epsilon := range []float64{math.Inf(1), 0.05} {
		floor, err := s.Floor(n, epsilon, 0)
		if err != nil {
			t.Fatal(err)
		}
		regret := 0.0
		for seed := range uint64(seeds) {
			all, _ := people(t, s, seed+1, n)
			rng := rand.New(rand.NewPCG(seed, 5))
			var ahead [2]float64 // of the first arm, by coordinate
			for i, p := range all {
				j := i % 2
				seen := ahead[j]
				if !math.IsInf(epsilon, 1) {
					seen += rng.ExpFloat64()/epsilon - rng.ExpFloat64()/epsilon
				}
				arm := 0
				if seen < 0 || seen == 0 && rng.IntN(2) == 0 {
					arm = 1
				}
				regret += (max(p.Means[0], p.Means[1]) - p.Means[arm]) / seeds
				ahead[j] += (p.Rewards[arm] - 0.5) * float64(1-2*arm)
			}
		}
		// The standard error is below a tenth of the mean.
		if regret < floor || regret > 6*floor {
			t.Errorf("epsilon %v: a good learner's regret is %v, the floor %v", epsilon, regret, floor)
		}
	}
	last := 0.0
	for _, epsilon := range []float64{4, 0.4, 0.04, 0.004} {
		floor, err := s.Floor(n, epsilon, 1e-6)
		if err != nil || floor < last {
			t.Errorf("epsilon %v: floor %v after %v, %v", epsilon, floor, last, err)
		}
		last = floor
	}
	all, e := people(t, s, 1, n)
	gap := math.Abs(all[0].Means[0] - all[0].Means[1])
	if last < 0.4*n*gap || last > 0.5*n*gap {
		t.Errorf("with next to no epsilon the floor is %v, uniform play %v", last, 0.5*n*gap)
	}
	if k := population.Dot(all[1].Arms[0], e.Theta); math.Abs(math.Abs(k)-0.4/math.Sqrt2) > 1e-12 {
		t.Errorf("score %v", k)
	}
}

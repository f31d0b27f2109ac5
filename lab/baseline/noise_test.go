package baseline_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/riffle-dp/riffle/lab/baseline"
	"github.com/riffle-dp/riffle/pkg/glm/family"
	"github.com/riffle-dp/riffle/pkg/privacy"
)

// The yardstick's released scores have the noise of the Gaussian mechanism for its budget. In one dimension ten
// people's scores are 0, so that what is released is 10 theta and the noise: with 10 theta half a deviation the
// estimate has the wrong sign with probability 0.3085, of 2000 runs in [0.25, 0.37] but for 1e-7 of the time (seeds
// fixed). With half of the noise it is 0.159, with twice as much 0.401, and never without.
func TestTheYardstickHasItsNoise(t *testing.T) {
	const epsilon, delta, people, runs = 1, 1e-6, 10, 2000
	mu, err := privacy.MuFor(epsilon, delta)
	if err != nil {
		t.Fatal(err)
	}
	theta := []float64{1 / mu / 2 / people}
	src, wrong := rand.NewChaCha8([32]byte{25, 6}), 0
	for range runs {
		f, err := baseline.NewFresh(baseline.Setting{Family: family.Linear{}, Dimension: 1, Radius: 1, Horizon: 100,
			Kappa: 1, Failure: 0.05, Source: src}, theta, epsilon, delta, 1, people, 2)
		if err != nil {
			t.Fatal(err)
		}
		for range people {
			if _, err := f.Choose([][]float64{{1}}); err != nil {
				t.Fatal(err)
			}
			if err := f.Learn(theta[0]); err != nil { // the mean reward: a score of 0
				t.Fatal(err)
			}
		}
		arm, err := f.Choose([][]float64{{1}, {-1}})
		if err != nil {
			t.Fatal(err)
		}
		wrong += arm
	}
	if share := float64(wrong) / runs; math.Abs(share-0.31) > 0.06 {
		t.Errorf("%.3f of the estimates have the wrong sign", share)
	}
}

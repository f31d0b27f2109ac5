package joint_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/riffle-dp/riffle/pkg/convex"
	"github.com/riffle-dp/riffle/pkg/glm/family"
	"github.com/riffle-dp/riffle/pkg/learn/joint"
)

// In every family of rewards and at points of every norm up to the radius, what a sum of gradients counts on holds when
// a record is replaced by another, and when one leaves it for the sum of the other kind: that costs the square of the
// longest gradient at both, so that sqrt 2 times its length counts. In the linear family this is more than the distance
// of two gradients, and it is the bound, up to 2 %: the one without the factor, and the distance alone, are too small.
func TestGradientsOfEveryFamilyStayInTheirBound(t *testing.T) {
	families := map[string]family.Family{"linear": family.Linear{}, "logistic": family.Logistic{},
		"probit": family.Probit{}}
	for name, most := range map[string]float64{family.NamePoisson: 4, family.NameGaussian: 1} {
		f, err := family.New(name, most)
		if err != nil {
			t.Fatal(err)
		}
		families[name] = f
	}
	rng := rand.New(rand.NewPCG(25, 6))
	for name, f := range families {
		for _, size := range []float64{0, 0.5, 1, 2, 3} {
			theta := []float64{size * 0.6, size * -0.8}
			bound, moved, longest := joint.GradientSensitivity(f, theta), 0.0, 0.0
			gradient := func(angle, reward float64) []float64 {
				arm := []float64{math.Cos(angle), math.Sin(angle)}
				factor := f.Mean(convex.Dot(arm, theta)) - reward
				return []float64{factor * arm[0], factor * arm[1]}
			}
			one := func() []float64 {
				reward := f.MinReward()
				if rng.IntN(2) == 0 {
					reward = f.MaxReward()
				}
				return gradient(2*math.Pi*rng.Float64(), reward)
			}
			along := math.Atan2(theta[1], theta[0]) // where residuals are longest
			ends := [][]float64{gradient(along, f.MinReward()), gradient(along+math.Pi, f.MaxReward())}
			for range 4000 {
				x, y := one(), one()
				moved = max(moved, math.Hypot(x[0]-y[0], x[1]-y[1]))
				longest = max(longest, convex.Norm(x), convex.Norm(ends[0]), convex.Norm(ends[1]))
			}
			if bound.L2 < moved || bound.L2 < math.Sqrt2*longest {
				t.Errorf("%s at a norm of %v: gradients are up to %v apart and %v long, which is %v for one that "+
					"leaves; the bound is %v", name, size, moved, longest, math.Sqrt2*longest, bound.L2)
			}
			if reached := max(moved, math.Sqrt2*longest); reached < 0.98*bound.L2 && name == "linear" {
				t.Errorf("%s at a norm of %v: %v of a bound of %v is reached", name, size, reached, bound.L2)
			}
			if bound.Dim != 4 { // each coordinate's rounding counts twice
				t.Errorf("%s: rounding counts for %d coordinates", name, bound.Dim)
			}
		}
	}
}

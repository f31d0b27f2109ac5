package family_test

import (
	"math"
	"testing"

	"github.com/riffle-dp/riffle/pkg/glm/family"
)

// The slope of the bounded score is at most the clip times the mean absolute residual, which is the most of any score
// with values in such an interval, and near it where counts are not rare.
func TestBoundedScoreHasNearlyTheLargestSlope(t *testing.T) {
	for _, c := range []familyCase{{"poisson", 5}, {"poisson", 40}} {
		f := c.build(t)
		score := family.Bounded(f)
		for z := -3.0; z <= 3; z += 0.125 {
			absolute := 0.0
			for k := 0.0; k <= c.r; k++ {
				log, _ := math.Lgamma(k + 1)
				absolute += math.Exp(k*z-log-f.LogPartition(z)) * math.Abs(k-f.Mean(z))
			}
			share := score.Variance(z) / (family.DefaultScoreClip * absolute)
			if share > 1+1e-9 {
				t.Errorf("%v: the slope at %v is %v of the largest", c, z, share)
			}
			if z >= 0 && z <= 2 && share < 0.84 {
				t.Errorf("%v: the slope at %v is only %v of the largest", c, z, share)
			}
		}
	}
}

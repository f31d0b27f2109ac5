package statistic

import (
	"math"

	"github.com/riffle-dp/riffle/pkg/convex"
	"github.com/riffle-dp/riffle/pkg/glm/family"
)

// predictionClip is by how much of the range of rewards, on either side of it, a prediction of ClippedGradient may
// leave it: rewards in [-1, 1] have predictions in [-2, 2].
const predictionClip = 0.5

// predictionRange is where the predictions of ClippedGradient are clipped to.
func predictionRange(f family.Response) (least, most float64) {
	room := predictionClip * family.RewardSpan(f)
	return f.MinReward() - room, f.MaxReward() + room
}

// appendClipped appends the statistic ClippedGradient of a clipped record.
func (s Statistic) appendClipped(dst []float64, r Record) []float64 {
	least, most := predictionRange(s.Family)
	residual := math.Max(least, math.Min(s.Family.Mean(convex.Dot(r.Arm, s.Theta)), most)) - r.Reward
	for _, v := range r.Arm {
		dst = append(dst, residual*v)
	}
	return dst
}

// clippedBounds encloses the vectors of ClippedGradient: a residual is at most rho, so that two are 2 rho apart.
func (s Statistic) clippedBounds() Bounds {
	least, most := predictionRange(s.Family)
	rho := math.Max(most-s.Family.MinReward(), s.Family.MaxReward()-least)
	return box(s.ArmDim, rho, 2*rho)
}

package statistic

import (
	"math"

	"github.com/riffle-dp/riffle/pkg/convex"
	"github.com/riffle-dp/riffle/pkg/glm/family"
)

const (
	// predictionClip is by how much of the length of the range of rewards a prediction of ClippedGradient may leave
	// that range, on either side of it: rewards in [-1, 1] have predictions in [-2, 2].
	predictionClip = 0.5
	// clippedCells is the number of cells of the angle for the ball of clippedBounds.
	clippedCells = 1 << 11
)

// clippedMean is the prediction of ClippedGradient at the score z.
func clippedMean(f family.Response, z float64) float64 {
	room := predictionClip * family.RewardSpan(f)
	return math.Max(f.MinReward()-room, math.Min(f.Mean(z), f.MaxReward()+room))
}

// appendClipped appends the statistic ClippedGradient of a clipped record.
func (s Statistic) appendClipped(dst []float64, r Record) []float64 {
	residual := clippedMean(s.Family, convex.Dot(r.Arm, s.Theta)) - r.Reward
	for _, v := range r.Arm {
		dst = append(dst, residual*v)
	}
	return dst
}

// clippedBounds encloses the vectors of ClippedGradient in a ball, as gradientBounds does those of Gradient, with the
// clipped mean in place of mu. Its proof needs no more of the mean than that it increases: the radius about c theta/
// |theta|, c >= 0, is the largest m^2 - 2 c m a + c^2 over a = cos(phi), whose m is at least 0 and increases with a. In
// a cell [a', a] of the angle this is convex in m and falls in a, so that it is largest at a' and one of m(a') and
// m(a). The radius is convex in c.
func (s Statistic) clippedBounds() Bounds {
	d, size := s.ArmDim, convex.Norm(s.Theta)
	m := func(a float64) float64 { // the longer of both branches
		return math.Max(0, math.Max(clippedMean(s.Family, size*a)-s.Family.MinReward(),
			s.Family.MaxReward()-clippedMean(s.Family, -size*a)))
	}
	var cos, lengths [clippedCells + 1]float64
	for i := range cos {
		cos[i] = math.Cos(math.Pi * float64(i) / clippedCells)
		lengths[i] = m(cos[i])
	}
	distance := func(c float64) float64 {
		largest := 0.0
		for i := range clippedCells {
			for _, v := range [2]float64{lengths[i], lengths[i+1]} {
				largest = math.Max(largest, v*(v-2*c*cos[i+1]))
			}
		}
		return math.Sqrt(largest + c*c)
	}
	centre := 0.0
	if size > 0 {
		centre = goldenMinimum(distance, 0, lengths[0], 1e-6)
	}
	b := box(d, lengths[0], 2*math.Min(distance(centre), lengths[0]))
	t := newAngles()
	reach := make([]float64, angleCells)
	for i := range reach {
		reach[i] = m(t.cos[i])
	}
	for j := range d {
		c := direction(s.Theta, size, j)
		b.Upper[j], b.Lower[j] = support(t, reach, c), -support(t, reach, -c)
	}
	if d == 1 {
		b.Diameter = math.Min(b.Diameter, b.Upper[0]-b.Lower[0])
	}
	return b
}

package population

import (
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/riffle-dp/riffle/pkg/glm"
)

// draw returns a reward of a family at the score z = <x, theta>. It is an environment's reward, not a noise: its floating-point
// sampling decides nothing about privacy.
func draw(f glm.Family, z float64, r *rand.Rand) (float64, error) {
	switch f.Name() {
	case glm.FamilyLogistic, glm.FamilyProbit:
		if r.Float64() < f.Mean(z) {
			return 1, nil
		}
		return 0, nil
	case glm.FamilyPoisson:
		return drawPoisson(z, int(f.MaxReward()), r), nil
	case glm.FamilyGaussian:
		return drawGaussian(z, f.MaxReward(), r), nil
	}
	return 0, fmt.Errorf("%w: no rewards can be drawn for the family %q", ErrOption, f.Name())
}

// drawPoisson draws k in {0, ..., R} with probability proportional to exp(kz)/k!.
func drawPoisson(z float64, R int, r *rand.Rand) float64 {
	weights := make([]float64, R+1)
	top, log := 0.0, 0.0 // log weight, from 0 at k = 0; taken relative to the largest, which keeps exp in range
	for k := 1; k <= R; k++ {
		log += z - math.Log(float64(k))
		weights[k] = log
		top = math.Max(top, log)
	}
	total := 0.0
	for k, w := range weights {
		weights[k] = math.Exp(w - top)
		total += weights[k]
	}
	u := r.Float64() * total
	for k, w := range weights {
		if u -= w; u < 0 {
			return float64(k)
		}
	}
	return float64(R) // u was total to rounding
}

// drawGaussian draws from N(z, 1) conditioned on [0, R], by rejection from the uniform distribution on the part of [0, R] where
// the density is above exp(-37) of its peak; what is cut off has a probability below 1e-15. At least one proposal in forty is
// accepted, wherever z is.
func drawGaussian(z, R float64, r *rand.Rand) float64 {
	if z > R/2 { // R - r has the density of r at R - z; this keeps the peak's side simple
		return R - drawGaussian(R-z, R, r)
	}
	const drop = 37
	peak := math.Max(z, 0)
	low := math.Max(0, z-math.Sqrt(2*drop))
	high := z + math.Sqrt(2*drop)
	if z < 0 { // the same root without cancellation
		high = 2 * drop / (math.Sqrt(z*z+2*drop) - z)
	}
	high = math.Min(high, R)
	for {
		x := low + (high-low)*r.Float64()
		if r.Float64() < math.Exp(-(x-peak)*(x+peak-2*z)/2) {
			return x
		}
	}
}

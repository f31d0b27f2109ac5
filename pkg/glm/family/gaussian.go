package family

import (
	"fmt"
	"math"
)

// MaxGaussianReward is the largest R of the gaussian family.
const MaxGaussianReward = 1e6

const (
	// gaussianNodes Gauss-Legendre nodes integrate the density to about 1e-15: over the part kept the density is
	// exp(-37u) or exp(-37u^2) at worst, whose Chebyshev coefficients beyond degree 80 are below 1e-17.
	gaussianNodes = 40
	// gaussianDrop is the exponent, below the peak, at which the density is cut off: exp(-37) = 9e-17.
	gaussianDrop = 37
)

// gaussianWidth is the length of the range of rewards in standard deviations: those of a normal law in the middle of
// the range lie in it with probability 95 %.
const gaussianWidth = 4

// Gaussian is a normal law of standard deviation R/4, conditioned on [0, R]: the exponential family of the reward as a
// position in its range, t = (2r - R)/R in [-1, 1], with density proportional to exp(azt - 2t^2). At the score 0 the
// mean is the middle of the range, and its slope, by the choice of a, a quarter of the range, as in the logistic
// family. So what a score means does not depend on the range, be it of grades, minutes or money, and a bound on the
// parameter's norm leaves means near an end of it within reach. It is not a normal reward clipped to [0, R]: clipping
// would bias the mean. Build it with New.
//
// The loss is that of the exponential family times R/(2a), the dispersion, so that its derivative is the mean reward.
//
// Its moments are integrals of positive functions by quadrature. The textbook formulas in phi and Phi subtract numbers
// of size z^2 to get a variance of size 1/z^2, and divide 0 by 0 in the tails.
type Gaussian struct {
	r float64
	a float64 // about 2.58
}

func newGaussian(maxReward float64) (Family, error) {
	if !(maxReward > 0 && maxReward <= MaxGaussianReward) {
		return nil, fmt.Errorf("%w: gaussian rewards lie in [0, R] with R in (0, %g], not %v",
			ErrMaxReward, float64(MaxGaussianReward), maxReward)
	}
	_, _, middle := gaussianMoments(gaussianWidth / 2)
	return Gaussian{r: maxReward, a: gaussianWidth * gaussianWidth / (8 * middle)}, nil
}

// gaussianMoments gives log of the integral of exp(zu - u^2/2) over [0, W], W = gaussianWidth, and the mean and
// variance of the density. u is the reward in standard deviations.
func gaussianMoments(z float64) (logZ, mean, variance float64) {
	const w = gaussianWidth
	if z > w/2 { // reflect u -> W-u: the density of W-u at z is the density of u at W-z
		logZ, mean, variance = gaussianMoments(w - z)
		return logZ + w*(z-w/2), w - mean, variance
	}
	peak := math.Max(z, 0) // z <= W/2, so the peak is inside [0, W]
	lo := math.Max(0, z-math.Sqrt(2*gaussianDrop))
	hi := z + math.Sqrt(2*gaussianDrop)
	if z < 0 { // -zu + u^2/2 = drop, in the form without cancellation
		hi = 2 * gaussianDrop / (math.Sqrt(z*z+2*gaussianDrop) - z)
	}
	width := math.Min(hi, w) - lo
	// The exponent relative to the peak is -(u-z)^2/2 + (peak-z)^2/2 = -(u-peak)(u+peak-2z)/2.
	var density [gaussianNodes]float64
	var total, first float64
	for i, v := range gaussianRule.node {
		u := lo + width*v
		density[i] = gaussianRule.weight[i] * math.Exp(-(u-peak)*(u+peak-2*z)/2)
		total += density[i]
		first += density[i] * v
	}
	v0 := first / total
	var second float64
	for i, v := range gaussianRule.node {
		second += density[i] * (v - v0) * (v - v0)
	}
	return peak*(z-peak/2) + math.Log(width*total), lo + width*v0, width * width * second / total
}

// at is the moments at the score z: with t = 2u/W - 1, azt - 2t^2 is (W/2 + 2az/W) u - u^2/2 and what does not depend
// on u.
func (g Gaussian) at(z float64) (logZ, mean, variance float64) {
	return gaussianMoments(gaussianWidth/2 + 2*g.a*z/gaussianWidth)
}

// LogPartition is R/(2a) times the log of the integral of exp(azt - 2t^2), shifted so that its derivative is the mean.
func (g Gaussian) LogPartition(z float64) float64 {
	logZ, _, _ := g.at(z)
	return g.Dispersion() * logZ
}

// Mean implements Family.
func (g Gaussian) Mean(z float64) float64 {
	_, mean, _ := g.at(z)
	return math.Max(0, math.Min(g.r*(mean/gaussianWidth), g.r))
}

// Variance is mu', aR/2 times the variance of t.
func (g Gaussian) Variance(z float64) float64 {
	_, _, v := g.at(z)
	return math.Min(g.a*g.r/2*v*(4.0/(gaussianWidth*gaussianWidth)), g.ceiling()) // math.Min keeps a NaN
}

// ceiling bounds mu' for every z: the density of t is exp(-2t^2) times a log-concave function, so its variance is at
// most 1/4 (Brascamp-Lieb).
func (g Gaussian) ceiling() float64 { return g.a * g.r / 2 * 4 / (gaussianWidth * gaussianWidth) }

// Dispersion is R/(2a): the reward is R/2 (1 + t), and its variance R/(2a) times mu'.
func (g Gaussian) Dispersion() float64 { return g.r / (2 * g.a) }

// SelfConcordance is 2a, the length of the range of at.
func (g Gaussian) SelfConcordance(float64) float64 { return 2 * g.a }

// MaxVariance searches |z| <= S with an error margin.
func (g Gaussian) MaxVariance(S float64) float64 { return canonicalMaxVariance(g, S, g.ceiling()) }

// Smoothness implements Family.
func (g Gaussian) Smoothness(float64) (second, third float64) {
	return canonicalSmoothness(2*g.a, g.ceiling())
}

// Name, MinReward, MaxReward and Symmetric implement Family.
func (Gaussian) Name() string         { return NameGaussian }
func (Gaussian) MinReward() float64   { return 0 }
func (g Gaussian) MaxReward() float64 { return g.r }
func (Gaussian) Symmetric() bool      { return true }

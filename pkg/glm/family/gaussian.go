package family

import (
	"fmt"
	"math"

	"gonum.org/v1/gonum/integrate/quad"
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

// Gaussian is N(z, 1) conditioned on [0, R]: the exponential family on [0, R] with base density exp(-r^2/2). It is not
// a Gaussian reward clipped to [0, R]: clipping would bias the mean. Build it with New.
//
// Its moments are integrals of positive functions by quadrature. The textbook formulas in phi and Phi subtract numbers
// of size z^2 to get a variance of size 1/z^2, and divide 0 by 0 in the tails.
type Gaussian struct {
	r    float64
	rule *gaussianRule
}

type gaussianRule struct{ node, weight [gaussianNodes]float64 } // on [0, 1]

func newGaussian(maxReward float64) (Family, error) {
	if !(maxReward > 0 && maxReward <= MaxGaussianReward) {
		return nil, fmt.Errorf("%w: gaussian rewards lie in [0, R] with R in (0, %g], not %v",
			ErrMaxReward, float64(MaxGaussianReward), maxReward)
	}
	rule := new(gaussianRule)
	quad.Legendre{}.FixedLocations(rule.node[:], rule.weight[:], 0, 1)
	return Gaussian{r: maxReward, rule: rule}, nil
}

// moments gives log of the integral of exp(zr - r^2/2) over [0, R], and the mean and variance of the density.
func (g Gaussian) moments(z float64) (logZ, mean, variance float64) {
	if z > g.r/2 { // reflect r -> R-r: the density of R-r at z is the density of r at R-z
		logZ, mean, variance = g.moments(g.r - z)
		return logZ + g.r*(z-g.r/2), g.r - mean, variance
	}
	peak := math.Max(z, 0) // z <= R/2, so the peak is inside [0, R]
	lo := math.Max(0, z-math.Sqrt(2*gaussianDrop))
	hi := z + math.Sqrt(2*gaussianDrop)
	if z < 0 { // -zr + r^2/2 = drop, in the form without cancellation
		hi = 2 * gaussianDrop / (math.Sqrt(z*z+2*gaussianDrop) - z)
	}
	width := math.Min(hi, g.r) - lo
	// The exponent relative to the peak is -(r-z)^2/2 + (peak-z)^2/2 = -(r-peak)(r+peak-2z)/2.
	var density [gaussianNodes]float64
	var total, first float64
	for i, u := range g.rule.node {
		r := lo + width*u
		density[i] = g.rule.weight[i] * math.Exp(-(r-peak)*(r+peak-2*z)/2)
		total += density[i]
		first += density[i] * u
	}
	u0 := first / total
	var second float64
	for i, u := range g.rule.node {
		second += density[i] * (u - u0) * (u - u0)
	}
	return peak*(z-peak/2) + math.Log(width*total), lo + width*u0, width * width * second / total
}

// LogPartition is the log of the integral of exp(zr - r^2/2) over r in [0, R].
func (g Gaussian) LogPartition(z float64) float64 {
	logZ, _, _ := g.moments(z)
	return logZ
}

// Mean implements Family.
func (g Gaussian) Mean(z float64) float64 {
	_, mean, _ := g.moments(z)
	return math.Max(0, math.Min(mean, g.r))
}

// Variance implements Family.
func (g Gaussian) Variance(z float64) float64 {
	_, _, v := g.moments(z)
	return math.Min(v, g.ceiling()) // rounding may exceed the bound; math.Min keeps a NaN
}

// ceiling bounds the variance for every z: the density is exp(-r^2/2) times a log-concave function, so the variance is
// at most 1 (Brascamp-Lieb), and at most R^2/4 on any interval of length R.
func (g Gaussian) ceiling() float64 { return math.Min(1, g.r*g.r/4) }

// SelfConcordance is R, as for every canonical family on [0, R].
func (g Gaussian) SelfConcordance(float64) float64 { return g.r }

// MaxVariance searches |z| <= S with an error margin.
func (g Gaussian) MaxVariance(S float64) float64 { return canonicalMaxVariance(g, S, g.ceiling()) }

// Smoothness implements Family.
func (g Gaussian) Smoothness(float64) (second, third float64) {
	return canonicalSmoothness(g.r, g.ceiling())
}

// Name, MinReward, MaxReward and Symmetric implement Family. The family's centre of symmetry is z = R/2, not 0.
func (Gaussian) Name() string         { return NameGaussian }
func (Gaussian) MinReward() float64   { return 0 }
func (g Gaussian) MaxReward() float64 { return g.r }
func (g Gaussian) Symmetric() bool    { return false }

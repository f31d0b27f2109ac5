package family

import "math"

// Linear is the linear model of the linear bandits' papers: rewards in [-1, 1] whose mean is the score itself,
// mu(z) = z, with the loss of least squares, z^2/2 - rz. It is not an exponential family of the reward: like probit it
// has a matching loss, which is sound because a reward in [-1, 1] has variance at most 1 - z^2 <= 1 = mu'. The zero
// value is ready to use.
//
// The model holds where |z| <= 1. Beyond it, as at an estimate of norm above 1, Mean is still z, so that the loss stays
// the square; the bounds of the statistics count with that.
type Linear struct{}

// LogPartition is z^2/2.
func (Linear) LogPartition(z float64) float64 { return z * z / 2 }

// Mean is z, also where no reward has such a mean.
func (Linear) Mean(z float64) float64 { return z }

// Variance is mu' = 1, an upper bound of the reward's variance. It keeps a NaN.
func (Linear) Variance(z float64) float64 {
	if math.IsNaN(z) {
		return z
	}
	return 1
}

// SelfConcordance is 0: mu' is constant.
func (Linear) SelfConcordance(float64) float64 { return 0 }

// MaxVariance is 1.
func (Linear) MaxVariance(float64) float64 { return 1 }

// Smoothness is 0: mu' is constant.
func (Linear) Smoothness(float64) (second, third float64) { return 0, 0 }

// Name, MinReward, MaxReward, Dispersion and Symmetric implement Family.
func (Linear) Name() string        { return NameLinear }
func (Linear) MinReward() float64  { return -1 }
func (Linear) MaxReward() float64  { return 1 }
func (Linear) Symmetric() bool     { return true }
func (Linear) Dispersion() float64 { return 1 }

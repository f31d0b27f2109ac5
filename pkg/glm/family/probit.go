package family

import "math"

// invSqrt2Pi is the standard normal density at 0.
const invSqrt2Pi = 0.39894228040143267794

// Probit is the Bernoulli reward with success probability Phi(z), the standard normal distribution function, under the
// matching loss m(z) = z Phi(z) + phi(z). The zero value is ready to use.
//
// The gradient (Phi(<x,theta>) - r)x belongs to the matching loss, not to the probit likelihood: the matching loss is
// convex, and its expectation is least at the true parameter. The price is mu' = phi >= Phi(1-Phi) = Var(r), so that
// every variance computed from mu' is an over-estimate (by at most a factor 1/0.6266), and a self-concordance constant
// S instead of 1.
type Probit struct{}

// LogPartition is z Phi(z) + phi(z).
func (p Probit) LogPartition(z float64) float64 {
	return math.Max(0, z*p.Mean(z)+p.Variance(z))
}

// Mean is Phi(z).
func (Probit) Mean(z float64) float64 { return math.Erfc(-z/math.Sqrt2) / 2 }

// Variance is phi(z).
func (Probit) Variance(z float64) float64 { return invSqrt2Pi * math.Exp(-z*z/2) }

// SelfConcordance is S: the second derivative of mu is -z mu'.
func (Probit) SelfConcordance(S float64) float64 { return math.Abs(S) }

// MaxVariance is phi(0), attained at z = 0.
func (Probit) MaxVariance(float64) float64 { return invSqrt2Pi }

// Smoothness follows from the extremes: the second derivative of mu is -z phi(z), at most phi(1), the third
// (z^2-1)phi(z), at most phi(0).
func (Probit) Smoothness(float64) (second, third float64) { return 0.2419707246, invSqrt2Pi }

// Name, MinReward, MaxReward, Dispersion and Symmetric implement Family.
func (Probit) Name() string        { return NameProbit }
func (Probit) MinReward() float64  { return 0 }
func (Probit) MaxReward() float64  { return 1 }
func (Probit) Symmetric() bool     { return true }
func (Probit) Dispersion() float64 { return 1 }

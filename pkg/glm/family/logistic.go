package family

import "math"

// Logistic is the Bernoulli reward with success probability mu(z) = 1/(1+exp(-z)). The zero value is ready to use.
type Logistic struct{}

// LogPartition is log(1+exp(z)), written so that neither end overflows.
func (Logistic) LogPartition(z float64) float64 {
	return math.Max(z, 0) + math.Log1p(math.Exp(-math.Abs(z)))
}

// Mean implements Family.
func (Logistic) Mean(z float64) float64 {
	e := math.Exp(-math.Abs(z))
	if z < 0 {
		return e / (1 + e)
	}
	return 1 / (1 + e)
}

// Variance is mu(1-mu).
func (Logistic) Variance(z float64) float64 {
	e := math.Exp(-math.Abs(z))
	return math.Min(0.25, e/((1+e)*(1+e)))
}

// SelfConcordance is 1: the second derivative of mu is mu'(1-2mu).
func (Logistic) SelfConcordance(float64) float64 { return 1 }

// MaxVariance is 1/4, attained at z = 0.
func (Logistic) MaxVariance(float64) float64 { return 0.25 }

// Smoothness follows from the extremes: the second derivative of mu is 1/(6 sqrt 3) at mu = 1/2 +- sqrt(3)/6, the third
// is mu'(1-6mu') and has absolute value 1/8 at z = 0.
func (Logistic) Smoothness(float64) (second, third float64) { return 0.0962250449, 0.125 }

// Name, MinReward, MaxReward, Dispersion and Symmetric implement Family.
func (Logistic) Name() string        { return NameLogistic }
func (Logistic) MinReward() float64  { return 0 }
func (Logistic) MaxReward() float64  { return 1 }
func (Logistic) Symmetric() bool     { return true }
func (Logistic) Dispersion() float64 { return 1 }

// Package family holds the reward families: a log-partition m, the mean reward mu = m' and its derivatives, on bounded
// rewards. Each family is a file; New knows them by name.
//
//	family.go           the interface, and the loss of one record
//	logistic.go, probit.go, poisson.go, gaussian.go, linear.go
//	bounded_score.go    the response whose residuals one record moves little
//	new.go              families by name
//	environment.go      synthetic populations, for tests and examples
//
// Every bound is proved in the comment of its function, error margins included.
package family

import (
	"errors"
	"math"

	"github.com/riffle-dp/riffle/pkg/convex"
)

// Names of the reward families that New knows.
const (
	NameLogistic = "logistic"
	NameProbit   = "probit"
	NamePoisson  = "poisson"
	NameGaussian = "gaussian"
	NameLinear   = "linear"
)

var (
	// ErrUnknown is returned by New for a name it does not know.
	ErrUnknown = errors.New("glm: unknown reward family")
	// ErrMaxReward is returned by New for a largest reward that the family cannot have.
	ErrMaxReward = errors.New("glm: invalid largest reward")
)

// Family is the distribution of rewards given the linear score z = <x, theta>, in the form that a generalized linear
// model takes: a convex log-partition m(z) whose derivative is the mean reward mu(z). Rewards lie in
// [MinReward(), MaxReward()].
// The loss of one record (x, r) is m(<x,theta>) - r<x,theta>, its gradient (mu(<x,theta>) - r)x, its Hessian
// mu'(<x,theta>)xx'.
//
// Every method is a pure function, safe for concurrent use, finite for finite z; a NaN argument gives NaN.
//
// Three families are exponential families of the reward (logistic, poisson, gaussian). Probit and linear are not: their
// losses are the matching losses of their links, convex and unbiased at the true parameter, but not likelihoods.
type Family interface {
	Response
	// LogPartition is m(z), up to the family's own additive constant.
	LogPartition(z float64) float64
	// SelfConcordance is a constant M such that M mu'(z) bounds the absolute second derivative of mu for |z| <= S.
	SelfConcordance(S float64) float64
}

// Response is how a reward depends on the score: all that the statistics need of a family.
type Response interface {
	// Name is the name by which New builds the family.
	Name() string
	// Mean is mu(z) = m'(z), in [MinReward(), MaxReward()] where the model holds, increasing. Linear alone leaves this
	// range, where no reward has the mean z.
	Mean(z float64) float64
	// Variance is mu'(z) >= 0. Times Dispersion it is the variance of the reward for the exponential families, and an
	// upper bound of it for the others.
	Variance(z float64) float64
	// Dispersion is the phi of generalized linear models, above 0: 1 for all but gaussian.
	Dispersion() float64
	// MinReward is the smallest reward: -1 for linear, 0 for all others.
	MinReward() float64
	// MaxReward is R, the largest reward.
	MaxReward() float64
	// MaxVariance is an upper bound of mu'(z) over |z| <= S, at most 1e-9 (relative) above the supremum.
	MaxVariance(S float64) float64
	// Smoothness gives upper bounds of the absolute second and third derivatives of mu over |z| <= S. They carry the
	// error margins of the sensitivity bounds and need not be tight.
	Smoothness(S float64) (second, third float64)
	// Symmetric reports whether mu(-z) = MinReward() + MaxReward() - mu(z) for every z.
	Symmetric() bool
}

// RewardSpan is the length of the range of rewards: it bounds |r - mu| where the model holds.
func RewardSpan(f Response) float64 { return f.MaxReward() - f.MinReward() }

// MaxResidual bounds |mu(z) - r| for |z| <= S and every reward r. It is the rewards' span, except where the mean leaves
// their range.
func MaxResidual(f Response, S float64) float64 {
	return math.Max(RewardSpan(f), math.Max(f.Mean(S)-f.MinReward(), f.MaxReward()-f.Mean(-S)))
}

// Loss is the loss of one record (x, r) at the score z = <x, theta>: m(z) - r z.
func Loss(f Family, z, r float64) float64 { return f.LogPartition(z) - r*z }

// canonicalMaxVariance bounds mu' of an exponential family over |z| <= S. ceiling is a bound of mu' that holds for
// every z. The fourth cumulant is at least -2 times the variance squared (the fourth central moment is at least the
// variance squared), so the curvature of mu', that cumulant times the dispersion, never falls below -2
// ceiling^2/dispersion.
func canonicalMaxVariance(f Family, S, ceiling float64) float64 {
	S = math.Abs(S)
	if math.IsNaN(S) {
		return math.NaN()
	}
	if math.IsInf(S, 0) {
		return ceiling
	}
	return math.Min(ceiling, convex.UpperMaximum(f.Variance, -S, S, 2*ceiling*ceiling/f.Dispersion(), 1e-10)*(1+1e-11))
}

// canonicalSmoothness bounds the second and third derivatives of mu, for an exponential family on a range of length R,
// by its third and fourth cumulants times the dispersion: |X - EX| <= R gives |kappa_3| <= R kappa_2 and
// -2 kappa_2^2 <= kappa_4 <= R^2 kappa_2, and kappa_2 <= R^2/4. w bounds mu'.
func canonicalSmoothness(R, w float64) (second, third float64) { return R * w, R * R * w }

package privacy

import (
	"fmt"
	"math"
)

// DeltaOfRho returns a delta such that rho-zCDP implies (epsilon, delta)-DP (Canonne, Kamath and Steinke, "The Discrete
// Gaussian for Differential Privacy", 2020, Proposition 12 with the Renyi divergence alpha rho):
//
//	delta = min over alpha > 1 of e^((alpha-1)(alpha rho - epsilon)) / (alpha-1) (1 - 1/alpha)^alpha
//
// Every alpha gives a bound, so that the search may miss the best one and the result still holds. It is rounded up: the
// logarithm's rounding is bounded by its terms, and a result too small for a double is the smallest one.
func DeltaOfRho(rho, epsilon float64) float64 {
	switch {
	case !(rho >= 0) || math.IsInf(rho, 1) || !(epsilon >= 0):
		return 1
	case rho == 0:
		return 0
	case math.IsInf(epsilon, 1):
		return math.SmallestNonzeroFloat64
	}
	terms := func(log float64) (cost, gain, rest float64) { // of the logarithm of delta, at alpha = 1 + e^log
		a := math.Exp(log)
		return a * (1 + a) * rho, a * epsilon, (1+a)*math.Log1p(1/a) + log
	}
	exponent := func(log float64) float64 {
		cost, gain, rest := terms(log)
		return cost - gain - rest
	}
	lo, hi := -30.0, math.Min(300, math.Log(2*(epsilon/rho)+2/math.Sqrt(rho)+2))
	for range 120 {
		third := (hi - lo) / 3
		if exponent(lo+third) < exponent(hi-third) {
			hi -= third
		} else {
			lo += third
		}
	}
	best := (lo + hi) / 2
	cost, gain, rest := terms(best)
	rounding := 2e-15 * (1 + cost + gain + math.Abs(rest) + 2*math.Abs(best))
	delta := math.Exp(cost - gain - rest + rounding)
	if math.IsNaN(delta) {
		return 1
	}
	return math.Min(1, math.Max(math.SmallestNonzeroFloat64, delta*(1+1e-15)))
}

// RhoFor returns the largest rho, rounded down, for which DeltaOfRho(rho, epsilon) is at most delta: a budget of zCDP,
// of which the parts add. It refuses what MuFor refuses.
func RhoFor(epsilon, delta float64) (float64, error) {
	if !(epsilon >= 0) || math.IsInf(epsilon, 1) {
		return 0, fmt.Errorf("%w: epsilon is %v, want a finite number >= 0", ErrTarget, epsilon)
	}
	if !(delta > 0 && delta < 1) {
		return 0, fmt.Errorf("%w: delta is %v, want a number strictly between 0 and 1", ErrTarget, delta)
	}
	lo, hi := 0.0, 1.0
	for DeltaOfRho(hi, epsilon) <= delta {
		lo, hi = hi, 2*hi
	}
	for i := 0; i < 1100 && hi-lo > 1e-14*hi; i++ {
		mid := lo + (hi-lo)/2
		if DeltaOfRho(mid, epsilon) <= delta {
			lo = mid
		} else {
			hi = mid
		}
	}
	return lo, nil
}

package privacy

import (
	"fmt"
	"math"
)

// AdvancedRounds splits a budget over equal rounds as Riffle's seed paper does for its optimiser, by advanced
// composition: each round gets epsilon/(2 sqrt(2 rounds ln(2/delta))) and delta/(2 rounds). It refuses a budget outside
// the range in which the split recomposes to at most epsilon, epsilon <= 2 ln(2/delta). Kept to compare with Compose,
// which needs far less noise.
func AdvancedRounds(epsilon, delta float64, rounds int) (roundEpsilon, roundDelta float64, err error) {
	if rounds < 1 || !(delta > 0 && delta < 1) || !(epsilon > 0 && epsilon <= 2*math.Log(2/delta)) {
		return 0, 0, fmt.Errorf("%w: advanced composition of epsilon %v, delta %v over %d rounds", ErrNeighbour, epsilon, delta, rounds)
	}
	r := float64(rounds)
	return epsilon / (2 * math.Sqrt(2*r*math.Log(2/delta))), delta / (2 * r), nil
}

// AdvancedComposition returns the epsilon of equal rounds at slack delta beyond the rounds' own (Dwork, Rothblum,
// Vadhan, 2010): roundEpsilon sqrt(2 rounds ln(1/slack)) + rounds roundEpsilon (e^roundEpsilon - 1).
func AdvancedComposition(roundEpsilon, slack float64, rounds int) float64 {
	r := float64(rounds)
	return roundEpsilon*math.Sqrt(2*r*math.Log(1/slack)) + r*roundEpsilon*math.Expm1(roundEpsilon)
}

// ConcentratedBudget returns the largest rho for which rho-zero-concentrated differential privacy implies (epsilon,
// delta)-DP by the simple conversion epsilon = rho + 2 sqrt(rho ln(1/delta)) (Bun, Steinke, 2016, Proposition 1.3). mu
// = sqrt(2 rho) is a lower bound on MuFor.
func ConcentratedBudget(epsilon, delta float64) (float64, error) {
	if !(epsilon >= 0) || math.IsInf(epsilon, 1) || !(delta > 0 && delta < 1) {
		return 0, fmt.Errorf("%w: epsilon %v, delta %v", ErrTarget, epsilon, delta)
	}
	l := math.Log(1 / delta)
	r := epsilon / (math.Sqrt(l+epsilon) + math.Sqrt(l)) // the difference of the roots, without cancellation
	return r * r, nil
}

package empirical

import (
	"fmt"
	"math"

	"gonum.org/v1/gonum/stat/distuv"

	"github.com/riffle-dp/riffle/pkg/privacy"
)

// Power is what the number of runs can show. It is computed for Gaussian noise, whose trade-off curve every certificate
// is made of, in one direction and with the best threshold.
type Power struct {
	// Expected is the lower bound to expect of a mechanism that is exactly as weak as the claim.
	Expected float64 `json:"expected"`
	// Found is the smallest true epsilon whose lower bound is above the claim with probability FoundWith or more.
	Found     float64 `json:"found"`
	FoundWith float64 `json:"found_with"`
}

// foundWith is Power.FoundWith.
const foundWith = 0.9

// The search for the best threshold goes through these, in deviations of the noise above the rival's mean.
const (
	firstThreshold = -1.0
	lastThreshold  = 8.0
	thresholdStep  = 0.05
)

// newPower computes the power of an attack with so many runs in each world. alpha is its error.
func newPower(claimed, delta float64, runs int, alpha float64) (Power, error) {
	mu, err := privacy.MuFor(claimed, delta)
	if err != nil {
		return Power{}, fmt.Errorf("empirical epsilon: %w", err)
	}
	p := Power{Expected: gaussianBound(mu, delta, runs, alpha, 0), FoundWith: foundWith}
	// Each rate is on the right side of its quantile with (1 - foundWith) / 2 to spare, so both are with foundWith.
	z := -distuv.UnitNormal.Quantile((1 - foundWith) / 2)
	lo, hi := mu, 2*mu
	for gaussianBound(hi, delta, runs, alpha, z) <= claimed {
		if lo, hi = hi, 2*hi; hi > 1e3 {
			return p, fmt.Errorf("%w: %d runs find nothing at delta %v; more are needed", ErrOptions, 2*runs, delta)
		}
	}
	for hi-lo > 1e-3*hi {
		if mid := (lo + hi) / 2; gaussianBound(mid, delta, runs, alpha, z) > claimed {
			hi = mid
		} else {
			lo = mid
		}
	}
	p.Found = privacy.Guarantee{Mu: hi}.Epsilon(delta)
	return p, nil
}

// gaussianBound is the largest bound over all thresholds where one record moves Gaussian noise by mu deviations, with
// both rates z of their own deviations worse than expected.
func gaussianBound(mu, delta float64, runs int, alpha, z float64) (best float64) {
	n := float64(runs)
	count := func(p, z float64) int {
		return int(math.Round(min(max(n*p+z*math.Sqrt(n*p*(1-p)), 0), n)))
	}
	for t := firstThreshold; t < lastThreshold; t += thresholdStep {
		r := Rates{TruePositives: count(distuv.UnitNormal.Survival(t-mu), -z),
			FalsePositives: count(distuv.UnitNormal.Survival(t), z)}
		if r.mayExceed(best, runs, delta, alpha) {
			best = max(best, r.bound(runs, delta, alpha))
		}
	}
	return best
}

package joint

import (
	"fmt"
	"math"
	"math/bits"

	"github.com/riffle-dp/riffle/pkg/learn"
	"github.com/riffle-dp/riffle/pkg/mechanism"
)

// The constants of the public experiments of "Shuffle and joint differential privacy for generalized linear contextual
// bandits" (Table 2 and Appendix B), where the paper's own are not given. What differs from those experiments:
// gradients over all rows, with noise by zCDP instead of their Renyi search; V grows by x x'; the rows of the two
// estimates are disjoint; the switch of theta_tau is decided at the end of the round before, for all people, and not
// only for one who turns out not to explore.
const (
	literalParts  = 3    // of epsilon and delta: the trees, the indicators, the optimiser
	literalClip   = 0.2  // of each row's gradient
	literalRate   = 10   // the k-th step, on the mean gradient, is this over sqrt k
	literalRidge  = 1e-5 // on the mean loss
	literalBurnIn = 10   // iterates that the mean leaves out
	literalWidth  = 4    // beta over sqrt(d ln(T/zeta))
	literalFloor  = 1e-12
	literalCalls  = 20000 // C1 is d R^2 kappa gamma^2 ln T over this
	naiveCalls    = 10    // up to so many calls the budget is split evenly
)

// literal sets them.
func (c *Config) literal(s learn.Setting) error {
	if math.IsInf(s.Epsilon, 1) || !(s.Delta > 0) {
		return fmt.Errorf("joint: variant %s needs a finite epsilon and a positive delta, not %v and %v", Literal,
			s.Epsilon,
			s.Delta)
	}
	d, r := float64(c.Dimension), c.Family.MaxReward()
	slope := c.Family.MaxVariance(c.Radius)
	privacy := 2 * math.Log(4/s.Delta) * math.Pow(math.Log(4*float64(c.Horizon)/s.Failure), 2) / (s.Epsilon / slope)
	statistics := 0.75 * d * math.Log(4*float64(c.Horizon)/s.Failure) / (r * r)
	lambda := privacy + statistics
	most, least := lambda+0.75*privacy, lambda-0.75*privacy
	if !(least > 0) {
		return fmt.Errorf("joint: variant %s has no positive lambda_min at epsilon %v", Literal, s.Epsilon)
	}
	c.LambdaV, c.LambdaH, c.FloorV, c.FloorH = lambda, lambda, literalFloor, literalFloor
	rho := simpleRho(s.Epsilon/literalParts, s.Delta/literalParts)
	levels := float64(bits.Len(uint(c.Leaves()-1)) + 1)
	c.NodeV = mechanism.Gaussian{Sigma: math.Sqrt(levels / (2 * rho))}
	c.NodeH = mechanism.Gaussian{Sigma: slope * math.Sqrt(levels/(2*rho))}
	c.widths(s, 1, literalWidth)
	c.Threshold = defaultThreshold / (c.Kappa * math.Pow(r, 4) * c.Radius * c.Radius * d)
	c.GrowthH = 1 + 5/(8*math.Sqrt(d)) + 0.05
	c.ExploreCalls = max(1, int(d*r*r*c.Kappa*c.Gamma*c.Gamma*math.Log(float64(c.Horizon))/literalCalls))
	c.SwitchCall = max(1, int(3*math.Log2(most/least+float64(c.Horizon)*slope*slope/(least*d))))
	epsilon, delta := perCall(s.Epsilon/literalParts, s.Delta/literalParts, c.ExploreCalls)
	c.RhoExplore = simpleRho(epsilon, delta)
	epsilon, delta = perCall(s.Epsilon/literalParts, s.Delta/literalParts, c.SwitchCall)
	c.RhoSwitch = simpleRho(epsilon, delta)
	c.Iterations, c.Skip, c.Ridge, c.Clip = epochs(epsilon), literalBurnIn, literalRidge, literalClip
	return nil
}

// simpleRho is the rho of an (epsilon, delta) by the conversion epsilon = rho + 2 sqrt(rho ln(1/delta)) of M. Bun and
// T. Steinke, "Concentrated differential privacy" (2016), which the paper uses. privacy.RhoFor gives more.
func simpleRho(epsilon, delta float64) float64 {
	l := math.Log(1 / delta)
	return math.Pow(math.Sqrt(l+epsilon)-math.Sqrt(l), 2)
}

// perCall splits (epsilon, delta) over so many calls: evenly up to ten, by advanced composition with half of delta as
// slack above.
func perCall(epsilon, delta float64, calls int) (float64, float64) {
	k := float64(calls)
	if calls <= naiveCalls {
		return epsilon / k, delta / k
	}
	lo, hi := 0.0, epsilon
	for range 100 {
		e := (lo + hi) / 2
		if math.Sqrt(2*k*math.Log(2/delta))*e+k*e*math.Expm1(e) < epsilon {
			lo = e
		} else {
			hi = e
		}
	}
	return lo, delta / (2 * k)
}

// epochs is the number of passes of a call with so much epsilon.
func epochs(epsilon float64) int {
	for i, most := range []float64{0.1, 0.3, 1, 2} {
		if epsilon <= most {
			return []int{15, 25, 50, 75}[i]
		}
	}
	return 100
}

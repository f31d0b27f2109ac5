package joint

import (
	"math"

	"github.com/riffle-dp/riffle/pkg/learn"
)

// The constants of the regret proof of "Shuffle and joint differential privacy for generalized linear contextual
// bandits" (sections 6.1 and J.1, equations (17)-(19) and (50)-(52)). The paper gives them up to "a sufficiently large
// constant"; these are derived anew from its argument:
//
//	G      = sqrt(lambda)/(2R) + (2R/sqrt(lambda)) (ln(det H*/lambda^d)/2 + d ln 2 + ln(1/delta_0))
//	gamma  = sqrt(lambda_max/lambda) ((2 + 2 M S)(G + S sqrt(lambda)) + sqrt((2 + 2 M S) nu_1))
//	beta   = sqrt(lambda_max/lambda) (q (G + S sqrt(lambda)) + sqrt(q nu_2)), q = 2 + 2 sqrt(lambda_max/lambda_min)
//	lambda = max(1, R^2 (d + ln(T/zeta)), B/eta), B the bound of matrixNoise
//
// G is the self-normalised bound of L. Faury, M. Abeille, C. Calauzenes, O. Fercoq, "Improved optimistic algorithms for
// logistic bandits" (2020), scaled to noise in [-R, R]; nu is the error of Descent (descentError); lambda_max and
// lambda_min are (1 +- eta) lambda. The circle (nu_1 depends on C1, and the bound of C1 on gamma) is cut by choosing C1
// and C2. If exploration needs more calls, the bound of the regret lapses; privacy never does. The number of iterations
// of Descent stays an option: the paper's, of the order of rho n^2/(d + ln(T/zeta)), is beyond reach, and nu counts
// with the number there is.

// relativeNoise is eta: the most that the noise of a released matrix is of lambda.
const relativeNoise = 0.25

// largestThreshold is never reached: linear rewards need no exploration, since their slope is known.
const largestThreshold = 1e12

// matrixNoise bounds the operator norm of the noise of every prefix sum of a tree of d x d matrices with m levels and T
// leaves, whose nodes have isotropic noise of deviation sigma, except with probability failure (a bound of the Gaussian
// orthogonal ensemble and a union over the leaves).
func matrixNoise(sigma float64, d, levels, leaves int, failure float64) float64 {
	return sigma * math.Sqrt(float64(levels)) *
		(math.Sqrt(2*float64(d)) + math.Sqrt(2*math.Log(2*float64(leaves)/failure)))
}

// selfNormalised is G for n rows with weights of at most w.
func selfNormalised(lambda, r float64, d, n int, w, failure float64) float64 {
	k := float64(d)
	return math.Sqrt(lambda)/(2*r) + 2*r/math.Sqrt(lambda)*
		(k/2*math.Log1p(w*float64(n)/(k*lambda))+k*math.Ln2+math.Log(1/failure))
}

// descentError bounds the loss of the mean iterate of Descent above its minimum (Lemma U.4 with explicit constants),
// summed over n rows of gradients of at most r, for noise of deviation sigma on every sum, in a set of the diameter;
// and gives the constant step, on the sum, for which it holds.
func descentError(n int, d, iterations int, r, ridge, radius, diameter, sigma, failure float64) (nu, step float64) {
	count, k, t := float64(n), float64(d), float64(iterations)
	lipschitz := r + ridge*radius/count
	v := sigma * sigma / (count * count)
	tail := math.Log(t / failure)
	xi := v * (k + 2*math.Sqrt(k*tail) + 2*tail)
	step = diameter / math.Sqrt(2*t*(lipschitz*lipschitz+xi)) / count
	nu = count * diameter * (math.Sqrt(2*(lipschitz*lipschitz+xi)/t) + math.Sqrt(2*v*math.Log(1/failure)/t))
	return nu, step
}

// proof sets the constants of the proof.
func (c *Config) proof(s learn.Setting) error {
	r, d := c.Family.MaxReward(), c.Dimension
	least := r * r * (float64(d) + math.Log(float64(c.Horizon)/s.Failure))
	part := s.Failure / 4
	ridge := func(sigma float64) float64 {
		return math.Max(math.Max(1, least), matrixNoise(sigma, d, c.Levels(), c.Leaves(), part)/relativeNoise)
	}
	c.LambdaV, c.LambdaH = ridge(c.NodeV.Deviation()), ridge(c.NodeH.Deviation())
	c.FloorV, c.FloorH = (1-relativeNoise)*c.LambdaV, (1-relativeNoise)*c.LambdaH
	c.Ridge = math.Max(c.LambdaV, c.LambdaH)
	c.Skip, c.Ellipsoid = 0, true
	selfConcordance := c.Family.SelfConcordance(c.Radius)
	failure := part / float64(c.ExploreCalls+c.SwitchCall)
	width := func(rho, q float64) (float64, float64) {
		sigma := 0.0
		if !math.IsInf(rho, 1) {
			sigma = 2 * r * math.Sqrt(float64(c.Iterations)/(2*rho))
		}
		nu, step := descentError(c.Horizon, d, c.Iterations, r, c.Ridge, c.Radius, 2*c.Radius, sigma, failure)
		g := selfNormalised(c.Ridge, r, d, c.Horizon, c.Family.MaxVariance(c.Radius), failure)
		return math.Sqrt(1+relativeNoise) * (q*(g+c.Radius*math.Sqrt(c.Ridge)) + math.Sqrt(q*nu)), step
	}
	c.Gamma, _ = width(c.RhoExplore, 2+2*selfConcordance*c.Radius)
	c.Beta, c.StepSize = width(c.RhoSwitch, 2+2*math.Sqrt((1+relativeNoise)/(1-relativeNoise)))
	c.Threshold = math.Min(largestThreshold,
		1/(c.Gamma*c.Gamma*c.Kappa*selfConcordance*selfConcordance*c.GrowthV))
	return nil
}

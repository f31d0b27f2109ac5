package learner

import (
	"math"

	"github.com/riffle-dp/riffle/pkg/glm/family"
)

// ProofInputs are the public numbers behind the confidence radius of one batch of the paper profile with proof
// constants. Its methods are derived, not copied: the constants of equations (8), (9) and (20)-(26) of Riffle's seed
// paper are lost in every copy at hand. They hold for the regularised cumulative loss with any ridge lambda, and for
// sub-Gaussian noise such as that of P_VEC.
type ProofInputs struct {
	Dimension int     // d
	MaxReward float64 // R, the length of the rewards' range
	Radius    float64 // S
	// SelfConcordance is M_sc: |mu''| <= M_sc mu' on |z| <= S.
	SelfConcordance float64
	// Failure is delta_0, the probability that one of the events fails; with 1/T^2 the expected regret of failures is
	// below 1.
	Failure float64
	// Eta in (0, 1) is the size allowed to the noise matrix N in units of lambda:
	// (1-eta) lambda I <= lambda I + N <= (1+eta) lambda I.
	Eta float64
}

// Covering is d ln 5 + ln(1/delta_0): the logarithm of the size of a net of the unit sphere over the failure
// probability.
func (in ProofInputs) Covering() float64 {
	return float64(in.Dimension)*math.Log(5) + math.Log(1/in.Failure)
}

// NoiseNorm bounds the operator norm of the noise matrix of a covariance release, except with probability delta_0, by
// 2 sqrt(2 v (d ln 9 + ln(2/delta_0))), from a 1/4-net. proxy is v, the sub-Gaussian variance proxy of one coordinate
// of the released vector; the coordinates are Frobenius-orthonormal, so u'Nu has the same proxy for every unit u.
func (in ProofInputs) NoiseNorm(proxy float64) float64 {
	return 2 * math.Sqrt(2*proxy*(float64(in.Dimension)*math.Log(9)+math.Log(2/in.Failure)))
}

// Ridge is the smallest lambda that both events allow: max(R^2 Covering, NoiseNorm/eta).
func (in ProofInputs) Ridge(proxy float64) float64 {
	return math.Max(in.MaxReward*in.MaxReward*in.Covering(), in.NoiseNorm(proxy)/in.Eta)
}

// ScoreNorm bounds || sum_s (r_s - mu_s) x_s || in the norm of the inverse regularised Hessian, except with probability
// delta_0: 2 sqrt(2 Covering) + 4 R Covering/(3 sqrt(lambda)). Inside a batch the arms are independent of the reward
// noise, so the bound follows from Bernstein's inequality on a net of 5^d points, with Var(r) <= mu'.
func (in ProofInputs) ScoreNorm(lambda float64) float64 {
	c := in.Covering()
	return 2*math.Sqrt(2*c) + 4*in.MaxReward*c/(3*math.Sqrt(lambda))
}

// Bracket bounds ||theta_k - theta*|| in the norm of the true regularised Hessian:
// (2+2 M_sc S)(ScoreNorm + S sqrt(lambda)) + sqrt((2+2 M_sc S) nu), nu being the optimiser's error in cumulative loss.
//
// Proof. L(theta_k) <= L(theta*) + nu. A Taylor expansion at theta* with the self-concordant lower bound of the
// curvature (|x.(theta_k - theta*)| <= 2S) gives D^2/(2+2 M_sc S) <= nu + (ScoreNorm + S sqrt(lambda)) D for the
// distance D; solve for D.
func (in ProofInputs) Bracket(lambda, nu float64) float64 {
	a := 2 + 2*in.SelfConcordance*in.Radius
	return a*(in.ScoreNorm(lambda)+in.Radius*math.Sqrt(lambda)) + math.Sqrt(a*nu)
}

// Gamma is the confidence width in the norm of the released matrix: Bracket times sqrt(lambda_max/lambda) =
// sqrt(1+eta). The warm-up batch, whose matrix V is unweighted, has another factor sqrt(kappa).
func (in ProofInputs) Gamma(lambda, nu float64) float64 {
	return math.Sqrt(1+in.Eta) * in.Bracket(lambda, nu)
}

// TunedWidth are the public numbers behind the confidence width of one batch of the paper profile with tuned constants.
// The width has the terms of the proof's (ProofInputs.Gamma; equations (8), (9) and (26)), with one constant in place
// of several:
//
//	c * sqrt( kappa (R^2 d ln T + 2 nu) + S^2 lambda )
//
// for sampling, for the optimiser, and for the ridge and the noise of the matrix. The errors are independent, hence the
// root of the sum of squares in place of the paper's sum, which is at most sqrt(3) times as large. 2 nu is
// (2 + 2 M_sc S) nu of ProofInputs.Bracket near the truth, where the loss is a quadratic. The last two terms grow with
// the noise of the releases: without them a set would shrink as noise grows, because lambda is part of the matrix in
// whose norm the width is measured.
type TunedWidth struct {
	Constant  float64 // c, PaperConfig.Width
	MaxReward float64 // R
	Dimension int     // d
	Horizon   int     // T
	Radius    float64 // S
	Lambda    float64 // of the released matrix
	Nu        float64 // the optimiser's error in cumulative loss: convex.SmoothError
	// Kappa is 1 for a matrix of weighted outer products, and the bound of 1/mu' for the warm-up's, which are
	// unweighted. It multiplies the terms that are bounded in the norm of the Hessian, sampling and optimiser.
	// S^2 lambda stands for lambda |theta - theta*|^2, which is the same for either matrix and has about this size
	// where nothing is known; its upper bound is four times as large, since both vectors have norm at most S. The paper
	// multiplies all three terms, and so does ProofConstants.
	Kappa float64
}

// Gamma is the width in the norm of the released matrix: measured, not proved.
func (w TunedWidth) Gamma() float64 {
	sampling := w.MaxReward * w.MaxReward * float64(w.Dimension) * math.Log(math.Max(2, float64(w.Horizon)))
	return w.Constant * math.Sqrt(w.Kappa*(sampling+2*w.Nu)+w.Radius*w.Radius*w.Lambda)
}

// TunedRidge is the tuned lambda of the design matrices: max(1, sqrt(2 v d) + sqrt(2 v ln(2 M/0.01))), the size of a
// Gaussian noise matrix of proxy v over M batches.
func TunedRidge(proxy float64, dimension, batches int) float64 {
	return math.Max(1, math.Sqrt(2*proxy*float64(dimension))+math.Sqrt(2*proxy*math.Log(200*float64(batches))))
}

// KappaBound is an upper bound of 1/mu'(z) over |z| <= S, at least 1: the paper's kappa when nothing better is known.
// mu' of every family is unimodal, so its minimum over an interval lies at an end.
func KappaBound(f family.Family, radius float64) float64 {
	return math.Max(1, 1/math.Min(f.Variance(radius), f.Variance(-radius)))
}

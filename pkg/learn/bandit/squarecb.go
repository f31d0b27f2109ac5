package bandit

import (
	"fmt"
	"math"

	"github.com/riffle-dp/riffle/pkg/glm"
	"github.com/riffle-dp/riffle/pkg/learn"
	"github.com/riffle-dp/riffle/pkg/learn/estimate"
)

// The defaults of SquareCB.
const (
	// squareMultiplier is the constant before gamma. The theory has squareLiteral, with which the algorithm explores
	// four times too much at 2^17 people.
	squareMultiplier = 10
	squareLiteral    = 1
	squareFirst      = 32 // people of the first epoch
)

var squareOptions = []string{"c_sq", "first", "batches", "c"}

// SquareCBJoint is SquareCB with a trusted curator: inverse gap weighting in epochs of doubling length, on the
// regression of each epoch's people by [estimate.ImproperJoint]. Its regret does not grow with the dimension.
//
// It is Algorithm 13 with Algorithm 5 and Theorem 6.4 (1) of "Near-optimal private learning in linear contextual
// bandits": regret sqrt(K) O~(T^(3/4) + sigma^(1/3) T^(2/3)). A person's record is used in the regression of one epoch,
// so the whole run gives everybody (epsilon, delta) in the sense of joint privacy. Differences: the first epoch is
// longer than one person; gamma has a constant; the paper prints a_t in the weights where the best arm must be. The
// error bound in gamma is the proof's without its constants and without ln(1/delta): (ln N/N)^(1/4) + (sigma/N)^(1/3),
// sigma the deviation of the noise over the sensitivity.
//
// Variant "literal" has the estimator's literal noise and the paper's constant before gamma. Options: "c_sq", that
// constant (10; literal 1), "first", people of the first epoch (32), "batches" and "c" of the estimator.
func SquareCBJoint(s learn.Setting) (*learn.Learner, error) {
	return squareCB(s, estimate.ImproperJoint, func(n, sigma, _ float64) float64 {
		return math.Pow(math.Log(n)/n, .25) + math.Cbrt(sigma/n)
	})
}

// SquareCBLocal is the same with [estimate.ImproperLocal], which asks for sums: any channel. It is Theorem 6.4 (2),
// regret sqrt(K) O~(sigma^(1/3) T^(5/6)), with the error bound (sigma^2 ln(N/delta)/N)^(1/6).
func SquareCBLocal(s learn.Setting) (*learn.Learner, error) {
	return squareCB(s, estimate.ImproperLocal, func(n, sigma, failure float64) float64 {
		return math.Pow(max(1, sigma*sigma)*math.Log(n/failure)/n, 1./6)
	})
}

// squareCB runs over an estimator whose root mean squared error is about so large, for n people, sigma and a failure
// probability.
func squareCB(
	s learn.Setting, regress estimate.Estimator, deviation func(n, sigma, failure float64) float64,
) (*learn.Learner, error) {
	if err := s.Check([]string{estimate.Literal}, squareOptions); err != nil {
		return nil, err
	}
	multiplier, first := s.Option("c_sq", squareMultiplier), s.Option("first", squareFirst)
	if s.Variant == estimate.Literal {
		multiplier = s.Option("c_sq", squareLiteral)
	}
	if !(multiplier > 0) || !(first >= 2 && first <= 1<<32) || s.Arms < 1 {
		return nil, fmt.Errorf("bandit: SquareCB needs arms (%d), a positive c_sq (%v) and a first epoch of at least "+
			"2 people (%v)", s.Arms, multiplier, first)
	}
	sigma, err := estimate.NoiseRatio(s)
	if err != nil {
		return nil, err
	}
	// The union bound of the paper: delta = 1/T over J epochs.
	epochs := math.Max(1, math.Ceil(math.Log2(float64(s.Horizon)/first))+1)
	inner := s
	inner.Failure = 1 / (float64(s.Horizon) * 2 * epochs * epochs)
	inner.Options, inner.Used = map[string]float64{"c": s.Option("c", 1)}, nil
	if _, set := s.Options["batches"]; set { // or each epoch has a number of its own
		inner.Options["batches"] = s.Option("batches", 0)
	}
	return learn.Start(func(ask func(learn.Policy, learn.Question) (learn.Answer, error)) (learn.Policy, error) {
		policy := s.Policy(glm.SquareCB, glm.PlayInverseGap)
		policy.Gamma = 1
		for done := 0; done < s.Horizon; {
			people := min(max(int(first), done), s.Horizon-done)
			model, err := regress(inner, people, func(q learn.Question) (learn.Answer, error) {
				return ask(learn.Data{Policy: policy}, q)
			})
			if err != nil {
				return nil, err
			}
			done += people
			gamma := multiplier * math.Sqrt(float64(s.Arms)) / deviation(math.Max(2, float64(people)), sigma,
				inner.Failure)
			// A last epoch that the horizon cuts short knows less than the one before it, and must not explore more.
			policy.Theta, policy.Gamma = model.(estimate.Linear).Theta, math.Max(policy.Gamma, gamma)
		}
		return learn.Data{Policy: policy}, nil
	})
}

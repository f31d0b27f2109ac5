package estimate

import (
	"fmt"
	"math"

	"github.com/riffle-dp/riffle/pkg/convex"
	"github.com/riffle-dp/riffle/pkg/glm"
	"github.com/riffle-dp/riffle/pkg/glm/family"
	"github.com/riffle-dp/riffle/pkg/glm/statistic"
	"github.com/riffle-dp/riffle/pkg/learn"
	"github.com/riffle-dp/riffle/pkg/mechanism"
)

// The step and the radius of both improper procedures, eta and R in the paper.
const (
	improperStep   = 1
	improperRadius = 2
)

var improperOptions = []string{"batches", "c"}

// ImproperJoint is private regression with an error that does not grow with the dimension, by a trusted curator:
// batched gradient descent in the ball of radius R = 2 without noise, of which only the last point leaves, with noise
// in every direction. The noise makes the parameter long, but hardly moves the prediction at any one context.
//
// It is Algorithm 5 and Theorem 6.2 of "Near-optimal private learning in linear contextual bandits" (JDP Improper Batch
// SGD). It asks for records; the points between the first and the last are not private and never leave it. Differences:
// people left over by the division into batches join the first ones, so that all are used; R is 2 S for a radius S of
// the parameters; predictions of the model are clipped to [-1, 1], where means lie; the noise is calibrated exactly to
// (epsilon, delta). Variant "literal" has the paper's noise, of standard deviation 2 sigma eta (R+1)/N with sigma = 2
// sqrt(ln(1.25/delta))/epsilon, which is proved for epsilon below 1 only.
//
// Sensitivity: replacing one record changes one step. The step's gradient is a mean of N vectors of norm at most R+1,
// so it moves by at most 2(R+1)/N. All later steps map theta to the projection of theta - eta (A theta - b) with 0 <= A
// <= I, and both this and the projection bring no two points further apart for eta <= 1 (the paper prints that
// inequality the wrong way round). So theta_K moves by at most 2 eta (R+1)/N, however many steps follow; the smallest
// batch counts.
//
// Options: "batches" K (default: the paper's rule with the constant "c", 1).
func ImproperJoint(s learn.Setting, people int, ask learn.Asker) (learn.Model, error) {
	if err := s.Check([]string{Literal}, improperOptions); err != nil {
		return nil, err
	}
	sigma, err := NoiseRatio(s)
	if err != nil {
		return nil, err
	}
	radius := improperRadius * s.Radius
	sizes := batches(people, improperJointBatches(s, sigma, people))
	var all []learn.Answer
	for _, n := range sizes {
		a, err := ask(learn.Question{Form: learn.Records, People: n})
		if err != nil {
			return nil, err
		}
		all = append(all, a)
	}
	theta, err := improperDescent(s.Dimension, radius, all)
	if err != nil {
		return nil, err
	}
	fewest := people
	for _, a := range all {
		fewest = min(fewest, a.People)
	}
	noise, err := improperNoise(s, radius, fewest)
	if err != nil {
		return nil, err
	}
	noise.Add(theta, s.Noise)
	return Linear{Stage: glm.Stage{Theta: theta}, Mean: clipReward}, nil
}

// improperDescent is theta_K without noise.
func improperDescent(d int, radius float64, all []learn.Answer) ([]float64, error) {
	theta, g := make([]float64, d), make([]float64, d)
	var err error
	for _, a := range all {
		clear(g)
		for _, r := range a.Records {
			x := unitArm(r.Arm, d) // no record stops the run: that would show it
			gap := (convex.Dot(x, theta) - clipReward(r.Reward)) * float64(r.Count())
			for i, v := range x {
				g[i] += gap * v
			}
		}
		for i := range theta {
			theta[i] -= improperStep * g[i] / float64(a.People)
		}
		if theta, err = (convex.Ball{Radius: radius}).Project(theta, theta); err != nil {
			return nil, fmt.Errorf("estimate: %w", err)
		}
	}
	return theta, nil
}

// descentRounding is for what floating-point arithmetic adds, relatively, to a sensitivity that is proved for real
// numbers. It is what a sum of n terms adds at random up to some 1e4 people in a step; it does not bound the worst
// case, which is n^2 2^-53 and more than it from 3000 people on. Rounding is otherwise not counted, as package
// mechanism says.
const descentRounding = 1e-9

// improperNoise is that of the one release, for batches of at least n people.
func improperNoise(s learn.Setting, radius float64, n int) (mechanism.Noise, error) {
	moved := 2 * improperStep * (radius + 1) / float64(n)
	if s.Variant == Literal && !math.IsInf(s.Epsilon, 1) {
		return mechanism.Gaussian{Sigma: publishedSigma(s.Epsilon, s.Delta) * moved}, nil
	}
	rho, err := mechanism.Budget(s.Epsilon, s.Delta)
	if err != nil {
		return nil, err
	}
	return mechanism.ForRho(mechanism.Sensitivity{Dim: s.Dimension, L2: moved * (1 + descentRounding)}, rho)
}

// publishedSigma is sigma of the papers: 2 sqrt(ln(1.25/delta))/epsilon, the standard deviation for a sensitivity of 1.
func publishedSigma(epsilon, delta float64) float64 {
	return 2 * math.Sqrt(math.Log(1.25/delta)) / epsilon
}

// NoiseRatio is the standard deviation of Gaussian noise over the sensitivity that the setting's guarantee asks for:
// sigma in the papers' schedules. It is 0 without privacy. Errors: an epsilon or delta that no noise gives.
func NoiseRatio(s learn.Setting) (float64, error) {
	rho, err := mechanism.Budget(s.Epsilon, s.Delta)
	switch {
	case err != nil:
		return 0, err
	case math.IsInf(rho, 1):
		return 0, nil
	case s.Variant == Literal:
		return publishedSigma(s.Epsilon, s.Delta), nil
	}
	return 1 / math.Sqrt(2*rho), nil
}

// improperJointBatches is K = min(c sqrt(T/(ln T ln(1/failure))), (T/(sigma sqrt(ln(1/failure))))^(2/3)).
func improperJointBatches(s learn.Setting, sigma float64, people int) int {
	n, tail := float64(people), math.Log(1/s.Failure)
	k := s.Option("c", 1) * math.Sqrt(n/(math.Max(1, math.Log(n))*tail))
	if sigma > 0 {
		k = math.Min(k, math.Pow(n/(sigma*math.Sqrt(tail)), 2./3))
	}
	return clampBatches(s.Option("batches", k), people)
}

func clampBatches(k float64, people int) int {
	return max(1, min(people, int(math.Min(k, float64(people)))))
}

// batches divides people into k batches, of sizes that differ by at most one, the smallest last.
func batches(people, k int) []int {
	sizes := make([]int, k)
	for i := range sizes {
		sizes[i] = people / k
		if i < people%k {
			sizes[i]++
		}
	}
	return sizes
}

// ImproperLocal is the same without a trusted curator: batched gradient descent whose gradients have noise from every
// person, and which is never projected. The parameter grows like the square root of the dimension, which is intended;
// the prediction inside a gradient is clipped to [-R, R] instead, so that gradients stay bounded.
//
// It is Algorithm 6 and Theorem 6.3 of "Near-optimal private learning in linear contextual bandits" (LDP Improper Batch
// SGD). It asks for sums, so that it runs over every channel. Differences: as for [ImproperJoint], but for R, which
// is 2. The theorem prints sigma where its proof gives sigma^2.
//
// Sensitivity: that of statistic.ClippedGradient. The paper's, and that of the literal variant, is 2(R+1).
//
// Options: "batches" K (default: the paper's rule c (T/(sigma^2 ln(T/failure)))^(1/3) with the constant "c", 1).
func ImproperLocal(s learn.Setting, people int, ask learn.Asker) (learn.Model, error) {
	if err := s.Check([]string{Literal}, improperOptions); err != nil {
		return nil, err
	}
	sigma, err := NoiseRatio(s)
	if err != nil {
		return nil, err
	}
	theta := make([]float64, s.Dimension)
	for _, n := range batches(people, improperLocalBatches(s, sigma, people)) {
		q, err := learn.Announced(statistic.Statistic{Kind: statistic.ClippedGradient, Family: family.Linear{},
			Theta: theta, ArmDim: s.Dimension})
		if err != nil {
			return nil, err
		}
		if s.Variant == Literal && !math.IsInf(s.Epsilon, 1) {
			q.Noise = mechanism.Gaussian{Sigma: publishedSigma(s.Epsilon, s.Delta) * 2 * (improperRadius + 1)}
		}
		a, err := ask(learn.Question{Form: learn.Sums, People: n, Statistics: []learn.Statistic{q}})
		if err != nil {
			return nil, err
		}
		g, _ := a.Mean(0)
		next := make([]float64, s.Dimension) // the statistic of the last question keeps theta
		for i := range next {
			next[i] = theta[i] - improperStep*g[i]
		}
		theta = next
	}
	return Linear{Stage: glm.Stage{Theta: theta}, Mean: clipReward}, nil
}

// improperLocalBatches is K of the rule.
func improperLocalBatches(s learn.Setting, sigma float64, people int) int {
	n, square := float64(people), math.Max(1, sigma*sigma)
	return clampBatches(s.Option("batches", s.Option("c", 1)*math.Cbrt(n/(square*math.Log(n/s.Failure)))), people)
}

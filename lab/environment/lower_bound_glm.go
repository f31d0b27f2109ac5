package environment

import (
	"math"
	"math/rand/v2"

	"github.com/riffle-dp/riffle/pkg/glm/family"
)

// LowerBound is the instance behind the lower bound of "Shuffle and joint differential privacy for generalized linear
// contextual bandits" (Lemma 7.1, appendix R): the arms of a person are +e_j and -e_j, and the true parameter has
// coordinates of equal size and unknown signs, drawn anew for every seed. No learner can know a sign before enough
// people of its coordinate have answered, and a private one needs more of them. Spec.Floor says how much regret that
// is.
//
// What differs: the paper offers all 2d arms to everyone. Then the best arms of all coordinates are equally good, a
// learner may stay with the one coordinate that it knows, and the step of its proof that multiplies the mean number of
// plays of a coordinate by its mean error does not hold, since the two depend on each other. Here contexts decide the
// coordinate, in turn, and the regret of d signs adds.
const LowerBound = "lower-bound"

// signs is the true parameter of LowerBound.
func (s Spec) signs(theta []float64, r *rand.Rand) {
	for j := range theta {
		theta[j] = s.Norm / math.Sqrt(float64(s.Dimension)) * sign(r)
	}
}

// coordinatePair is the arms of the i-th person of LowerBound.
func (s Spec) coordinatePair(i int, _ *rand.Rand) [][]float64 {
	up, down := make([]float64, s.Dimension), make([]float64, s.Dimension)
	up[i%s.Dimension], down[i%s.Dimension] = 1, -1
	return [][]float64{up, down}
}

// Floor is a lower bound of the expected regret, over seeds, of every learner on LowerBound for so many people, if what
// each person's decision shows of the other people's rewards is (epsilon, delta)-differentially private; epsilon +Inf
// and 0 stand for learners without privacy. It is 0 for other kinds.
//
// Proof sketch. Let the score of the better arm be z, p = mu(z), q = mu(-z), so that a wrong arm costs g = p - q. Fix
// the other coordinates. When the (n+1)-th person of a coordinate decides, n have answered. Let TV be the total
// variation between the laws of this decision under the two signs: half of 1 - TV bounds the mean probability of the
// wrong arm.
//   - One answer moves by at most k = max(kl(p, q), kl(q, p)), so TV^2 <= 1 - e^(-nk) (Bretagnolle and Huber).
//   - Both signs' answers can be drawn with the same uniform numbers. A person's answers to either arm then differ with
//     probability g. If they do for K people, the laws are at most tanh(K epsilon/2) (1 + 2 delta/(e^epsilon - 1))
//     apart (group privacy). tanh is concave, so TV <= tanh(n g epsilon/2) (1 + 2 delta/(e^epsilon - 1)).
//
// As n and g vary, the second gives the order d/epsilon. (The formula of the paper's private floor is lost in the
// copies at hand.)
func (s Spec) Floor(people int, epsilon, delta float64) (float64, error) {
	s, err := s.Resolve()
	if err != nil || s.Kind != LowerBound {
		return 0, err
	}
	family, err := family.New(s.Family, s.MaxReward)
	if err != nil {
		return 0, err
	}
	z := s.Norm / math.Sqrt(float64(s.Dimension))
	p, q := family.Mean(z), family.Mean(-z)
	k := math.Max(divergence(p, q), divergence(q, p))
	private, slack := epsilon > 0 && !math.IsInf(epsilon, 1), 2*delta/math.Expm1(epsilon)
	floor := 0.0
	for i := range people {
		n := float64(i / s.Dimension)
		apart := math.Sqrt(-math.Expm1(-n * k))
		if private {
			apart = math.Min(apart, math.Tanh(n*(p-q)*epsilon/2)*(1+slack))
		}
		floor += (p - q) * (1 - apart) / 2
	}
	return floor, nil
}

// divergence is Kullback and Leibler's, of two coins.
func divergence(p, q float64) float64 {
	return p*math.Log(p/q) + (1-p)*math.Log((1-p)/(1-q))
}

package estimate

import (
	"fmt"
	"math"

	"gonum.org/v1/gonum/mat"

	"github.com/riffle-dp/riffle/pkg/convex"
	"github.com/riffle-dp/riffle/pkg/glm"
	"github.com/riffle-dp/riffle/pkg/glm/statistic"
	"github.com/riffle-dp/riffle/pkg/glm/symmetric"
	"github.com/riffle-dp/riffle/pkg/learn"
	"github.com/riffle-dp/riffle/pkg/mechanism"
)

// PointFailure is an option of ReweightedLinear besides NormalizationSteps, NormalizationShare and LambdaMultiple:
// delta_0, the probability with which the bound may fail at a point that does not depend on the data; default: the
// setting's failure. A bandit sets failure/(T K).
const PointFailure = "point_failure"

const (
	// linearBias of lambda ||U x|| is the first term of the paper's bound. With it the bound exceeds 1 up to some 10^5
	// people.
	linearBias = 16
	// subgaussian is c_0 of Lemma D.4 for rewards in [-1, 1]: the paper says only that it is a constant. A variable v
	// with E exp(s v) <= exp(s^2/2) has E exp(c v^2) <= 1/sqrt(1 - 2c), which is 2 at c = 3/8.
	subgaussian = 3.0 / 8
	// literalBound is D of the paper's Priv_D of all three statistics: they have a joint norm of at most sqrt 3.
	literalBound = 3
	// singular is the condition number of the released matrix beyond which nothing is learnt from it.
	singular = 1e12
)

// ReweightedLinearOptions are the options and variants of ReweightedLinear.
func ReweightedLinearOptions() (variants, options []string) {
	return []string{Literal}, []string{NormalizationSteps, NormalizationShare, LambdaMultiple, PointFailure}
}

// ReweightedLinear is "Near-optimal private learning in linear contextual bandits", Algorithm 12
// (JDP_Reweighted_Linear_Regression, Prop. D.3), for the identity link: no descent, but one release from which theta is
// solved for. With u = U x/||U x||, and means over the second part of the people,
//
//	xi = mean u y,  Xi = mean u x' + lambda I,  W = mean u u' + lambda I,  each with noise
//	theta = Xi^-1 xi,  literal bound = 16 lambda ||U x|| + eps ||Xi^-T x||_W,  eps = sqrt(ln(6/(p p_0))/(c_0 N))
//
// The paper has it for joint privacy only. All that is released is a sum, so that it runs over every channel. What
// differs: one statistic for all three sums, with its tight joint diameter (statistic.ReweightedLinear); for a matrix
// that the noise left singular a model without a bound instead of none; and the bound, which needs no relation between
// lambda and the noise. It is, for v = Xi^-T x, s the deviation of the means' noise, S the radius, B half the range of
// rewards,
//
//	||v|| (lambda S + s sqrt(1 + S^2) (sqrt d + sqrt(2 ln(2/p)))) + B sqrt(2 ln(2/p_0)/N) sqrt(v'(W + w I)v),
//	w = s (sqrt(2 d) + sqrt(2 ln(4/p)))
//
// Proof. Xi theta* = E + Z theta* + lambda theta* and xi = E + e + z, where E is the mean of u <x, theta*>, Z and z are
// the noise, and e the mean of u times the rewards' deviation from their means. So <x, theta - theta*> = <v, e + z - Z
// theta* - lambda theta*>. z - Z theta* is a Gaussian vector of deviation s sqrt(1 + ||theta*||^2), whatever the data,
// so that its norm is above the bound with probability at most p/2. Given arms and noise, v is fixed for an x that does
// not depend on the rewards, and <v, e> is a mean of independent numbers of range 2 B <v, u_t>: Hoeffding's inequality,
// with mean (<v, u_t>)^2 = v'W_0 v, fails with probability p_0. And W_0 <= W + w I except with probability p/2, as in
// NoiseSchedule. (Noise of many devices, and of the channels shuffle and shares, is Gaussian only nearly.)
//
// So it holds at points that do not depend on the data, with probability 1 - p_0 each on an event of probability 1 - p.
func ReweightedLinear(s learn.Setting, people int, ask learn.Asker) (learn.Model, error) {
	variants, options := ReweightedLinearOptions()
	if err := s.Check(variants, options); err != nil {
		return nil, err
	}
	l, err := NewLink(s)
	if err != nil {
		return nil, err
	}
	if math.Abs(l.mean(s.Radius)-s.Radius) > 1e-9 || math.Abs(l.mean(-s.Radius)+s.Radius) > 1e-9 {
		return nil, fmt.Errorf("estimate: reweighted linear regression is for rewards of mean <x, theta>, not for "+
			"family %s",
			s.Family.Name())
	}
	literal, d := s.Variant == Literal, s.Dimension
	multiple, steps, off := defaultLambda, float64(defaultSteps), isometric
	if literal {
		multiple, steps, off = 1, fastSteps, 1
	}
	k, first := int(s.Option(NormalizationSteps, steps)), int(s.Option(NormalizationShare, 0.5)*float64(people))
	if k < 1 || first < k || people <= first {
		return nil, fmt.Errorf("estimate: %d of %d people are too few or too many for %d steps of the normalization",
			first,
			people, k)
	}
	multiple = s.Option(LambdaMultiple, multiple)
	schedule := NoiseSchedule(multiple, d, k, s.Horizon, s.Failure/2)
	if literal {
		schedule = FastSchedule(multiple, d, k, s.Failure/2)
	}
	n, err := Normalize(d, first, k, schedule, off, literalNoise(s, 1), ask)
	if err != nil {
		return nil, err
	}
	asked, err := n.Statistic(statistic.ReweightedLinear, s.Family, nil)
	if err != nil {
		return nil, err
	}
	asked = withFactor(asked, d, off)
	asked.Noise = literalNoise(s, literalBound)
	answer, err := ask(learn.Question{Form: learn.Sums, People: people - first, Statistics: []learn.Statistic{asked}})
	if err != nil {
		return nil, err
	}
	mean, deviation := answer.Mean(0)
	point, n2 := s.Option(PointFailure, s.Failure), float64(answer.People)
	if !(point > 0 && point < 1) {
		return nil, fmt.Errorf("estimate: the failure at a point, %v, must be in (0, 1)", point)
	}
	b := linearBound{n: n}
	if half := (l.high - l.low) / 2; literal {
		b.norm, b.sampling = linearBias*n.Lambda, half*math.Sqrt(math.Log(6/(s.Failure*point))/(subgaussian*n2))
	} else {
		spread := math.Sqrt(float64(d)) + math.Sqrt(2*math.Log(2/s.Failure))
		b.solved = n.Lambda*s.Radius + deviation*math.Hypot(1, s.Radius)*spread
		b.sampling = half * math.Sqrt(2*math.Log(2/point)/n2)
		b.extra = deviation * (math.Sqrt(2*float64(d)) + math.Sqrt(2*math.Log(4/s.Failure)))
	}
	return b.model(mean, off)
}

func literalNoise(s learn.Setting, bound float64) mechanism.Noise {
	return l1{literal: s.Variant == Literal, sigma: PaperSigma(s.Epsilon, s.Delta)}.noise(bound)
}

// linearBound is norm ||U x|| + solved ||v|| + sampling ||v||_W for v = Xi^-T x, of which norm or solved is 0. W gets
// extra I.
type linearBound struct {
	n                             Normalization
	norm, solved, sampling, extra float64
}

// model is that of the released means. Its bound is one ellipsoid around two: for any t > 0 it is (a + b)^2 <= (1 + t)
// a^2 + (1 + 1/t) b^2, with equality where b = t a. Here b/a is sampling ||v||_W over solved ||v||, or about so, and t
// its middle over the directions of v: what it costs is in TestOneEllipsoidCostsLittle. No eigenvalue of W is below
// lambda but by noise, and so none is used.
func (b linearBound) model(mean []float64, off float64) (learn.Model, error) {
	d, lambda := b.n.U.SymmetricDim(), b.n.Lambda
	xi, big := mat.NewVecDense(d, append([]float64(nil), mean[:d]...)), mat.NewDense(d, d, nil)
	for i := range d {
		for j := range d {
			big.Set(i, j, mean[d+i*d+j])
		}
		big.Set(i, i, big.At(i, i)+lambda)
	}
	w := symmetric.FromTriangle(mean[d+d*d:], d, off)
	for i := range d {
		w.SetSym(i, i, w.At(i, i)+lambda+b.extra)
	}
	values, basis, err := convex.Spectrum(w)
	if err != nil {
		return nil, fmt.Errorf("estimate: the released matrix: %w", err)
	}
	middle := 0.0 // half the mean of logarithms of the eigenvalues
	for i, v := range values {
		values[i] = math.Max(lambda, v)
		middle += math.Log(values[i]) / float64(2*d)
	}
	w = convex.FromSpectrum(values, basis)
	var lu mat.LU
	lu.Factorize(big)
	var theta mat.VecDense
	var inverse mat.Dense
	if !(lu.Cond() < singular) || lu.SolveVecTo(&theta, false, xi) != nil ||
		lu.SolveTo(&inverse, false, identity(d)) != nil {
		return point(make([]float64, d)), nil
	}
	t := b.sampling * math.Exp(middle) / (b.norm + b.solved)
	inner, outer := mat.NewSymDense(d, nil), mat.NewSymDense(d, nil) // of v and of U x
	inner.ScaleSym((1+1/t)*b.sampling*b.sampling, w)
	for i := range d {
		inner.SetSym(i, i, inner.At(i, i)+(1+t)*b.solved*b.solved)
	}
	outer.SymOuterK((1+t)*b.norm*b.norm, b.n.U)
	outer.AddSym(outer, congruence(&inverse, inner))
	return Linear{Stage: glm.Stage{Theta: theta.RawVector().Data, Covariance: symmetric.Pack(outer), Width: 1}}, nil
}

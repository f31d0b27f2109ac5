package estimate

import (
	"fmt"
	"math"

	"gonum.org/v1/gonum/mat"

	"github.com/riffle-dp/riffle/pkg/glm"
	"github.com/riffle-dp/riffle/pkg/glm/symmetric"
	"github.com/riffle-dp/riffle/pkg/learn"
	"github.com/riffle-dp/riffle/pkg/mechanism"
)

// The variants of L1. The default has the practical constants below.
const (
	// Literal has the paper's constants, schedules and noise formula, sigma = 2 sqrt(ln(1.25/delta))/epsilon times
	// twice the bound D of the norm. That formula is proved for epsilon below 1 only. The guarantee is what the noise
	// gives (mechanism.Noise.Guarantee), not the budget's.
	Literal = learn.Literal
	// Fast has the constant lambda of Prop. C.5: see FastSchedule.
	Fast = "fast"
	// Averaged descends with AveragingStep, from the same normalization. It is not the paper's, and better.
	Averaged = "averaged"
)

// Options of L1, by name in learn.Setting.Options, with their defaults.
const (
	// NormalizationSteps is K of Algorithm 1: 5; 20 in Literal, 10 in Fast, as the paper asks.
	NormalizationSteps = "normalization_steps"
	// DescentBatches is K of Algorithm 7: 24 times the square root of kappa; 16 kappa ln T in Literal.
	DescentBatches = "descent_batches"
	// NormalizationShare is the share of the people who teach the normalization: 1/2.
	NormalizationShare = "normalization_share"
	// LambdaMultiple is that of NoiseSchedule: 0.5 (its bound is for all steps at once and with probability 1 - p; half
	// of it is what the noise has). Literal and Fast: the constant C_0 of the paper, which names no
	// number: 1.
	LambdaMultiple = "lambda_multiple"
	// WidthMultiple multiplies the bound of the error: 0.5; 1 in Literal, where it is the paper's C_1.
	WidthMultiple = "width_multiple"
)

const (
	defaultSteps, literalSteps, fastSteps = 5, 20, 10
	defaultBatches                        = 24
	defaultLambda                         = 0.5
	defaultWidth                          = 0.5
	// biasMultiple of lambda L radius bounds what the regularizer costs: 4 in Lemma 4.1, whose worst case has a Hessian
	// of mu/2; at the normalization's fixed point it is at most 1.
	biasMultiple, literalBias = 1.5, 4
)

// L1Options are the options and variants of L1.
func L1Options() (variants, options []string) {
	return []string{Literal, Fast, Averaged},
		[]string{NormalizationSteps, DescentBatches, NormalizationShare, LambdaMultiple, WidthMultiple}
}

// L1 is private regression with small absolute error. "Near-optimal private learning in linear contextual bandits" by
// Chen, Li, Rakhlin and Simchi-Levi, 2025: Algorithm 2 (JDP_L1_Regression, Theorem 4.4) where the channel adds noise
// once per batch, Algorithm 8 (LDP_L1_Regression, Theorem 4.5) where every device does. Only sums cross the channel, so
// that the same algorithm also runs over shuffle and shares.
//
//	the first part of the people -> (U, lambda), by Normalize
//	the others                   -> theta = U w, by Descent
//	prediction nu(<x, theta>), bound eps_bar ||U x||, for all x at once
//
// eps_bar is WidthMultiple (1.5 lambda L S + 2 kappa (s sqrt d + rho/(2 sqrt N))), s the deviation of the noise of a
// batch's mean gradient, N the people of a batch: the paper's form 4 L lambda + epsilon, whose second term it gives
// with an unspecified constant. The default's constants are chosen, not proved: the bound held in every run that was
// measured, at several times the error. (ReweightedLinear has a proved one.) Algorithm 8 prints lambda + epsilon; its
// theorem has 4 L lambda + epsilon. Literal:
// 4 L lambda S + C_1 times the rate of Prop. C.6 (joint) or C.8 (local).
//
// A person is in exactly one batch, and each batch releases one sum: the whole run reveals of a person what one answer
// does.
func L1(s learn.Setting, people int, ask learn.Asker) (learn.Model, error) {
	return WarmL1(nil)(s, people, ask)
}

// WarmL1 is L1 that begins its descent at a public theta, such as an earlier model's; nil: at 0.
func WarmL1(start []float64) Estimator {
	return func(s learn.Setting, people int, ask learn.Asker) (learn.Model, error) {
		c, err := newL1(s, people)
		if err != nil {
			return nil, err
		}
		first := int(c.share * float64(people))
		if first < c.steps || people-first < c.batches {
			return nil, fmt.Errorf("estimate: %d people are too few for %d steps of the normalization and %d of the "+
				"descent",
				people, c.steps, c.batches)
		}
		n, err := Normalize(s.Dimension, first, c.steps, c.schedule, c.off, c.noise(1), ask)
		if err != nil {
			return nil, err
		}
		rho := c.link.residual(s.Radius)
		descent := Descent{Normalization: n, Batches: c.batches, Step: c.step, Start: start, Noise: c.noise(rho)}
		theta, deviation, err := descent.Run(c.link, people-first, ask)
		if err != nil {
			return nil, err
		}
		square := mat.NewSymDense(s.Dimension, nil)
		square.SymOuterK(1, n.U)
		return Linear{Mean: c.link.mean, Stage: glm.Stage{Theta: theta, Covariance: symmetric.Pack(square),
			Width: c.width(s, n.Lambda, deviation, rho, people-first), Means: true}}, nil
	}
}

// LeastL1 is the fewest people for which L1 has a person for each of its batches, and a bound that says anything. A
// bandit's first epoch has at least so many.
func LeastL1(s learn.Setting) (int, error) {
	c, err := newL1(s, s.Horizon)
	if err != nil {
		return 0, err
	}
	return 4 * (c.steps + c.batches), nil
}

type l1 struct {
	link           Link
	literal        bool
	sigma          float64 // the paper's, of Literal
	steps, batches int
	share          float64
	schedule       Schedule
	off            float64
	step           func(int) float64
	multiple       float64
}

func newL1(s learn.Setting, people int) (l1, error) {
	variants, options := L1Options()
	if err := s.Check(variants, options); err != nil {
		return l1{}, err
	}
	link, err := NewLink(s)
	if err != nil {
		return l1{}, err
	}
	c := l1{link: link, literal: s.Variant == Literal, sigma: PaperSigma(s.Epsilon, s.Delta), off: isometric,
		share: s.Option(NormalizationShare, 0.5), step: ConstantStep(link)}
	steps, batches, width := defaultSteps, math.Ceil(defaultBatches*math.Sqrt(link.kappa())), defaultWidth
	switch s.Variant {
	case Literal:
		logT := math.Log(math.Max(3, float64(people)))
		steps, batches, width = max(literalSteps, int(math.Log(logT))+1), math.Ceil(16*link.kappa()*logT), 1
		c.off = 1
	case Fast:
		steps = fastSteps
	case Averaged:
		c.step = AveragingStep(link)
	}
	c.steps = int(s.Option(NormalizationSteps, float64(steps)))
	c.batches = int(s.Option(DescentBatches, batches))
	c.multiple = s.Option(WidthMultiple, width)
	if c.steps < 1 || c.batches < 1 || !(c.share > 0 && c.share < 1) || !(c.multiple >= 0) {
		return l1{}, fmt.Errorf("estimate: %d steps and %d batches must be positive, the share %v strictly between 0 "+
			"and 1, the width %v not negative", c.steps, c.batches, c.share, c.multiple)
	}
	d := s.Dimension
	switch s.Variant {
	case Literal:
		c.schedule = LiteralSchedule(s.Option(LambdaMultiple, 1), d, c.steps, s.Failure)
	case Fast:
		c.schedule = FastSchedule(s.Option(LambdaMultiple, 1), d, c.steps, s.Failure)
	default:
		c.schedule = NoiseSchedule(s.Option(LambdaMultiple, defaultLambda), d, c.steps, s.Horizon, s.Failure)
	}
	return c, nil
}

// noise is the paper's Priv_D (SymPriv_D) as noise of a sum, or of a device's vector: 2 sigma D, of Literal.
func (c l1) noise(bound float64) mechanism.Noise {
	switch {
	case !c.literal:
		return nil
	case c.sigma == 0:
		return mechanism.None{}
	}
	return mechanism.Gaussian{Sigma: 2 * c.sigma * bound}
}

// PaperSigma is sigma_{alpha, beta} = 2 sqrt(ln(1.25/delta))/epsilon of the paper, 0 for an infinite epsilon. It is
// sqrt 2 times the classical Gaussian mechanism's, proved for epsilon below 1.
func PaperSigma(epsilon, delta float64) float64 {
	if math.IsInf(epsilon, 1) {
		return 0
	}
	return 2 * math.Sqrt(math.Log(1.25/delta)) / epsilon
}

// width is eps_bar. deviation is that of the noise of the last batch's mean.
func (c l1) width(s learn.Setting, lambda, deviation, rho float64, people int) float64 {
	d, kappa, batch := float64(s.Dimension), c.link.kappa(), float64(people)/float64(c.batches)
	if !c.literal {
		return c.multiple * (biasMultiple*lambda*c.link.most*s.Radius +
			2*kappa*(deviation*math.Sqrt(d)+rho/(2*math.Sqrt(batch))))
	}
	// Prop. C.6, with sigma/N = deviation/(2 rho); for local noise the same expression is Prop. C.8's.
	logT := math.Log(math.Max(3, float64(people)))
	log := math.Sqrt(math.Log(math.Max(math.E, logT/s.Failure)))
	sampling := math.Pow(kappa, 1.5) / math.Sqrt(batch)
	noise := (math.Pow(kappa, 1.5) + kappa*math.Sqrt(d)) * deviation / (2 * rho)
	return literalBias*c.link.most*lambda*s.Radius + c.multiple*log*(sampling+noise)
}

// LiteralSchedule is the paper's lambda_k = (2 k + 5) eps_N of Prop. 4.3 and C.7, with eps_N = constant
// (sqrt(ln(K/p)/N) + s sqrt(d + ln(K/p))/2), s the deviation of the mean's noise (which is 2 sigma/N for joint and
// 2 sigma/sqrt N for local privacy; the first term is of lower order for the latter, and the paper drops it).
func LiteralSchedule(constant float64, d, steps int, failure float64) Schedule {
	log := math.Log(float64(steps) / failure)
	return func(k, people int, deviation float64) float64 {
		n := float64(max(1, people))
		return float64(2*k+5) * constant * (math.Sqrt(log/n) + deviation/2*math.Sqrt(float64(d)+log))
	}
}

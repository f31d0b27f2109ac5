package evaluate

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/riffle-dp/riffle/internal/play"
	"github.com/riffle-dp/riffle/internal/population"
	"github.com/riffle-dp/riffle/internal/population/decisions"
	"github.com/riffle-dp/riffle/pkg/convex"
	"github.com/riffle-dp/riffle/pkg/glm/family"
)

// Target is the policy to value: it returns the probability of each arm. The propensities of the log belong to the
// policy that made it, not to the target.
type Target func(arms [][]float64) ([]float64, error)

// Greedy is the target that plays the arm of the largest inner product with theta, the first of equals.
func Greedy(theta []float64) Target {
	return func(arms [][]float64) ([]float64, error) {
		best, err := population.GreedyArm(arms, theta)
		if err != nil {
			return nil, fmt.Errorf("evaluate: %w", err)
		}
		return only(best, len(arms)), nil
	}
}

// Uniform is the target that draws an arm uniformly.
func Uniform(arms [][]float64) ([]float64, error) {
	p := make([]float64, len(arms))
	for a := range p {
		p[a] = 1 / float64(len(arms))
	}
	return p, nil
}

// Estimate is a mean reward per decision.
type Estimate struct {
	Value float64 `json:"value"`
	// Interval is nil where the effective size is below MinEffectiveSize: no law of large numbers holds there yet.
	Interval *Interval `json:"interval,omitempty"`
}

// Interval is a normal confidence interval, cut to what the truth can be. Its standard error is that of the sample and,
// as an independent part, what the sample cannot show: as many decisions of the target as the squared quantile of the
// normal law, with a reward that is off by the whole range. Without rewards 1 in k decisions, the interval of 95 % then
// ends at 3.8/k, where the exact one ends at 3.7/k.
type Interval struct {
	SE   float64 `json:"se"`
	Low  float64 `json:"low"`
	High float64 `json:"high"`
}

// Estimates holds four estimates of one target and the diagnostics of the log behind them.
type Estimates struct {
	Decisions int `json:"decisions"`
	// IPS weighs rewards by target probability over propensity (Horvitz and Thompson 1952): unbiased, of large
	// variance. It is SNIPS times the mean weight.
	IPS Estimate `json:"ips"`
	// SNIPS divides by the sum of weights instead of the number of decisions (Swaminathan and Joachims 2015): slightly
	// biased, and never outside the range of rewards.
	SNIPS Estimate `json:"snips"`
	// DoublyRobust corrects a fitted reward model by weighted residuals (Dudik, Langford and Li 2011): unbiased with
	// correct propensities, and of small variance if the model is good. The model of each half of the log is fitted on
	// the other half.
	DoublyRobust Estimate `json:"doubly_robust"`
	Switch       Switch   `json:"switch"`
	// Logged is the mean reward of what was played, OverLogged how much more the target earns, by the doubly robust
	// score of each decision less its reward.
	Logged     Estimate `json:"logged"`
	OverLogged Estimate `json:"over_logged"`
	Overlap    Overlap  `json:"overlap"`
	// Outside reports whether an estimate lies outside the range of rewards, where the truth cannot be.
	Outside bool `json:"outside"`
}

// Options of Evaluate.
type Options struct {
	Family     family.Family // of the reward model and of all rewards
	Confidence float64       // of the intervals, in (0, 1); 0 = 0.95
	Ridge      float64       // of the reward model's fit; 0 = 1
}

// withDefaults fills in what is 0, and refuses what cannot be.
func (o Options) withDefaults() (Options, error) {
	o.Confidence, o.Ridge = cmp.Or(o.Confidence, 0.95), cmp.Or(o.Ridge, 1)
	if !(o.Confidence > 0 && o.Confidence < 1) || !(o.Ridge > 0) || o.Family == nil {
		return o, fmt.Errorf("evaluate: confidence %v must be in (0, 1), ridge %v positive, and a family is needed",
			o.Confidence, o.Ridge)
	}
	return o, nil
}

// z is the quantile of the normal law.
func (o Options) z() float64 { return math.Sqrt2 * math.Erfinv(o.Confidence) }

// rewards are the bounds of a mean reward.
func (o Options) rewards() bounds {
	low, high := o.Family.MinReward(), o.Family.MaxReward()
	return bounds{low, high, high - low}
}

// MinDecisions is the smallest number of decisions in a log.
const MinDecisions = 10

// ErrFew reports a log that is too short.
var ErrFew = fmt.Errorf("evaluate: at least %d decisions are needed", MinDecisions)

func few(log []decisions.Decision) error { return fmt.Errorf("%w, the log has %d", ErrFew, len(log)) }

// Evaluate estimates the target's mean reward from the log. The error is ErrOverlap where the log is shown not to hold
// it.
func Evaluate(log []decisions.Decision, target Target, o Options) (*Estimates, error) {
	if len(log) < MinDecisions {
		return nil, few(log)
	}
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	probabilities, err := propensities(log, target)
	if err != nil {
		return nil, err
	}
	over, err := overlap(log, played(log, probabilities))
	if err != nil {
		return nil, err
	}
	models, err := fits(log, o)
	if err != nil {
		return nil, err
	}
	robust, modelled, weighted := make([]float64, len(log)), make([]float64, len(log)), make([]float64, len(log))
	rewards, more := make([]float64, len(log)), make([]float64, len(log))
	value, variance, sum := 0.0, 0.0, over.MeanWeight*float64(len(log))
	for i, d := range log {
		weighted[i] = over.weights[i] * d.Reward
		modelled[i] = models[i%2].direct(d, probabilities[i])
		robust[i] = modelled[i] + over.weights[i]*(d.Reward-models[i%2].mean(d.Arms[d.Arm]))
		rewards[i], more[i] = d.Reward, robust[i]-d.Reward
		value += weighted[i] / sum
	}
	for i, w := range over.weights { // the delta method
		e := w / sum * (log[i].Reward - value)
		variance += e * e
	}
	n, z, in := float64(len(log)), o.z(), o.rewards()
	r := &Estimates{Decisions: len(log), Overlap: *over}
	ips, ipsSE := play.MeanAndError(weighted)
	doubly, doublySE := play.MeanAndError(robust)
	r.IPS, r.DoublyRobust = over.interval(ips, ipsSE, z, in), over.interval(doubly, doublySE, z, in)
	r.SNIPS = over.interval(value, math.Sqrt(variance*n/(n-1)), z, in)
	r.Switch = switched(log, probabilities, over, modelled, robust, z, in)
	logged, loggedSE := play.MeanAndError(rewards)
	r.Logged = itself(len(log)).interval(logged, loggedSE, z, in)
	gain, gainSE := play.MeanAndError(more)
	r.OverLogged = over.interval(gain, gainSE, z, in.difference())
	if err := errors.Join(r.Logged.finite(), r.OverLogged.finite()); err != nil {
		return nil, err
	}
	for _, e := range []Estimate{r.IPS, r.SNIPS, r.DoublyRobust, r.Switch.Estimate} {
		if err := e.finite(); err != nil {
			return nil, err
		}
		r.Outside = r.Outside || e.Value < in.low-rounding*in.span || e.Value > in.high+rounding*in.span
	}
	return r, nil
}

// finite is an error for an estimate that no number holds.
func (e Estimate) finite() error {
	if !convex.IsFinite(e.Value) || e.Interval != nil && !convex.IsFinite(e.Interval.SE) {
		return errNotFinite
	}
	return nil
}

// propensities are what the target does in each decision.
func propensities(log []decisions.Decision, target Target) ([][]float64, error) {
	probabilities := make([][]float64, len(log))
	for i, d := range log {
		p, err := target(d.Arms)
		if err == nil {
			err = checkProbabilities(p, len(d.Arms))
		}
		if err != nil {
			return nil, fmt.Errorf("evaluate: decision %d: %w", i+1, err)
		}
		probabilities[i] = p
	}
	return probabilities, nil
}

// played is the probability with which a target takes the arm that was played in each decision.
func played(log []decisions.Decision, probabilities [][]float64) []float64 {
	p := make([]float64, len(log))
	for i, d := range log {
		p[i] = probabilities[i][d.Arm]
	}
	return p
}

// model is a generalised linear model of rewards.
type model struct {
	family family.Family
	theta  []float64
	scale  float64 // of features
}

func (m model) mean(arm []float64) float64 {
	return m.family.Mean(m.scale * population.Dot(arm, m.theta))
}

// robust is the doubly robust score of a decision for a target with these probabilities of arms. The model must not be
// fitted to the decision.
func (m model) robust(d decisions.Decision, p []float64) float64 {
	return m.direct(d, p) + p[d.Arm]/d.Propensity*(d.Reward-m.mean(d.Arms[d.Arm]))
}

// direct is what the model alone expects of a decision: the direct method.
func (m model) direct(d decisions.Decision, p []float64) (score float64) {
	for a, x := range d.Arms {
		if p[a] > 0 {
			score += p[a] * m.mean(x)
		}
	}
	return score
}

// fits returns two reward models. Model k serves the decisions of parity k and is fitted on the others. Features are
// scaled by the largest norm of an arm that was played, if that is above 1.
func fits(log []decisions.Decision, o Options) (models [2]model, err error) {
	longest := 1.0
	for _, d := range log {
		longest = math.Max(longest, convex.Norm(d.Arms[d.Arm]))
	}
	for k := range models {
		var arms [][]float64
		var rewards []float64
		for i, d := range log {
			if i%2 != k {
				x := slices.Clone(d.Arms[d.Arm])
				for j := range x {
					x[j] /= longest
				}
				arms, rewards = append(arms, x), append(rewards, d.Reward)
			}
		}
		loss, err := convex.NewGLMLoss(o.Family, len(log[0].Arms[0]), arms, rewards, o.Ridge)
		if err != nil {
			return models, fmt.Errorf("evaluate: reward model: %w", err)
		}
		fit, err := convex.Minimize(loss, convex.NewtonConfig{Tolerance: 1e-8})
		if err != nil && !errors.Is(err, convex.ErrNotConverged) { // any model will do: it changes only the variance
			return models, fmt.Errorf("evaluate: reward model: %w", err)
		}
		models[k] = model{o.Family, fit.Theta, 1 / longest}
	}
	return models, nil
}

func checkProbabilities(p []float64, arms int) error {
	sum := 0.0
	for _, v := range p {
		if !(v >= 0) {
			return fmt.Errorf("the target's probability %v", v)
		}
		sum += v
	}
	if len(p) != arms || math.Abs(sum-1) > 1e-6 {
		return fmt.Errorf("the target has %d probabilities of sum %v for %d arms", len(p), sum, arms)
	}
	return nil
}

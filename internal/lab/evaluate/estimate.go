package evaluate

import (
	"cmp"
	"errors"
	"fmt"
	"math"

	"github.com/riffle-dp/riffle/internal/lab/population"
	"github.com/riffle-dp/riffle/pkg/convex"
	"github.com/riffle-dp/riffle/pkg/glm"
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
		p := make([]float64, len(arms))
		p[best] = 1
		return p, nil
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

// Estimate is a mean reward per decision with a normal confidence interval.
type Estimate struct {
	Value float64 `json:"value"`
	SE    float64 `json:"se"`
	Low   float64 `json:"low"`
	High  float64 `json:"high"`
}

// Estimates holds three estimates of one target and the diagnostics of the log behind them.
type Estimates struct {
	Decisions int `json:"decisions"`
	// IPS weighs rewards by target probability over propensity (Horvitz and Thompson 1952): unbiased, of large
	// variance.
	IPS Estimate `json:"ips"`
	// SNIPS divides by the sum of weights instead of the number of decisions (Swaminathan and Joachims 2015): slightly
	// biased, and never outside the range of rewards.
	SNIPS Estimate `json:"snips"`
	// DoublyRobust corrects a fitted reward model by weighted residuals (Dudik, Langford and Li 2011): unbiased with
	// correct propensities, and of small variance if the model is good. The model of each half of the log is fitted on
	// the other half.
	DoublyRobust Estimate `json:"doubly_robust"`
	// EffectiveSize is (sum of weights)^2 / sum of squared weights: about as many decisions of the target itself would
	// say as much. Below about a hundred the normal intervals cannot be trusted.
	EffectiveSize float64 `json:"effective_size"`
	LargestWeight float64 `json:"largest_weight"`
	// Unsupported counts decisions whose played arm the target never plays: their rewards say nothing about it.
	Unsupported int `json:"unsupported"`
}

// Options of Evaluate.
type Options struct {
	Family     glm.Family // of the reward model
	Confidence float64    // of the intervals, in (0, 1); 0 = 0.95
	Ridge      float64    // of the reward model's fit; 0 = 1
}

// ErrFew reports a log that is too short.
var ErrFew = errors.New("evaluate: at least ten decisions are needed")

// Evaluate estimates the target's mean reward from the log.
func Evaluate(log []Decision, target Target, o Options) (*Estimates, error) {
	if len(log) < 10 {
		return nil, fmt.Errorf("%w, the log has %d", ErrFew, len(log))
	}
	o.Confidence, o.Ridge = cmp.Or(o.Confidence, 0.95), cmp.Or(o.Ridge, 1)
	if !(o.Confidence > 0 && o.Confidence < 1) || !(o.Ridge > 0) || o.Family == nil {
		return nil, fmt.Errorf("evaluate: confidence %v must be in (0, 1), ridge %v positive, and a family is needed",
			o.Confidence, o.Ridge)
	}
	models, err := fits(log, o)
	if err != nil {
		return nil, err
	}
	r := &Estimates{Decisions: len(log)}
	n := float64(len(log))
	weighted, robust := make([]float64, len(log)), make([]float64, len(log))
	weights := make([]float64, len(log))
	var sum, squares float64
	for i, d := range log {
		p, err := target(d.Arms)
		if err != nil {
			return nil, fmt.Errorf("evaluate: decision %d: %w", i+1, err)
		}
		if err := checkProbabilities(p, len(d.Arms)); err != nil {
			return nil, fmt.Errorf("evaluate: decision %d: %w", i+1, err)
		}
		w := p[d.Arm] / d.Propensity
		theta := models[i%2]
		weights[i], weighted[i] = w, w*d.Reward
		robust[i] = d.robust(p, theta, o.Family)
		sum, squares = sum+w, squares+w*w
		r.LargestWeight = math.Max(r.LargestWeight, w)
		if w == 0 {
			r.Unsupported++
		}
	}
	if sum == 0 {
		return nil, fmt.Errorf("%w: the target plays no arm that was played in the log", ErrLog)
	}
	r.EffectiveSize = sum * sum / squares
	z := math.Sqrt2 * math.Erfinv(o.Confidence)
	r.IPS, r.DoublyRobust = mean(weighted, z), mean(robust, z)
	value, variance := 0.0, 0.0
	for _, v := range weighted {
		value += v / sum
	}
	for i, w := range weights { // the delta method
		e := w * (log[i].Reward - value)
		variance += e * e
	}
	r.SNIPS = interval(value, math.Sqrt(variance)/sum*math.Sqrt(n/(n-1)), z)
	return r, nil
}

// fits returns two reward models. Model k serves the decisions of parity k and is fitted on the others.
func fits(log []Decision, o Options) (models [2][]float64, err error) {
	for k := range models {
		var arms [][]float64
		var rewards []float64
		for i, d := range log {
			if i%2 != k {
				arms, rewards = append(arms, d.Arms[d.Arm]), append(rewards, d.Reward)
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
		models[k] = fit.Theta
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

func mean(values []float64, z float64) Estimate {
	n, value, square := float64(len(values)), 0.0, 0.0
	for _, v := range values {
		value += v / n
	}
	for _, v := range values {
		square += (v - value) * (v - value)
	}
	return interval(value, math.Sqrt(square/(n-1)/n), z)
}

func interval(value, se, z float64) Estimate { return Estimate{value, se, value - z*se, value + z*se} }

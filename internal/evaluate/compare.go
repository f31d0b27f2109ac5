package evaluate

import (
	"errors"
	"fmt"
	"math"

	"gonum.org/v1/gonum/stat/distuv"

	"github.com/riffle-dp/riffle/internal/play"
	"github.com/riffle-dp/riffle/internal/population/decisions"
)

// Verdict says in one word whether a deployment should begin with a prior.
type Verdict string

// The verdicts.
const (
	Better  Verdict = "better"  // than the default arm, with the confidence that was asked for
	Worse   Verdict = "worse"   // than the default arm
	Open    Verdict = "open"    // the log does not show either
	IsNoise Verdict = "noise"   // the prior cannot be told from noise: it says nothing, whatever it earned
	Unknown Verdict = "unknown" // the log cannot say what the prior or the default arm would have earned: see Doubt
)

// Comparison reports whether a deployment should begin with a prior. It is of this very prior, with the noise that was
// drawn for it: each decision that it is judged by was left out of the fit.
type Comparison struct {
	Verdict Verdict `json:"verdict"`
	// NoiseChance is the probability with which noise and the choice of rows alone give a prior as far from 0, by its
	// own precision, where rewards do not depend on features. Above noiseLevel the verdict is IsNoise.
	NoiseChance float64 `json:"noise_chance"`
	Decisions   int     `json:"decisions"`       // that it is judged by
	Doubt       string  `json:"doubt,omitempty"` // why the log does not say more
	*Values
}

// Values are mean rewards of the decisions that a prior is judged by, estimated doubly robust.
type Values struct {
	Prior   Estimate `json:"prior"`   // greedy play by the prior
	Logged  Estimate `json:"logged"`  // what was played
	Default Estimate `json:"default"` // the default arm, in every decision
	// The differences are of the same decisions, so that their intervals are narrower than those of the parts.
	OverLogged  Estimate `json:"prior_over_logged"`
	OverDefault Estimate `json:"prior_over_default"`

	doubt string // why OverDefault has no interval
}

// noiseLevel is the rate of false alarms: of priors that are nothing but noise, at most one in a hundred is not called
// so. The learner's precision holds to first order, which TestPriorsOfNoiseAreCalledSo measures.
const noiseLevel = 0.01

// judged of three decisions is one, which is left out of the fit and judges it.
const judged = 3

// NewPrior fits a prior to two thirds of the log and judges it by the others. standard is the index of the default arm;
// in decisions with fewer arms it is the first one.
func NewPrior(log []decisions.Decision, standard int, p PriorOptions, o Options) (Prior, *Comparison, error) {
	o, err := o.withDefaults()
	if err != nil {
		return Prior{}, nil, err
	}
	if least := judged * MinDecisions; len(log) < least {
		return Prior{}, nil, fmt.Errorf("%w: to fit and to judge a prior takes at least %d decisions; the log has %d",
			ErrPrior, least, len(log))
	}
	arms := 0
	var fit, judge []decisions.Decision
	for i, d := range log {
		if arms = max(arms, len(d.Arms)); i%judged == judged-1 {
			judge = append(judge, d)
		} else {
			fit = append(fit, d)
		}
	}
	if standard < 0 || standard >= arms {
		return Prior{}, nil, fmt.Errorf("%w: the default arm has index %d, and the log has arms of 0 to %d", ErrPrior,
			standard, arms-1)
	}
	prior, err := FitPrior(fit, p)
	if err != nil {
		return Prior{}, nil, err
	}
	c := &Comparison{Decisions: len(judge), NoiseChance: prior.noiseChance(p.worth())}
	c.Values, err = prior.values(judge, standard, o)
	switch {
	case errors.Is(err, ErrOverlap):
		c.Doubt = err.Error()
	case err != nil:
		return Prior{}, nil, err
	default:
		c.Doubt = c.doubt
	}
	c.Verdict = c.verdict()
	return prior, c, nil
}

func (c *Comparison) verdict() Verdict {
	switch {
	case !(c.NoiseChance < noiseLevel):
		return IsNoise
	case c.Values == nil:
		return Unknown
	}
	switch over := c.OverDefault.Interval; {
	case over != nil && over.Low > 0:
		return Better
	case over != nil && over.High < 0:
		return Worse
	}
	return Open
}

// noiseChance is the upper tail of the chi-squared law at the prior's squared distance from 0 in its own deviations,
// before its worth changed them.
func (p Prior) noiseChance(worth float64) float64 {
	return distuv.ChiSquared{K: float64(len(p.Theta))}.Survival(p.Precision.Form(p.Theta) / worth)
}

// values compares the prior on decisions that it was not fitted to.
func (p Prior) values(judge []decisions.Decision, standard int, o Options) (*Values, error) {
	targets := [2]Target{p.Target, func(arms [][]float64) ([]float64, error) { return only(standard, len(arms)), nil }}
	var over [2]*Overlap
	var probabilities [2][][]float64
	for k := range over {
		var err error
		if probabilities[k], err = propensities(judge, targets[k]); err != nil {
			return nil, err
		}
		if over[k], err = overlap(judge, played(judge, probabilities[k])); err != nil {
			return nil, fmt.Errorf("%s: %w", []string{"greedy play by the prior", "the default arm"}[k], err)
		}
	}
	models, err := fits(judge, o)
	if err != nil {
		return nil, err
	}
	scores := make([][]float64, 5)
	for i, d := range judge {
		byPrior, byDefault := models[i%2].robust(d, probabilities[0][i]), models[i%2].robust(d, probabilities[1][i])
		for j, v := range []float64{byPrior, d.Reward, byDefault, byPrior - d.Reward, byPrior - byDefault} {
			scores[j] = append(scores[j], v)
		}
	}
	both := *over[0] // or the other one, if that is doubted
	if both.Doubt() == "" {
		both = *over[1]
	}
	both.typical = math.Max(over[0].typical, over[1].typical)
	rewards := o.rewards()
	difference := rewards.difference()
	var e [5]Estimate
	for j, of := range []struct {
		over *Overlap
		in   bounds
	}{{over[0], rewards}, {itself(len(judge)), rewards}, {over[1], rewards}, {over[0], difference},
		{&both, difference}} {
		value, se := play.MeanAndError(scores[j])
		e[j] = of.over.interval(value, se, o.z(), of.in)
		if err := e[j].finite(); err != nil {
			return nil, err
		}
	}
	return &Values{Prior: e[0], Logged: e[1], Default: e[2], OverLogged: e[3], OverDefault: e[4],
		doubt: both.Doubt()}, nil
}

// only gives all probability to one arm, or to the first if there are fewer.
func only(arm, arms int) []float64 {
	p := make([]float64, arms)
	if arm >= arms {
		arm = 0
	}
	p[arm] = 1
	return p
}

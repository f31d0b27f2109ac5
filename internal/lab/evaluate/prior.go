package evaluate

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/mat"

	"github.com/riffle-dp/riffle/internal/lab/population"
	"github.com/riffle-dp/riffle/internal/lab/simulate"
	"github.com/riffle-dp/riffle/pkg/channel/simulated"
	"github.com/riffle-dp/riffle/pkg/glm"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/protocol"
)

// Prior is what a deployment knows before its first person, as the setting learner.prior reads it.
type Prior struct {
	Theta     []float64     `json:"theta"`     // estimate of the parameter
	Precision glm.Symmetric `json:"precision"` // inverse of the covariance of its error, upper triangle row by row
}

// ErrPrior wraps every reason to refuse a prior or to fit none.
var ErrPrior = errors.New("evaluate: prior")

// ReadPrior reads a prior of vectors of a dimension. The precision must be positive definite.
func ReadPrior(text []byte, dimension int) (Prior, error) {
	p := Prior{}
	if err := json.Unmarshal(text, &p); err != nil {
		return p, fmt.Errorf("%w: %w", ErrPrior, err)
	}
	if len(p.Theta) != dimension || len(p.Precision) != glm.TriangleDim(dimension) {
		return p, fmt.Errorf("%w: theta has %d numbers and the precision %d, of dimension %d they have %d and %d", ErrPrior,
			len(p.Theta), len(p.Precision), dimension, dimension, glm.TriangleDim(dimension))
	}
	if new(mat.Cholesky).Factorize(p.Precision.Dense(dimension)) {
		return p, nil
	}
	return p, fmt.Errorf("%w: the precision is not positive definite", ErrPrior)
}

// PriorOptions say how a prior is fitted to a log.
type PriorOptions struct {
	Family    string  // of rewards
	MaxReward float64 // largest reward
	Radius    float64 // bound of the parameter's norm, as the deployment will have it
	// Epsilon and Delta are the guarantee of every row of the log towards those who see the prior; an Epsilon of 0 is none.
	Epsilon, Delta float64
	// Worth in (0, 1] is how much a decision of the log counts beside one of the deployment: less than 1 where the old data
	// are of other people or other days.
	Worth float64
	Noise protocol.Source // of the guarantee; nil without one
}

// parts are how the rows of a log are dealt to three cohorts: of seven rows in turn about one, two and four, so that
// every cohort has rows of all the log's time.
var parts = [][]int{{0}, {1, 2}, {3, 4, 5, 6}}

const dealt = 7

// FitPrior runs the learner of a deployment on the log's decisions in place of people: three cohorts, each row in one, the
// sums as the channel central gives them, or exact ones without a guarantee. What the learner then knows is the prior. It
// does not matter by which policy the arms were played. A row that is not of the family counts as null.
func FitPrior(log []Decision, o PriorOptions) (Prior, error) {
	if len(log) < 10 {
		return Prior{}, fmt.Errorf("%w, the log has %d", ErrFew, len(log))
	}
	if o.Worth == 0 {
		o.Worth = 1
	}
	if !(o.Worth > 0 && o.Worth <= 1) || !(o.Epsilon >= 0) {
		return Prior{}, fmt.Errorf("%w: worth %v must be in (0, 1], epsilon %v at least 0", ErrPrior, o.Worth, o.Epsilon)
	}
	var rows []glm.Record
	first := 0 // rows of the first cohort
	for _, part := range parts {
		for i, d := range log {
			if slices.Contains(part, i%dealt) {
				rows = append(rows, glm.Record{Arm: d.Arms[d.Arm], Reward: d.Reward, Weight: 1})
			}
		}
		first = cmp.Or(first, len(rows))
	}
	d := len(log[0].Arms[0])
	cfg := glm.Config{Family: o.Family, MaxReward: o.MaxReward, Dimension: d, Radius: o.Radius, Horizon: len(log),
		Epsilon: cmp.Or(o.Epsilon, 10), Delta: o.Delta, MinCohort: 1,
		Practical: glm.PracticalConfig{FirstCohort: first, Growth: 2, MaxEpochs: len(parts)}}
	trust := simulate.Trust(simulate.Exact)
	if o.Epsilon > 0 {
		t := plan.DefaultTermsFor(plan.Central)
		t.Epsilon, t.Delta, t.DishonestReports, t.DropOut, t.MinCohort = o.Epsilon, o.Delta, 0, 0, 0
		trust = simulate.Planned(t)
	}
	theta, covariance, err := learned(cfg, trust, rows, o.Noise)
	if err != nil {
		return Prior{}, fmt.Errorf("%w: %w", ErrPrior, err)
	}
	var factor mat.Cholesky
	precision := mat.NewSymDense(d, nil)
	if !factor.Factorize(covariance.Dense(d)) {
		return Prior{}, fmt.Errorf("%w: the log does not determine a precision", ErrPrior)
	}
	if err := factor.InverseTo(precision); err != nil {
		return Prior{}, fmt.Errorf("%w: the log does not determine a precision: %w", ErrPrior, err)
	}
	precision.ScaleSym(o.Worth, precision)
	return Prior{Theta: theta, Precision: glm.NewSymmetric(precision)}, nil
}

// learned is what a learner knows after the rows, cohort by cohort.
func learned(cfg glm.Config, trust simulate.Trust, rows []glm.Record, noise protocol.Source) (theta []float64,
	covariance glm.Symmetric, err error,
) {
	learner, err := glm.NewLearner(cfg)
	if err != nil {
		return nil, nil, err
	}
	for step := learner.Next(); !step.Done; step = learner.Next() {
		cohort := rows[:step.Cohort]
		rows = rows[step.Cohort:]
		channel, _, err := trust(step)
		if err != nil {
			return nil, nil, err
		}
		statistics := step.Statistics[0]
		reports := func(yield func(simulated.Report) bool) {
			for _, record := range cohort {
				report := make(simulated.Report, len(statistics))
				for i, s := range statistics {
					v, err := s.Vector(nil, record)
					if err != nil {
						v = make([]float64, s.Dim())
					}
					report[i] = v
				}
				if !yield(report) {
					return
				}
			}
		}
		aggregates, err := channel.Aggregate(reports, noise)
		if err != nil {
			return nil, nil, err
		}
		var sums []glm.Aggregate
		for i, a := range aggregates {
			sums = append(sums, glm.Aggregate{Kind: statistics[i].Kind, Sum: a.Sum, Variance: a.Variance, Reports: a.Reports})
		}
		if err := learner.Absorb(sums); err != nil {
			return nil, nil, err
		}
	}
	return learner.Next().Policy.Theta, learner.Covariance(), nil
}

// Comparison says whether a deployment should begin with a prior, on the log that the prior was fitted to: each half of
// the log values the prior of the other half, doubly robust.
type Comparison struct {
	Prior   Estimate `json:"prior"`   // greedy play by the prior of the other half
	Logged  Estimate `json:"logged"`  // what was played
	Default Estimate `json:"default"` // the default arm, in every decision
	// The differences are of the same decisions, so that their intervals are narrower than those of the parts.
	OverLogged  Estimate `json:"prior_over_logged"`
	OverDefault Estimate `json:"prior_over_default"`
}

// ComparePrior values priors as FitPrior makes them of the halves of a log. standard is the index of the default arm; in
// decisions with fewer arms it is the first one.
func ComparePrior(log []Decision, standard int, p PriorOptions, o Options) (*Comparison, error) {
	if standard < 0 {
		return nil, fmt.Errorf("%w: the default arm has index %d", ErrPrior, standard)
	}
	o.Confidence, o.Ridge = cmp.Or(o.Confidence, 0.95), cmp.Or(o.Ridge, 1)
	var halves [2][]Decision
	for i, d := range log {
		halves[i%2] = append(halves[i%2], d)
	}
	var priors [2]Target
	for k := range priors {
		fitted, err := FitPrior(halves[1-k], p)
		if err != nil {
			return nil, err
		}
		priors[k] = Greedy(fitted.Theta)
	}
	models, err := fits(log, o)
	if err != nil {
		return nil, err
	}
	scores := make([][]float64, 5)
	for i, d := range log {
		p, err := priors[i%2](d.Arms)
		if err != nil {
			return nil, err
		}
		byPrior := d.robust(p, models[i%2], o.Family)
		byDefault := d.robust(only(standard, len(d.Arms)), models[i%2], o.Family)
		for j, v := range []float64{byPrior, d.Reward, byDefault, byPrior - d.Reward, byPrior - byDefault} {
			scores[j] = append(scores[j], v)
		}
	}
	z := math.Sqrt2 * math.Erfinv(o.Confidence)
	return &Comparison{Prior: mean(scores[0], z), Logged: mean(scores[1], z), Default: mean(scores[2], z),
		OverLogged: mean(scores[3], z), OverDefault: mean(scores[4], z)}, nil
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

// robust is the doubly robust score of a decision for a target with these probabilities of arms, by a model of rewards
// that was not fitted to it.
func (d Decision) robust(p []float64, model []float64, family glm.Family) float64 {
	score := p[d.Arm] / d.Propensity * (d.Reward - family.Mean(population.Dot(d.Arms[d.Arm], model)))
	for a, x := range d.Arms {
		score += p[a] * family.Mean(population.Dot(x, model))
	}
	return score
}

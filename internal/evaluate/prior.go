package evaluate

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"gonum.org/v1/gonum/mat"

	"github.com/riffle-dp/riffle/internal/play"
	"github.com/riffle-dp/riffle/internal/population/decisions"
	"github.com/riffle-dp/riffle/pkg/channel/simulated"
	"github.com/riffle-dp/riffle/pkg/convex"
	"github.com/riffle-dp/riffle/pkg/deployment/policyfile"
	"github.com/riffle-dp/riffle/pkg/glm/learner"
	"github.com/riffle-dp/riffle/pkg/glm/statistic"
	"github.com/riffle-dp/riffle/pkg/glm/symmetric"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/privacy"
	"github.com/riffle-dp/riffle/pkg/protocol"
	"github.com/riffle-dp/riffle/pkg/strict"
)

// Prior is what a deployment knows before its first person, as the setting learner.prior reads it.
type Prior struct {
	Theta     []float64        `json:"theta"`     // estimate of the parameter
	Precision symmetric.Packed `json:"precision"` // inverse of the covariance of its error, upper triangle row by row
}

// ErrPrior wraps every reason to refuse a prior or to fit none.
var ErrPrior = errors.New("evaluate: prior")

// ReadPrior reads a prior of vectors of a dimension, or that of an exported policy. The precision must be positive
// definite.
func ReadPrior(text []byte, dimension int) (Prior, error) {
	p := Prior{}
	if policyfile.Is(text) {
		f, err := policyfile.Decode(text)
		if err == nil {
			p.Theta, p.Precision, err = f.Prior()
		}
		if err == nil && len(p.Theta) != dimension {
			err = fmt.Errorf("its policy has %d coefficients, and vectors have %d numbers", len(p.Theta), dimension)
		}
		if err != nil {
			return p, fmt.Errorf("%w: %w", ErrPrior, err)
		}
		return p, nil
	}
	if err := strict.Unmarshal(text, &p, strict.Options{}); err != nil {
		return p, fmt.Errorf("%w: %w", ErrPrior, err)
	}
	if len(p.Theta) != dimension || len(p.Precision) != symmetric.Dim(dimension) {
		return p, fmt.Errorf("%w: theta has %d numbers and the precision %d, of dimension %d they have %d and %d",
			ErrPrior,
			len(p.Theta), len(p.Precision), dimension, dimension, symmetric.Dim(dimension))
	}
	if new(mat.Cholesky).Factorize(p.Precision.Dense(dimension)) {
		return p, nil
	}
	return p, fmt.Errorf("%w: the precision is not positive definite", ErrPrior)
}

// Target is greedy play by the prior, of arms that are scaled as a device scales them.
func (p Prior) Target(arms [][]float64) ([]float64, error) {
	scaled := make([][]float64, len(arms))
	for a, x := range arms {
		scaled[a], _ = convex.ToUnitBall(x)
	}
	return Greedy(p.Theta)(scaled)
}

// PriorOptions say how a prior is fitted to a log.
type PriorOptions struct {
	Family    string  // of rewards
	MaxReward float64 // largest reward
	Radius    float64 // bound of the parameter's norm, as the deployment will have it
	// Epsilon and Delta are the guarantee of every row of the log towards those who see the prior, as
	// privacy.CheckTarget takes them; an Epsilon of 0 is none.
	Epsilon, Delta float64
	// Worth in (0, 1] is how much a decision of the log counts beside one of the deployment: less than 1 where the old
	// data are of other people or other days. 0 is 1.
	Worth float64
	Noise protocol.Source // of the guarantee; nil without one

	trust play.Trust // of the guarantee; nil: every fit plans its own
}

func (o PriorOptions) worth() float64 { return cmp.Or(o.Worth, 1) }

// parts are how the rows of a log are dealt to three cohorts: of seven rows in turn about one, two and four, so that
// every cohort has rows of all the log's time.
var parts = [][]int{{0}, {1, 2}, {3, 4, 5, 6}}

const dealt = 7

// FitPrior runs the learner of a deployment on the log's decisions in place of people: three cohorts, each row in one,
// the sums as the channel central gives them, or exact ones without a guarantee. What the learner then knows is the
// prior. It does not matter by which policy the arms were played. Arms are scaled to norm 1, as a device scales them,
// and rewards brought into the family's range.
func FitPrior(log []decisions.Decision, o PriorOptions) (Prior, error) {
	in, err := o.inputs(log)
	if err != nil {
		return Prior{}, err
	}
	if o.Epsilon != 0 && o.Noise == nil {
		return Prior{}, fmt.Errorf("%w: a guarantee needs a source of noise", ErrPrior)
	}
	theta, covariance, err := in.learn(o.Noise)
	if err != nil {
		return Prior{}, fmt.Errorf("%w: %w", ErrPrior, err)
	}
	precision, err := convex.Inverse(covariance.Dense(len(theta)))
	if err != nil {
		return Prior{}, fmt.Errorf("%w: the log does not determine a precision: %w", ErrPrior, err)
	}
	precision.ScaleSym(o.worth(), precision)
	return Prior{Theta: theta, Precision: symmetric.Pack(precision)}, nil
}

// FirstCohort prepares the release of a fit's first cohort, the rows 0, 7, 14 and so on, and returns what makes it anew
// each time it is called: the noised sums from which FitPrior learns. o.Noise is not read.
func FirstCohort(log []decisions.Decision, o PriorOptions) (
	release func(noise protocol.Source) ([]learner.Aggregate, error), err error,
) {
	in, err := o.inputs(log)
	if err != nil {
		return nil, err
	}
	l, err := learner.New(in.config)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrPrior, err)
	}
	step := l.Next()
	channel, _, err := in.trust(step)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrPrior, err)
	}
	return func(noise protocol.Source) ([]learner.Aggregate, error) {
		return sumsOf(step.Statistics[0], in.rows[:step.Cohort], channel, noise)
	}, nil
}

// inputs are what a prior is learnt from: rows in the order of their cohorts, and the channel of their sums.
type inputs struct {
	config learner.Config
	trust  play.Trust
	rows   []statistic.Record
}

// inputs deals the rows to cohorts and chooses the channel that the guarantee asks for.
func (o PriorOptions) inputs(log []decisions.Decision) (in inputs, err error) {
	if len(log) < MinDecisions {
		return in, fmt.Errorf("%w, the log has %d", ErrFew, len(log))
	}
	if worth := o.worth(); !(worth > 0 && worth <= 1) {
		return in, fmt.Errorf("%w: worth %v must be in (0, 1]", ErrPrior, worth)
	}
	if o.Epsilon != 0 {
		if err := privacy.CheckTarget(o.Epsilon, o.Delta); err != nil {
			return in, fmt.Errorf("%w: %w", ErrPrior, err)
		}
	}
	first := 0 // rows of the first cohort
	for _, part := range parts {
		for i, d := range log {
			if slices.Contains(part, i%dealt) {
				in.rows = append(in.rows, statistic.Record{Arm: d.Arms[d.Arm], Reward: d.Reward, Weight: 1})
			}
		}
		first = cmp.Or(first, len(in.rows))
	}
	d := len(log[0].Arms[0])
	in.config = learner.Config{Family: o.Family, MaxReward: o.MaxReward, Dimension: d, Radius: o.Radius,
		Horizon: len(log),
		Epsilon: cmp.Or(o.Epsilon, 10), Delta: o.Delta, MinCohort: 1,
		// A prior must be as precise as it says: three cohorts that allow for slopes that may be wrong say far less.
		Practical: learner.PracticalConfig{FirstCohort: first, Growth: 2, MaxEpochs: len(parts), Bend: -1}}
	in.trust = play.Exact
	if o.Epsilon != 0 {
		if in.trust = o.trust; in.trust == nil {
			in.trust = o.channel()
		}
	}
	return in, nil
}

// channel is the channel that gives rows the guarantee.
func (o PriorOptions) channel() play.Trust {
	t := plan.DefaultTermsFor(plan.Central)
	t.Epsilon, t.Delta, t.DishonestReports, t.DropOut, t.MinCohort = o.Epsilon, o.Delta, 0, 0, 0
	return play.Planned(t)
}

// learn gives what a learner knows after the rows, cohort by cohort.
func (in inputs) learn(noise protocol.Source) (theta []float64, covariance symmetric.Packed, err error) {
	l, err := learner.New(in.config)
	if err != nil {
		return nil, nil, err
	}
	rows := in.rows
	for step := l.Next(); !step.Done; step = l.Next() {
		channel, _, err := in.trust(step)
		if err != nil {
			return nil, nil, err
		}
		sums, err := sumsOf(step.Statistics[0], rows[:step.Cohort], channel, noise)
		if err != nil {
			return nil, nil, err
		}
		rows = rows[step.Cohort:]
		if err := l.Absorb(sums); err != nil {
			return nil, nil, err
		}
	}
	return l.Next().Policy.Theta, l.Covariance(), nil
}

// sumsOf are a cohort's sums as the channel gives them.
func sumsOf(statistics []statistic.Statistic, cohort []statistic.Record, channel simulated.Channel,
	noise protocol.Source) (
	sums []learner.Aggregate, err error,
) {
	var refused error
	reports := func(yield func(simulated.Report) bool) {
		for _, record := range cohort {
			report := make(simulated.Report, len(statistics))
			for i, s := range statistics {
				if report[i], refused = s.Vector(nil, record); refused != nil {
					return
				}
			}
			if !yield(report) {
				return
			}
		}
	}
	aggregates, err := channel.Aggregate(reports, noise)
	if err = cmp.Or(refused, err); err != nil {
		return nil, err
	}
	for i, a := range aggregates {
		sums = append(sums, learner.Aggregate{Kind: statistics[i].Kind, Sum: a.Sum, Variance: a.Variance,
			Reports: a.Reports})
	}
	return sums, nil
}

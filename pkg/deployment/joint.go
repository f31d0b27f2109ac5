package deployment

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/riffle-dp/riffle/pkg/glm"
	"github.com/riffle-dp/riffle/pkg/glm/family"
	"github.com/riffle-dp/riffle/pkg/glm/learner"
	"github.com/riffle-dp/riffle/pkg/glm/statistic"
	"github.com/riffle-dp/riffle/pkg/learn"
	"github.com/riffle-dp/riffle/pkg/learn/joint"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/privacy"
)

// Curated is the public side of the profile joint, Algorithm 2 of "Shuffle and Joint Differential Privacy for
// Generalized Linear Contextual Bandits" in micro-batches: an epoch's cohort is one leaf of its trees. It is a function
// of the configuration and of what the curator gave out, and never sees a record.
type Curated struct {
	config   joint.Config
	terms    plan.Terms
	row      statistic.Statistic
	schedule []int
	state    joint.State
	used     int // cohorts that were released or destroyed
	attempt  int
}

const (
	// jointFailure is the probability with which the widths of the profile joint may fail, as in the paper's
	// experiments.
	jointFailure = 0.02
	// jointCohorts is how many cohorts a horizon has where their size is not set: more switch earlier to a better
	// policy and cost noise (each level of the trees one node more) and time (each cohort waits for its rewards).
	jointCohorts = 50
	// roundingRoom is by what the curator's epsilon is lowered, at most roundingTries times, until devices, who bound
	// the rounding of a record that changes its kind in another way, come to no more than is configured.
	roundingRoom  = 1 - 5e-4
	roundingTries = 10
)

// NewCurated resolves the configuration. batch is the number of people of a cohort; 0: the horizon over jointCohorts.
func NewCurated(c learner.Config, batch int, terms plan.Terms) (*Curated, error) {
	if terms.Channel != plan.Central {
		return nil, fmt.Errorf("deployment: the profile %s reads records, which needs the channel %s, in which "+
			"people trust the analyzer; this is %s", glm.Joint, plan.Central, terms.Channel)
	}
	c.Profile = glm.Practical // whose rules for what they have in common are the same
	c, err := c.Resolve()
	if err != nil {
		return nil, fmt.Errorf("deployment: %w", err)
	}
	family, err := family.New(c.Family, c.MaxReward)
	if err != nil {
		return nil, fmt.Errorf("deployment: %w", err)
	}
	if batch = cmp.Or(batch, max(c.MinCohort, c.Horizon/jointCohorts)); batch < c.MinCohort || batch > c.Horizon {
		return nil, fmt.Errorf("deployment: cohorts of %d people must be at least %d, and at most the %d of the "+
			"horizon",
			batch, c.MinCohort, c.Horizon)
	}
	l := &Curated{terms: terms}
	cohorts := c.Horizon / batch
	batch = (c.Horizon + cohorts - 1) / cohorts
	cohorts = (c.Horizon + batch - 1) / batch // as many as the trees have leaves
	for i := range cohorts {                  // of nearly equal size, the largest first, and all of the horizon
		l.schedule = append(l.schedule, (c.Horizon+cohorts-1-i)/cohorts)
	}
	setting := learn.Setting{Family: family, Dimension: c.Dimension, Horizon: c.Horizon, Radius: c.Radius,
		Epsilon: c.Epsilon, Delta: c.Delta, Failure: jointFailure}
	for range roundingTries {
		if l.config, err = joint.Resolve(setting, l.schedule[0]); err != nil {
			return nil, fmt.Errorf("deployment: %w", err)
		}
		g, err := l.Curator().Guarantee(c.Dimension, family.MaxVariance(c.Radius)/math.E)
		if err != nil || g.Epsilon(c.Delta) <= c.Epsilon*(1-privacy.Agreement) {
			break // what is wrong is told when the first cohort is planned
		}
		setting.Epsilon *= roundingRoom
	}
	if l.row, err = statistic.NewRow(family, c.Dimension); err != nil {
		return nil, fmt.Errorf("deployment: %w", err)
	}
	l.row.Structure = c.Structure
	l.state = l.config.Begin()
	return l, nil
}

// Curator is the configuration as it is announced.
func (l *Curated) Curator() plan.Curator {
	c := l.config
	return plan.Curator{
		Leaves: uint32(c.Leaves()), ExplorerNoise: c.NodeV.Deviation(), OtherNoise: c.NodeH.Deviation(),
		ExplorerFits: uint32(c.ExploreCalls), OtherFits: uint32(c.SwitchCall), ExplorerRho: c.RhoExplore,
		OtherRho: c.RhoSwitch,
	}
}

// Schedule implements Learner.
func (l *Curated) Schedule() []int { return l.schedule }

// Next implements Learner. The last policy is greedy.
func (l *Curated) Next() learner.Step {
	p, err := l.config.Policy(l.state)
	if err != nil { // not reached: Apply takes nothing that makes no policy
		panic(fmt.Sprintf("deployment: the state of the profile joint makes no policy: %v", err))
	}
	p.Structure = slices.Clone(l.row.Structure)
	step := learner.Step{Epoch: l.state.Leaves, Policy: p, Attempt: l.attempt}
	if l.used == len(l.schedule) {
		step.Done, step.Policy.Play = true, glm.PlayGreedy
		step.Policy.Criterion, step.Policy.Optimism, step.Policy.Stages = nil, nil, nil
		return step
	}
	step.Cohort, step.Statistics, step.Shares = l.schedule[l.used], [][]statistic.Statistic{{l.row}}, [][]float64{{1}}
	return step
}

// Destroyed implements Learner: no leaf is used up.
func (l *Curated) Destroyed() error {
	if l.used == len(l.schedule) {
		return learner.ErrDone
	}
	l.used, l.attempt = l.used+1, l.attempt+1
	return nil
}

// Absorb takes what the curator gave out for the cohort. On an error nothing has changed.
func (l *Curated) Absorb(given []int64) error {
	if l.used == len(l.schedule) {
		return learner.ErrDone
	}
	r, err := l.ParseRelease(given)
	if err != nil {
		return err
	}
	next, err := l.config.Apply(l.state, r)
	if err != nil {
		return err
	}
	if _, err := l.config.Policy(next); err != nil {
		return err
	}
	l.state, l.used, l.attempt = next, l.used+1, 0
	return nil
}

// Config is the resolved configuration of Algorithm 2.
func (l *Curated) Config() joint.Config { return l.config }

// ParseRelease reads what a curator gave out for a cohort, in steps of its grids.
func (l *Curated) ParseRelease(given []int64) (joint.Release, error) {
	return l.config.ParseRelease(floats(given))
}

// floats are whole numbers below 2^53 in size as float64; larger ones are NaN, which no release has.
func floats(given []int64) []float64 {
	out := make([]float64, len(given))
	for i, v := range given {
		if out[i] = float64(v); v <= -1<<53 || v >= 1<<53 {
			out[i] = math.NaN()
		}
	}
	return out
}

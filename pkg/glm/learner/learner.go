// Package learner is the analyzer's side of the bandit: it turns released sums into the next policy.
//
//	learner.go             the state machine of both profiles
//	aggregate.go           what it asks for, and what it is given
//	config.go              the configuration; config_paper.go, config_practical.go and config_lasting.go have the
//	                       defaults and checks of their parts, config_resolve.go fills them in
//	paper.go               Algorithm 1, analyzer's side: batches of one covariance and several gradient releases
//	confidence.go          its widths and ridges; equations (8), (9), (20)-(26)
//	schedule.go            its batch sizes, equation (7), and the practical profile's cohorts
//	practical.go           the practical profile: one Newton step per cohort, pooled by precision; practical_state.go
//	                       is what it knows
//	exploration.go         how much each of its cohorts explores
//	change.go              the test whether the world has changed
//	spectrum.go            inverses by eigenvalues
//	lift.go, lift_share.go whether the policy helps: its lift over the control group, with an interval
//
// # Guarantees
//
// A refused call changes nothing. With ProofConstants the confidence sets hold the true parameter with the stated
// probability if rewards follow the family and no cohort's arms depend on its rewards; with tuned constants and in the
// practical profile utility is measured, not proved.
package learner

import (
	"fmt"
	"slices"

	"github.com/riffle-dp/riffle/pkg/glm"
	"github.com/riffle-dp/riffle/pkg/glm/statistic"
	"github.com/riffle-dp/riffle/pkg/glm/symmetric"
)

// Learner runs the analyzer's side of the bandit as a state machine: Next says what to do, Absorb takes the released
// sums of that step. Its state is a function of the configuration and of the calls made, and of nothing else: replaying
// the same calls on a new learner gives the same policies. It has no clock, no randomness and no goroutines, and is not
// safe for concurrent use.
//
// Why it is no learn.Program: it is what deployments run. Its policies and statistics are data that an announcement
// carries, so that a device bounds them itself, and one cohort may answer several rounds of them; those of a program
// are functions, which run in one process with the people whom it asks, each of them once.
type Learner struct {
	cfg     Config
	run     run
	epoch   int
	round   int
	attempt int
	spent   int // people of finished and destroyed cohorts
	cohort  int // people of the current cohort
	done    bool
	stopped bool
}

// run is a learner of one profile: all in which profiles differ.
type run interface {
	// cohorts is the published schedule.
	cohorts() []int
	// policy is in force in the epoch; left is the number of people after its cohort.
	policy(epoch, cohort, left int) glm.Policy
	// final is the policy after the last cohort; epoch is one more than the last.
	final(epoch int) glm.Policy
	// statistics are the releases of all rounds of the epoch, at the current iterate, and their shares of mu^2.
	statistics(p glm.Policy) ([][]statistic.Statistic, [][]float64, error)
	// absorb takes the sums of a round. It must change nothing when it fails.
	absorb(epoch, round int, sums []Aggregate) error
	// extend plans cohorts for more people after the given number of epochs.
	extend(epochs, people int) error
	// known is Learner.Covariance before the given epoch.
	known(epoch int) symmetric.Packed
	// likely is Learner.Unchanged.
	likely() float64
	// rollback takes up what was known before the policy of the epoch before this one.
	rollback(epoch int) error
	// restart forgets the rounds of the current epoch.
	restart()
}

// New resolves the configuration (see Config.Resolve) and starts at the first epoch.
func New(cfg Config) (*Learner, error) {
	cfg, err := cfg.Resolve()
	if err != nil {
		return nil, err
	}
	if cfg.Profile.Program() {
		return nil, fmt.Errorf("%w: the profile %s is a program: see learn/program", ErrConfig, cfg.Profile)
	}
	l := &Learner{cfg: cfg}
	if cfg.Profile == glm.Paper {
		l.run, err = newPaperRun(cfg)
	} else {
		l.run, err = newPracticalRun(cfg)
	}
	if err != nil {
		return nil, err
	}
	l.begin()
	return l, nil
}

// Config returns the resolved configuration.
func (l *Learner) Config() Config { return l.cfg }

// Covariance is that of the error of the policy's Theta, of sampling and noise, if the model is right: nil before the
// first cohort is over, unless the configuration brings knowledge, and in the paper profile, whose stages hold
// confidence sets in its place.
func (l *Learner) Covariance() symmetric.Packed {
	return l.run.known(l.epoch)
}

// Schedule returns the planned cohort sizes, which are fixed before the first person, independent of all data, and sum
// to the horizon; with panels they are all alike, and a rest of the horizon is left over. A destroyed cohort uses
// people up, so that fewer remain for the later ones.
func (l *Learner) Schedule() []int { return slices.Clone(l.run.cohorts()) }

// Next returns the current step. It changes nothing, and the caller may keep and change what it gets.
func (l *Learner) Next() Step {
	if l.done {
		return Step{Epoch: l.epoch, Policy: l.stop(l.run.final(l.epoch)), Done: true}
	}
	policy := l.policy()
	statistics, shares, err := l.run.statistics(policy)
	if err != nil { // not reached: Resolve and the projections exclude it
		panic(fmt.Sprintf("glm: the learner's own iterate makes no statistic: %v", err))
	}
	ratio := LateVarianceRatio
	if l.cohort <= l.cfg.Horizon/10 {
		ratio = EarlyVarianceRatio
	}
	return Step{Epoch: l.epoch, Round: l.round, Policy: policy, Cohort: l.cohort, Statistics: statistics,
		Shares: shares, VarianceRatio: ratio, Attempt: l.attempt}
}

// Variance ratios advised in Step. Early cohorts are those of at most a tenth of the horizon. Measured: with 2 instead
// of 1.25 for early cohorts, regret is 10 % higher and a person sends 15 messages fewer, averaged over all people.
const (
	EarlyVarianceRatio = 1.25
	LateVarianceRatio  = 2.0
)

func (l *Learner) policy() glm.Policy {
	return l.stop(l.run.policy(l.epoch, l.cohort, l.cfg.Horizon-l.spent-l.cohort))
}

// Absorb takes the released sums of the current round, in the order of Statistics[Round], and moves on. On an error
// (ErrAggregate, ErrDone) nothing has changed.
func (l *Learner) Absorb(sums []Aggregate) error {
	if l.done {
		return ErrDone
	}
	statistics, _, err := l.run.statistics(l.policy())
	if err != nil {
		return err
	}
	if err := CheckAggregates(sums, statistics[l.round], l.cohort, l.decisions()); err != nil {
		return err
	}
	if err := l.run.absorb(l.epoch, l.round, sums); err != nil {
		return err
	}
	l.round++
	if l.round < len(statistics) {
		return nil
	}
	l.spent += l.cohort
	l.epoch++
	l.round, l.attempt = 0, 0
	l.begin()
	return nil
}

// Destroyed says that the current cohort was destroyed without a release (in the paper profile: without a further one;
// the sums of its earlier rounds are forgotten). Its people are used up. Either the same policy applies to a new
// cohort, or the horizon is over.
func (l *Learner) Destroyed() error {
	if l.done {
		return ErrDone
	}
	l.run.restart()
	l.spent += l.cohort
	l.round = 0
	l.attempt++
	l.begin()
	return nil
}

// Extend adds people after the last epoch and goes on from all that was learnt, with cohorts that keep growing. Each
// person is still in one cohort. Panels keep their size. The paper profile refuses (ErrExtend): its schedule and its
// widths are made for one horizon.
func (l *Learner) Extend(people int) error {
	if !l.done {
		return fmt.Errorf("%w: epoch %d of the horizon of %d people is not over", ErrExtend, l.epoch, l.cfg.Horizon)
	}
	least := l.cfg.MinCohort
	if l.cfg.Profile == glm.Practical && l.cfg.Practical.Panel > 0 {
		least = l.cfg.Practical.Panel
	}
	if people < least || people > 1<<40-l.cfg.Horizon {
		return fmt.Errorf("%w: %d more people, wanted at least a cohort of %d and at most 2^40 in all",
			ErrExtend, people, least)
	}
	if err := l.run.extend(l.epoch, people); err != nil {
		return err
	}
	l.cfg.Horizon += people
	l.done = false
	l.begin()
	return nil
}

// begin sets the size of the current epoch's cohort: as planned, unless the people left after it would be too few for
// another cohort. The last cohort takes all people left. Panels are always of their size.
func (l *Learner) begin() {
	schedule, left := l.run.cohorts(), l.cfg.Horizon-l.spent
	if panel := l.cfg.Practical.Panel; panel > 0 && l.cfg.Profile == glm.Practical {
		l.cohort = panel
		if l.epoch >= len(schedule) || left < panel {
			l.cohort, l.done = 0, true
		}
		return
	}
	l.cohort = left
	if l.epoch < len(schedule)-1 && left-schedule[l.epoch] >= l.cfg.MinCohort {
		l.cohort = schedule[l.epoch]
	}
	if l.epoch >= len(schedule) || left < l.cfg.MinCohort && l.spent > 0 {
		l.cohort, l.done = 0, true
	}
}

// decisions is the most decisions of one report.
func (l *Learner) decisions() int {
	if l.cfg.Profile == glm.Practical {
		return max(1, l.cfg.Practical.Decisions)
	}
	return 1
}

// Unchanged is how probable it is that the sums absorbed last are at least so far from what was known before, if the
// parameter is what it was: a p-value in (0, 1], of practicalRun.testUnchanged. 0 where nothing was tested: before the
// first cohort, after the first one unless the configuration brings knowledge, where the configuration has nothing of
// deployments that last, and in the paper profile. It is post-processing of released sums.
func (l *Learner) Unchanged() float64 { return l.run.likely() }

// Rollback takes up the policy before the last one again, with the knowledge that it was made of. Called after Absorb
// has taken the sums of an epoch, whose policy they showed to be bad, it makes the next policy that of the epoch
// before; what the cohorts of both epochs said is forgotten. Epoch numbers go on. It goes one step back: to go back
// again, two more cohorts must be absorbed. Otherwise, and in the paper profile, it is ErrRollback, and nothing has
// changed.
func (l *Learner) Rollback() error {
	return l.run.rollback(l.epoch)
}

// Stop makes every later policy play the default arm alone, for good. Cohorts are still asked and absorbed. The coin
// of the control group is still thrown, so that both groups can be compared: both get the default arm.
func (l *Learner) Stop() { l.stopped = true }

// stop is the policy after Stop, and before it the policy given.
func (l *Learner) stop(p glm.Policy) glm.Policy {
	if l.stopped {
		p.Play, p.Stages, p.Scaling, p.Draws, p.Explore, p.Caution = glm.PlayDefault, nil, nil, nil, 0, 0
	}
	return p
}

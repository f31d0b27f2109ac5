// Package replay plays a whole deployment on a log of decisions that another policy made: what a live run with as
// many people as the replay accepts would have got.
//
// # What is replayed
//
// A row of the log is a person with the arm that was played, its reward and its propensity p. The people of a run
// come in a random order. The learner's policy in force draws an arm, as a device would; where it is the arm of the
// log, and a coin of chance q/p says so, the person is accepted, with the reward of the log; otherwise the row is
// passed over. q is the least propensity that any arm of the log had (Least). So a person is accepted with
// probability pi(a) q/p, and given the person with sum over a of p(a) pi(a) q/p(a) = q, whatever the policy: those
// who are accepted are people of the log's law with decisions of the policy's law, and what is learnt from them has
// exactly the law of a live run (Li, Chu, Langford and Wang 2011, theorem 1, who have uniform logs; the coin is
// rejection sampling with the bound 1/q of pi/p, as in Dudik, Erhan, Langford and Li 2012). Cohorts, plans, encodings
// and noise are those of a deployment (package play).
//
// How many are accepted is binomial and independent of who they are. So the number of people of a run is fixed before
// it: the largest that the rows suffice for but once in 30 000 times. A run that they do not suffice for is drawn
// anew.
//
// # What is estimated
//
// Two expectations over live runs of that many people: the mean reward of a person while learning, and of the last
// policy. A third of the rows is kept out of a run and judges its policies by doubly robust scores; three runs, the
// folds of a round, keep out each row once. A score's expectation, given the run, is what its policies earn: the
// estimates are unbiased if the propensities are right, and the log's people are exchangeable. For no row judges a run
// that it taught (TestNoRowJudgesWhatItTaught), nor with a reward model that was fitted to it; weights are not divided
// by their own sum; and since its number of people is fixed before a run, it does not end where the log does.
//
// Single intervals miss more often because they lie too high than too low: where a log makes options look better than
// they are, its runs agree more, and its error seems smaller.
//
// # What is random
//
// The rounds share one log, so that their agreement says nothing of the log. Let s_i be the mean score of row i over
// the rounds, U the mean of all s_i, and b_g what it changes in the mean score of other rows that group g of the rows
// is learnt from (rows are dealt into groups once, and groups into folds in each round). To first order (the
// Hoeffding decomposition, of which the rest is smaller by the regret of what is learnt)
//
//	U = mu + the sum over groups of (d_g/G + f b_g)
//
// where d_g is by how much the rows of the group score more than others by the same policies, and f the share of rows
// that a run learns from. So the variance of U has three parts:
//
//   - direct, the variance of s_i over N: of who was judged. It is known row by row.
//   - of learning, the sum over groups of (f b_g)^2 + 2 f b_g d_g/G: rows that score high also teach more, so that
//     the second term counts. The b_g are contrasts of rounds in which the group was learnt from and in which it was
//     not. The noise of a channel is the same in all runs of a round, so that it hardly disturbs the contrasts; what
//     disturbs them yet is estimated from the rounds and subtracted, and so is what a contrast shares with the
//     scores of its group by chance: a run that learnt badly has low scores in the group and beside it.
//   - of chance: coins and noise, which have a variance of U's over rounds, over the number of rounds.
//
// TestPartsAreTheVariance holds the sum against the variance of a model. The part of learning is uncertain where runs
// of one log end far apart, as where one option is best for all. Student's law, with the degrees of freedom that
// Satterthwaite's rule finds for the sum, counts that and gives the interval. TestIntervalsHoldLiveRuns measures it
// against live runs.
//
// Rows are taken to be independent: those of one person are not.
//
// Nobody is protected by a replay: it sees every row, and its noise is a simulation's.
package replay

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/riffle-dp/riffle/internal/evaluate"
	"github.com/riffle-dp/riffle/internal/play"
	"github.com/riffle-dp/riffle/internal/population/decisions"
	"github.com/riffle-dp/riffle/pkg/convex"
	"github.com/riffle-dp/riffle/pkg/glm/family"
	"github.com/riffle-dp/riffle/pkg/glm/learner"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/privacy"
)

// ErrReplay wraps every reason why a log cannot be replayed.
var ErrReplay = errors.New("replay")

// Options say what is replayed.
type Options struct {
	// Learner is the deployment's, of which Horizon and the budget are set here.
	Learner        learner.Config
	Epsilon, Delta float64        // of each person, in each channel
	Channels       []plan.Channel // empty: all
	Confidence     float64        // of the intervals; 0 = 0.95
	// Rounds is how often the log is replayed in each channel, each time in three runs; 0 = DefaultRounds.
	Rounds int
	// Progress, which may be nil, is called after each round. It need not be safe for concurrent use.
	Progress func(done, all int)

	planned map[plan.Channel]play.Trust // made before; nil: every replay plans
	seed    uint64                      // of coins and noise
}

// DefaultRounds make the part of chance a small one of most intervals.
const DefaultRounds = 40

const (
	minRounds = 5  // by which chance can be estimated
	folds     = 3  // of a round: each run keeps one of them out
	groups    = 12 // of rows
	perFold   = groups / folds
	// learned is the share of rows that a run learns from.
	learned = 1 - 1.0/folds
	// spare is how many standard deviations fewer rows may be accepted than are expected.
	spare = 4
	// attempts of a run that has too few rows: with right propensities three in a row have a chance of 3e-14.
	attempts = 3
)

// Result is what the replay of a log shows. Its JSON form is a stable interface: keys are added, never renamed or
// removed.
type Result struct {
	Decisions  int     `json:"decisions"` // of the log
	Least      float64 `json:"least_propensity"`
	Bound      float64 `json:"weight_bound"` // 1 over Least
	People     int     `json:"people"`       // of a run: who were accepted
	Rounds     int     `json:"rounds"`
	Runs       int     `json:"runs"` // of each channel
	Shortened  int     `json:"decisions_with_shortened_arms"`
	Epsilon    float64 `json:"epsilon"`
	Delta      float64 `json:"delta"`
	Confidence float64 `json:"confidence"`

	Logged   evaluate.Estimate `json:"logged"`  // mean reward of what was played
	Uniform  evaluate.Estimate `json:"uniform"` // of an arm drawn uniformly
	Channels []Outcome         `json:"channels"`
	// Clear is the same learner without privacy.
	Clear Outcome `json:"without_privacy"`
}

// Outcome is what live runs in one channel are expected to get. Each estimate is a mean reward per person.
type Outcome struct {
	Trust   plan.Channel `json:"trust,omitempty"`
	Cohorts []int        `json:"cohorts,omitempty"`
	// Infeasible is why so many people have no plan; the rest is then empty.
	Infeasible string            `json:"infeasible,omitempty"`
	Learning   evaluate.Estimate `json:"while_learning"`
	Last       evaluate.Estimate `json:"last_policy"`
	// Over are the differences from what was played, on the same rows.
	LearningOver evaluate.Estimate `json:"while_learning_over_logged"`
	LastOver     evaluate.Estimate `json:"last_policy_over_logged"`
	// Overlap is of the last policies.
	Overlap         *evaluate.Overlap `json:"overlap,omitempty"`
	LearningOverlap *evaluate.Overlap `json:"overlap_while_learning,omitempty"`
	Doubt           string            `json:"doubt,omitempty"` // why estimates have no interval
	// Freedom are the fewest degrees of freedom that an interval rests on.
	Freedom float64 `json:"degrees_of_freedom,omitempty"`
	// Parts are the variance of Last.
	Parts Parts `json:"variance_last_policy"`
}

// Run replays the log. Its errors wrap ErrReplay, evaluate.ErrOverlap or evaluate.ErrFew.
func Run(ctx context.Context, log []decisions.Decision, o Options) (*Result, error) {
	all, r, err := prepare(log, o)
	if err != nil {
		return nil, err
	}
	if err := evaluate.Support(all.log); err != nil {
		return nil, err
	}
	if err := all.baselines(r); err != nil {
		return nil, err
	}
	if err := all.play(ctx); err != nil {
		return nil, err
	}
	for _, t := range all.channels {
		out, err := all.outcome(t)
		if err != nil {
			return nil, err
		}
		if t.channel == "" {
			r.Clear = *out
		} else {
			r.Channels = append(r.Channels, *out)
		}
	}
	return r, nil
}

// prepare checks what is asked for, and how many people a run has.
func prepare(log []decisions.Decision, o Options) (*replayer, *Result, error) {
	o.Confidence, o.Rounds = cmp.Or(o.Confidence, 0.95), cmp.Or(o.Rounds, DefaultRounds)
	if o.Rounds < minRounds {
		return nil, nil, fmt.Errorf("%w: %d rounds; give at least %d", ErrReplay, o.Rounds, minRounds)
	}
	if len(o.Channels) == 0 {
		o.Channels = plan.Channels()
	}
	if err := privacy.CheckTarget(o.Epsilon, o.Delta); err != nil {
		return nil, nil, fmt.Errorf("%w: %w", ErrReplay, err)
	}
	r := &Result{Decisions: len(log), Rounds: o.Rounds, Runs: folds * o.Rounds, Epsilon: o.Epsilon, Delta: o.Delta,
		Confidence: o.Confidence}
	log, r.Shortened = shortened(log)
	var err error
	if r.Least, err = least(log); err != nil {
		return nil, nil, err
	}
	r.Bound = 1 / r.Least
	if r.People, err = people(len(log), r.Least); err != nil {
		return nil, nil, err
	}
	c := o.Learner
	c.Horizon, c.Epsilon, c.Delta, c.MinCohort = r.People, o.Epsilon, o.Delta, plan.DefaultMinCohort
	if c, err = c.Resolve(); err != nil {
		return nil, nil, fmt.Errorf("%w: %w", ErrReplay, err)
	}
	f, err := family.New(c.Family, c.MaxReward)
	if err != nil {
		return nil, nil, fmt.Errorf("%w: %w", ErrReplay, err)
	}
	judge, err := evaluate.NewJudge(log, evaluate.Options{Family: f, Confidence: o.Confidence})
	if err != nil {
		return nil, nil, err
	}
	all := &replayer{log: log, least: r.Least, config: c, judge: judge, o: o}
	all.deal()
	for _, channel := range o.Channels {
		tried := &tried{channel: channel, first: o.planned[channel], trust: o.planned[channel]}
		if tried.first == nil {
			t := plan.DefaultTermsFor(channel)
			t.Epsilon, t.Delta = o.Epsilon, o.Delta
			tried.first, tried.trust = play.PlannedOnce(t)
		}
		all.channels = append(all.channels, tried)
	}
	all.channels = append(all.channels, &tried{first: play.Exact, trust: play.Exact})
	return all, r, nil
}

// shortened is the log with arms as devices have them: those longer than 1 scaled to norm 1.
func shortened(log []decisions.Decision) (scaled []decisions.Decision, changed int) {
	scaled = make([]decisions.Decision, len(log))
	for i, d := range log {
		arms, any := make([][]float64, len(d.Arms)), false
		for a, x := range d.Arms {
			var short bool
			arms[a], short = convex.ToUnitBall(x)
			any = any || short
		}
		if any {
			changed++
		}
		d.Arms = arms
		scaled[i] = d
	}
	return scaled, changed
}

// least is the least propensity that an arm of the log had, as far as the log shows: that of an arm which was played,
// or the mean of the others beside it, of which one has no more.
func least(log []decisions.Decision) (float64, error) {
	q, choice := math.Inf(1), len(log) == 0
	for i, d := range log {
		choice = choice || len(d.Arms) > 1
		here := d.Propensity
		if others := len(d.Arms) - 1; others > 0 {
			here = min(here, (1-d.Propensity)/float64(others))
		}
		if here < rounding {
			return 0, fmt.Errorf("%w: decision %d had an arm that was played with probability %v, so that others "+
				"beside it could not be, and no run can learn of them. Log a policy that explores, or replay the "+
				"part of the log in which it did", evaluate.ErrOverlap, i+1, d.Propensity)
		}
		q = min(q, here)
	}
	if !choice {
		return 0, fmt.Errorf("%w: no decision of the log had two arms to choose from, so that there is nothing to "+
			"learn",
			ErrReplay)
	}
	return q, nil
}

// rounding is what a propensity may lack of 1.
const rounding = 1e-9

// people is the number of people of a run on a log of so many rows.
func people(rows int, q float64) (int, error) {
	const few = 2 * plan.DefaultMinCohort
	train := float64(rows - (rows+groups-1)/groups*perFold)
	n := int(train*q - spare*math.Sqrt(train*q*(1-q)))
	if n >= few {
		return n, nil
	}
	return 0, fmt.Errorf("%w: the least propensity is %.3g, so that a run accepts about 1 row in %.0f: %d people, and "+
		"two of the smallest cohorts have %d. Replay a longer log, or a part of it, chosen by time and not by "+
		"propensity, in which every arm was played more often", evaluate.ErrOverlap, q, 1/q, max(0, n), few)
}

package plan

import (
	"fmt"

	"github.com/riffle-dp/riffle/pkg/glm/learner"
	"github.com/riffle-dp/riffle/pkg/glm/statistic"
)

// ErrPairs is an ErrPlan: the reason to refuse pairs in another channel than Local.
var ErrPairs = fmt.Errorf("%w", ErrPlan)

// MaxEntries bounds the numbers in the counts of a round of pairs: reports times the numbers of each. They then fit
// into a statement.
const MaxEntries = 1 << 21

// Pairs reports whether the plan has a release of pairs (statistic.Pair). Then the counts hold the entries of every
// report, in an order that says nothing about who sent which, and the learner takes each by itself.
//
// Guarantee covers that in the channel Local alone. There it counts the noise of the person's own device and nothing
// else, so that it bounds what the report reveals to whoever sees it, and a function of all reports is post-processing.
// In every other channel it rests on nobody seeing one person's report, or on noise that is added to a sum.
func (p *Plan) Pairs() bool {
	for _, round := range p.Rounds {
		for _, r := range round.Releases {
			if r.Statistic == statistic.Pair {
				return true
			}
		}
	}
	return false
}

// CheckPairs refuses a plan of pairs in another channel than Local, with anything else in it, with several decisions in
// a report, of more people than counts can hold, or with noise of servers, which counts could not show. Errors wrap
// ErrPlan.
func (a *Announcement) CheckPairs() error {
	p := &a.Plan
	if !p.Pairs() {
		return nil
	}
	if err := pairsIn(p.Channel); err != nil {
		return err
	}
	switch {
	case p.Curator != nil || len(p.Rounds) != 1 || len(p.Rounds[0].Releases) != 1:
		return fmt.Errorf("%w: a plan of pairs has one release, of pairs", ErrPlan)
	case p.Rounds[0].Releases[0].ServerNoise() > 0:
		return fmt.Errorf("%w: servers add no noise to pairs: each report has its own device's", ErrPlan)
	case p.PerReport() > 1:
		return fmt.Errorf("%w: a pair is of one decision, and a report of this plan holds up to %d", ErrPlan,
			p.PerReport())
	case uint64(a.Cohort.Size)*uint64(a.Policy.Dimension+1) > MaxEntries:
		return fmt.Errorf("%w: counts hold at most %d numbers of reports, and %d people have %d each: plan smaller "+
			"cohorts", ErrPlan, MaxEntries, a.Cohort.Size, a.Policy.Dimension+1)
	}
	return nil
}

// pairsIn refuses a channel in which pairs cannot be counted. Errors are ErrPairs.
func pairsIn(c Channel) error {
	if c == Local {
		return nil
	}
	return fmt.Errorf("%w: arm and reward of each person (%s) are counted report by report, which needs the channel "+
		"%s, where its own noise protects a report from whoever sees it: in %s it does not, and only sums may be "+
		"published", ErrPairs, statistic.Pair, Local, c)
}

// ofPairs reports whether the step asks for pairs.
func ofPairs(step learner.Step) bool {
	for _, round := range step.Statistics {
		for _, s := range round {
			if s.Kind == statistic.Pair {
				return true
			}
		}
	}
	return false
}

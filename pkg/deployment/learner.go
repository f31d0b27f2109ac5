package deployment

import (
	"fmt"
	"iter"
	"reflect"
	"slices"

	"github.com/riffle-dp/riffle/pkg/channel/registry"
	"github.com/riffle-dp/riffle/pkg/glm"
	"github.com/riffle-dp/riffle/pkg/glm/learner"
	"github.com/riffle-dp/riffle/pkg/learn"
	"github.com/riffle-dp/riffle/pkg/learn/program"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/protocol"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// Learner says what is announced next. *learner.Learner is one, and documents the methods; *program.Learner and
// *Curated are the others.
type Learner interface {
	Next() learner.Step
	Destroyed() error
	Schedule() []int
}

// newLearner is that of the profile.
func newLearner(c wire.Configuration) (Learner, error) {
	if c.Learner.Profile == glm.Joint {
		return NewCurated(c.Learner, c.Batch, c.Terms)
	}
	l, err := program.NewSums(c.Learner)
	if err != nil {
		return nil, fmt.Errorf("deployment: %w", err)
	}
	if l, ok := l.(*program.Learner); ok {
		return l, carries(c.Terms.Channel, l)
	}
	return l, nil
}

// carries refuses a program that asks for each person's report where a channel carries sums alone.
func carries(c plan.Channel, l *program.Learner) error {
	if c != plan.Local && slices.Contains(l.Forms(), learn.Reports) {
		return fmt.Errorf("deployment: %w: the profile %s learns from each person's own report, which only the "+
			"channel %s carries; this is %s: change the channel or the learner", program.ErrRefused, l.Config().Profile,
			plan.Local, c)
	}
	return nil
}

// rehearsed is the learner with the steps that its schedule is of: those of a program whose answers are all zeros, and
// elsewhere the first step with the sizes of all cohorts.
func rehearsed(l Learner) iter.Seq[learner.Step] {
	if l, ok := l.(*program.Learner); ok {
		return slices.Values(l.Rehearsed())
	}
	return func(yield func(learner.Step) bool) {
		step := l.Next()
		for _, n := range l.Schedule() {
			if step.Cohort = n; !yield(step) {
				return
			}
		}
	}
}

// mostPeople is the largest number of people that a horizon is extended by: a cohort's size fits into its field.
const mostPeople = 1 << 31

// next is the learner's step. With Anytime a horizon that is over is followed by one twice as long, as in the doubling
// trick of bandits that do not know their horizon: for T people, then for 2T, 4T and so on. The learner goes on from
// all that it knows (learner.Learner.Extend), and no person is asked twice, so that a person's guarantee is that of a
// run with one horizon. Panels go on in cohorts of their one size, and how often a person is asked is the plan's.
func (m *Machine) next() (learner.Step, error) {
	step := m.learner.Next()
	l, ok := m.learner.(*learner.Learner)
	if !ok || !step.Done || !m.c.Anytime {
		return step, nil
	}
	more := m.extension(l)
	if more == 0 {
		return step, nil
	}
	if err := l.Extend(more); err != nil {
		return step, fmt.Errorf("deployment: %w", err)
	}
	return l.Next(), nil
}

// Propose plans the epoch that the step begins.
func Propose(l Learner, step learner.Step, terms plan.Terms) (*plan.Proposal, error) {
	return propose(new(plan.Proposer), l, step, terms)
}

// propose is Propose with a proposer that keeps what several plans have in common.
func propose(p *plan.Proposer, l Learner, step learner.Step, terms plan.Terms) (*plan.Proposal, error) {
	if l, ok := l.(*Curated); ok {
		return plan.ProposeCurated(step, terms, l.Curator())
	}
	return p.Propose(step, terms)
}

// Planned makes the learner, plans every cohort of its schedule and gives each plan to f, which does not change it:
// cohorts of one size that follow each other have one plan.
func Planned(c wire.Configuration, f func(learner.Step, *plan.Proposal)) (Learner, error) {
	l, err := newLearner(c)
	if err != nil {
		return nil, err
	}
	var p *plan.Proposal
	var before learner.Step
	proposer := new(plan.Proposer) // keeps how statistics spread, of those that are alike
	i := 0
	for step := range rehearsed(l) {
		i++
		if p == nil || step.Cohort != before.Cohort || !alike(step, before) {
			if p, err = propose(proposer, l, step, c.Terms); err != nil {
				return nil, fmt.Errorf("deployment: cohort %d of %d people: %w", i, step.Cohort, err)
			}
		}
		before = step
		f(step, p)
	}
	return l, nil
}

// alike reports whether two steps ask for the same statistics in the same shares.
func alike(a, b learner.Step) bool {
	return reflect.DeepEqual(a.Statistics, b.Statistics) && reflect.DeepEqual(a.Shares, b.Shares)
}

// Feasible makes the learner, and plans every cohort of its schedule. largest is the length in bytes of the payload of
// the largest report.
func Feasible(c wire.Configuration) (l Learner, largest int, err error) {
	l, err = Planned(c, func(step learner.Step, p *plan.Proposal) {
		if p.Plan.Curator != nil {
			largest = max(largest, registry.PayloadSize(c.Terms.Channel, p.Encodings))
			return
		}
		k := 0
		for _, round := range step.Statistics {
			var encodings []protocol.Encoding
			for range round {
				encodings = append(encodings, p.Details.Releases[k].Encoding)
				k++
			}
			largest = max(largest, registry.PayloadSize(c.Terms.Channel, encodings))
		}
	})
	return l, largest, err
}

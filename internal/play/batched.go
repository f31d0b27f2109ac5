package play

import (
	"fmt"
	"iter"
	"slices"

	"github.com/riffle-dp/riffle/pkg/channel/simulated"
	"github.com/riffle-dp/riffle/pkg/glm"
	"github.com/riffle-dp/riffle/pkg/glm/learner"
	"github.com/riffle-dp/riffle/pkg/glm/statistic"
	"github.com/riffle-dp/riffle/pkg/learn/program"
	"github.com/riffle-dp/riffle/pkg/protocol"
)

// Batched plays as a deployment does: people decide with the policy in force, and when a cohort is full the learner
// gets the sums of its statistics through a channel. It is Riffle in all profiles but joint and in all four channels,
// and with other Trusts the yardsticks of Gaussian noise and the same algorithm without noise.
type Batched struct {
	learner  program.Sums
	trust    Trust
	devices  protocol.Source // people's own coins
	noise    protocol.Source // the channel's
	step     learner.Step
	records  records
	decided  int // people of the current cohort
	drafts   drafts
	chosen   []float64
	weight   float64
	odds     float64 // of the last choice
	people   int     // decided for
	messages float64 // sent by all of them
	spent    Spent
	epochs   int // policies that were in force
}

// NewBatched starts the profile's learner. Both sources are the simulation's.
func NewBatched(cfg learner.Config, trust Trust, devices, noise protocol.Source) (*Batched, error) {
	l, err := program.NewSums(cfg)
	if err != nil {
		return nil, err
	}
	b := &Batched{learner: l, trust: trust, devices: devices, noise: noise}
	b.records.dimension = b.learner.Config().Dimension
	return b, b.begin()
}

// begin takes the learner's next cohort.
func (b *Batched) begin() error {
	b.step = b.learner.Next()
	b.decided = 0
	b.drafts.clear()
	b.records.reset()
	if b.step.Done {
		return nil
	}
	if err := b.step.Policy.Validate(); err != nil {
		return err
	}
	b.epochs++
	return nil
}

// extend goes on for the given number of people after the horizon.
func (b *Batched) extend(people int) error {
	l, ok := b.learner.(*learner.Learner)
	if !ok {
		return learner.ErrExtend
	}
	if err := l.Extend(people); err != nil {
		return err
	}
	return b.begin()
}

// Choose implements Algorithm.
func (b *Batched) Choose(arms [][]float64) (int, error) {
	draft, err := b.drafts.take(&b.step.Policy, arms)
	if err != nil {
		return 0, err
	}
	d := draft.Decide(b.devices)
	b.chosen, b.weight, b.odds = arms[d.Arm], d.Weight, d.Propensity
	return d.Arm, nil
}

// Prepare implements Preparer: those of the current cohort decide with the policy in force.
func (b *Batched) Prepare(sets [][][]float64) {
	if !b.step.Done {
		sets = sets[:min(len(sets), b.step.Cohort-b.decided)]
	}
	b.drafts.prepare(&b.step.Policy, sets)
}

// Prepared implements Preparer.
func (b *Batched) Prepared() int { return b.drafts.prepared() }

// Propensity implements Randomized.
func (b *Batched) Propensity() float64 { return b.odds }

// Learn implements Algorithm.
func (b *Batched) Learn(reward float64) error {
	b.people++
	if b.step.Done {
		return nil
	}
	b.records.add(b.chosen, reward, b.weight)
	b.decided++
	if b.decided < b.step.Cohort {
		return nil
	}
	if err := b.absorb(); err != nil {
		return err
	}
	return b.begin()
}

// absorb runs all rounds of the full cohort.
func (b *Batched) absorb() error {
	for epoch := b.step.Epoch; ; {
		c, cost, err := b.trust(b.step)
		if err != nil {
			return err
		}
		if b.step.Round == 0 {
			b.messages += float64(cost.Messages) * float64(b.step.Cohort)
			b.spent = append(b.spent, CohortCost{b.step.Cohort, cost})
		}
		statistics := b.step.Statistics[b.step.Round]
		sums, err := b.sums(c, statistics)
		if err != nil {
			return err
		}
		if err := b.learner.Absorb(sums); err != nil {
			return err
		}
		if b.step = b.learner.Next(); b.step.Done || b.step.Epoch != epoch {
			return nil
		}
	}
}

// sums are what the channel brings back of the cohort: of pairs each report by itself.
func (b *Batched) sums(c simulated.Channel, statistics []statistic.Statistic) (sums []learner.Aggregate, err error) {
	reports := b.records.reports(statistics)
	if len(statistics) == 1 && statistics[0].Kind == statistic.Pair {
		each, a, err := simulated.Each(c, reports, b.noise)
		if err != nil {
			return nil, err
		}
		return []learner.Aggregate{{Kind: statistic.Pair, Sum: a.Sum, Variance: a.Variance, Reports: a.Reports,
			Each: each}}, nil
	}
	aggregates, err := c.Aggregate(reports, b.noise)
	if err != nil {
		return nil, err
	}
	for i, a := range aggregates {
		sums = append(sums, learner.Aggregate{Kind: statistics[i].Kind, Sum: a.Sum, Variance: a.Variance,
			Reports: a.Reports})
	}
	return sums, nil
}

// MessagesPerPerson implements Sender.
func (b *Batched) MessagesPerPerson() float64 { return b.messages / float64(max(1, b.people)) }

// Spent implements Planner.
func (b *Batched) Spent() Spent { return b.spent }

// Final implements Estimator: the parameter of the final policy, refitted with the last cohort.
func (b *Batched) Final() ([]float64, error) {
	p, err := b.FinalPolicy()
	return p.Theta, err
}

// InForce is the policy with which the next person decides.
func (b *Batched) InForce() glm.Policy { return b.step.Policy }

// FinalPolicy is the policy after the horizon.
func (b *Batched) FinalPolicy() (glm.Policy, error) {
	if !b.step.Done {
		return glm.Policy{}, fmt.Errorf("simulate: the horizon is not over: %d people of the current cohort of %d "+
			"decided",
			b.decided, b.step.Cohort)
	}
	return b.step.Policy, nil
}

// records are what the devices of a cohort remember, in three flat slices: a million separate records would burden the
// garbage collector.
type records struct {
	dimension int
	arms      []float64
	rewards   []float64
	weights   []float64
}

func (r *records) reset() { r.arms, r.rewards, r.weights = r.arms[:0], r.rewards[:0], r.weights[:0] }

func (r *records) add(arm []float64, reward, weight float64) {
	r.arms, r.rewards, r.weights = append(r.arms, arm...), append(r.rewards, reward), append(r.weights, weight)
}

// reports computes the vectors of every record. A record that a statistic refuses counts as null, as on a device.
func (r *records) reports(statistics []statistic.Statistic) iter.Seq[simulated.Report] {
	return func(yield func(simulated.Report) bool) {
		report := make(simulated.Report, len(statistics))
		for k, reward := range r.rewards {
			record := statistic.Record{Arm: r.arms[k*r.dimension : (k+1)*r.dimension], Reward: reward,
				Weight: r.weights[k]}
			for i, s := range statistics {
				v, err := s.Vector(report[i], record)
				if err != nil {
					v = append(slices.Grow(report[i][:0], s.Dim()), make([]float64, s.Dim())...)
				}
				report[i] = v
			}
			if !yield(report) {
				return
			}
		}
	}
}

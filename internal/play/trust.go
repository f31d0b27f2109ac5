package play

import (
	"fmt"
	"math"

	"github.com/riffle-dp/riffle/pkg/channel/simulated"
	"github.com/riffle-dp/riffle/pkg/glm/learner"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/protocol"
)

// Trust makes the channel that brings back a step's sums, and says what it costs a person over all rounds of the step's
// epoch. It is called at the beginning of every round; costs count at round 0. One Trust serves one run.
type Trust func(step learner.Step) (c simulated.Channel, cost Cost, err error)

// Exact is no privacy at all: the learner sees the exact sums.
func Exact(learner.Step) (simulated.Channel, Cost, error) {
	return simulated.Exact{}, Cost{Messages: 1}, nil
}

// Planned is the channel that the terms name, planned as the deployed analyzer plans it: pkg/plan makes the encodings
// of every epoch and says how much noise servers add.
func Planned(terms plan.Terms) Trust {
	proposer, announced, cost := new(plan.Proposer), (*plan.Proposal)(nil), Cost{}
	return func(step learner.Step) (simulated.Channel, Cost, error) {
		if step.Round == 0 {
			p, err := proposer.Propose(step, terms)
			if err != nil {
				return nil, Cost{}, fmt.Errorf("simulate: epoch %d of %d people: %w", step.Epoch, step.Cohort, err)
			}
			announced, cost = p, CostOf(p)
		} else {
			e, err := plan.Encode(announced.Plan, step)
			if err != nil {
				return nil, Cost{}, fmt.Errorf("simulate: epoch %d, round %d: %w", step.Epoch, step.Round, err)
			}
			announced.Encodings = e
		}
		return planned(announced, step.Round, announced.Encodings), cost, nil
	}
}

// PlannedOnce is Planned for many runs of one learner, which share the plans that the first run makes. The first run is
// over before the others begin, which may then run at the same time. A run's own public iterate scales the encodings,
// as it does from round to round of an epoch (plan.Encode): the noise follows what is released, and only the search for
// the best encoding is not repeated.
func PlannedOnce(terms plan.Terms) (first, others Trust) {
	proposer, known := new(plan.Proposer), map[int]*plan.Proposal{}
	encoded := func(step learner.Step) (simulated.Channel, Cost, error) {
		p := known[step.Epoch]
		if p == nil || int(p.Cohort.Size) != step.Cohort {
			return nil, Cost{}, fmt.Errorf("simulate: epoch %d of %d people was not planned", step.Epoch, step.Cohort)
		}
		encodings, err := plan.Encode(p.Plan, step)
		if err != nil {
			return nil, Cost{}, fmt.Errorf("simulate: epoch %d, round %d: %w", step.Epoch, step.Round, err)
		}
		return planned(p, step.Round, encodings), CostOf(p), nil
	}
	first = func(step learner.Step) (simulated.Channel, Cost, error) {
		if step.Round == 0 {
			p, err := proposer.Propose(step, terms)
			if err != nil {
				return nil, Cost{}, fmt.Errorf("simulate: epoch %d of %d people: %w", step.Epoch, step.Cohort, err)
			}
			known[step.Epoch] = p
		}
		return encoded(step)
	}
	return first, encoded
}

// planned is the channel of a round of a plan.
func planned(p *plan.Proposal, round int, encodings []protocol.Encoding) simulated.Channel {
	c := simulated.Integer{Encodings: encodings, MinCohort: int(p.Cohort.Minimum)}
	for _, r := range p.Plan.Rounds[round].Releases {
		c.ServerNoise = append(c.ServerNoise, r.ServerNoise())
	}
	return c
}

// GaussianLocal has every device perturb its own vectors with floating-point Gaussian noise, at the same guarantee
// for a person: a yardstick.
func GaussianLocal(epsilon, delta float64) Trust {
	return func(step learner.Step) (simulated.Channel, Cost, error) {
		statistics, err := ranges(step)
		if err != nil {
			return nil, Cost{}, err
		}
		c, err := simulated.NewGaussianLocal(statistics, epsilon, delta)
		return c, Cost{Messages: 1}, err
	}
}

// GaussianCentral has a trusted curator add floating-point Gaussian noise to the sums, at the same guarantee for a
// person: a yardstick.
func GaussianCentral(epsilon, delta float64) Trust {
	return func(step learner.Step) (simulated.Channel, Cost, error) {
		statistics, err := ranges(step)
		if err != nil {
			return nil, Cost{}, err
		}
		c, err := simulated.NewGaussianCentral(statistics, epsilon, delta)
		return c, Cost{Messages: 1}, err
	}
}

// ranges describes the statistics of the step's round to a Gaussian channel. The channel gives its whole budget to
// the statistics that it is told of; where an epoch has more rounds, diameters are scaled up so that each statistic
// gets its share of the epoch's budget.
func ranges(step learner.Step) ([]simulated.Range, error) {
	var total, round float64
	for i, shares := range step.Shares {
		for _, share := range shares {
			total += share
			if i == step.Round {
				round += share
			}
		}
	}
	var out []simulated.Range
	for i, s := range step.Statistics[step.Round] {
		b, err := s.Bounds()
		if err != nil {
			return nil, fmt.Errorf("simulate: epoch %d: %w", step.Epoch, err)
		}
		out = append(out, simulated.Range{Lower: b.Lower, Upper: b.Upper,
			Diameter: b.Diameter * math.Sqrt(total/round), Share: step.Shares[step.Round][i]})
	}
	return out, nil
}

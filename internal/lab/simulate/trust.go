package simulate

import (
	"fmt"
	"math"

	"github.com/riffle-dp/riffle/pkg/channel/simulated"
	"github.com/riffle-dp/riffle/pkg/glm"
	"github.com/riffle-dp/riffle/pkg/plan"
)

// Trust makes the channel that brings back a step's sums, and says how many messages a person sends over all rounds of the step's
// epoch. It is called at the beginning of every round; messages count at round 0. One Trust serves one run.
type Trust func(step glm.Step) (c simulated.Channel, messages int, err error)

// Exact is no privacy at all: the learner sees the exact sums.
func Exact(glm.Step) (simulated.Channel, int, error) { return simulated.Exact{}, 1, nil }

// Shuffle is the protocol, planned as the deployed analyzer plans it: pkg/plan makes the encodings of every epoch.
func Shuffle(terms plan.Terms) Trust {
	proposer, announced := new(plan.Proposer), (*plan.Proposal)(nil)
	return func(step glm.Step) (simulated.Channel, int, error) {
		if step.Round == 0 {
			p, err := proposer.Propose(step, terms)
			if err != nil {
				return nil, 0, fmt.Errorf("simulate: epoch %d of %d people: %w", step.Epoch, step.Cohort, err)
			}
			announced = p
		} else {
			e, err := plan.Encode(announced.Plan, step)
			if err != nil {
				return nil, 0, fmt.Errorf("simulate: epoch %d, round %d: %w", step.Epoch, step.Round, err)
			}
			announced.Encodings = e
		}
		return simulated.Shuffle{Encodings: announced.Encodings, MinCohort: int(announced.Cohort.Minimum)}, announced.Details.Messages, nil
	}
}

// Local has every device perturb its own vectors with the Gaussian mechanism, at the same guarantee for a person.
func Local(epsilon, delta float64) Trust {
	return func(step glm.Step) (simulated.Channel, int, error) {
		statistics, err := ranges(step)
		if err != nil {
			return nil, 0, err
		}
		c, err := simulated.NewLocal(statistics, epsilon, delta)
		return c, 1, err
	}
}

// Central has a trusted curator add Gaussian noise to the sums, at the same guarantee for a person.
func Central(epsilon, delta float64) Trust {
	return func(step glm.Step) (simulated.Channel, int, error) {
		statistics, err := ranges(step)
		if err != nil {
			return nil, 0, err
		}
		c, err := simulated.NewCentral(statistics, epsilon, delta)
		return c, 1, err
	}
}

// ranges describes the statistics of the step's round to a Gaussian channel. The channel gives its whole budget to the statistics that
// it is told of; where an epoch has more rounds, diameters are scaled up so that each statistic gets its share of the epoch's budget.
func ranges(step glm.Step) ([]simulated.Range, error) {
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
		out = append(out, simulated.Range{Lower: b.Lower, Upper: b.Upper, Diameter: b.Diameter * math.Sqrt(total/round), Share: step.Shares[step.Round][i]})
	}
	return out, nil
}

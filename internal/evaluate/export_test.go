package evaluate

import (
	"github.com/riffle-dp/riffle/internal/play"
	"github.com/riffle-dp/riffle/internal/population/decisions"
	"github.com/riffle-dp/riffle/pkg/channel/simulated"
	"github.com/riffle-dp/riffle/pkg/glm/learner"
)

// PlannedOnce has all fits take the plans that the first of them makes. Those of another log differ a little, as the
// second and third cohort's statistics are at what the first one taught; what is stated of the noise is true of any.
func (o PriorOptions) PlannedOnce() PriorOptions {
	type planned struct {
		channel simulated.Channel
		cost    play.Cost
	}
	plan, known := o.channel(), map[int]planned{}
	o.trust = func(step learner.Step) (simulated.Channel, play.Cost, error) {
		p, ok := known[step.Cohort]
		if !ok {
			var err error
			if p.channel, p.cost, err = plan(step); err != nil {
				return nil, play.Cost{}, err
			}
			known[step.Cohort] = p
		}
		return p.channel, p.cost, nil
	}
	return o
}

// Diagnose says how far the log supports the target.
func Diagnose(log []decisions.Decision, target Target) (*Overlap, error) {
	probabilities, err := propensities(log, target)
	if err != nil {
		return nil, err
	}
	return overlap(log, played(log, probabilities))
}

package empirical

import (
	"fmt"

	"github.com/riffle-dp/riffle/pkg/glm"
	"github.com/riffle-dp/riffle/pkg/plan"
)

// announce draws up the first announcement of a deployment of the practical profile.
func announce(o Options) (*plan.Announcement, error) {
	config := glm.Config{Dimension: o.Dimension, Horizon: o.Cohort, MinCohort: o.Cohort, Epsilon: o.Epsilon, Delta: o.Delta}
	config.Practical.FirstCohort = o.Cohort
	learner, err := glm.NewLearner(config)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrOptions, err)
	}
	step := learner.Next()
	terms := plan.DefaultTermsFor(o.Channel)
	terms.Epsilon, terms.Delta = o.Epsilon, o.Delta
	p, err := plan.Propose(step, terms)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrOptions, err)
	}
	a := p.Announced(step)
	return a, nil
}

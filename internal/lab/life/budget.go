package life

import "github.com/riffle-dp/riffle/pkg/plan"

// terms are those of a deployment's plans: a person's guarantee for all of its life, which the planner divides over as
// many reports as a person sends.
func (s Setting) terms(m Mode, of schedule) plan.Terms {
	t := plan.DefaultTermsFor(s.Channel)
	t.Epsilon, t.Delta, t.Dishonest, t.DishonestReports, t.MinCohort = s.Epsilon, s.Delta, s.Dishonest, 0, 0
	if m.Kind == Panel {
		t.Registered, t.Decisions, t.Records = of.pool, m.Decisions, of.records
	}
	return t
}

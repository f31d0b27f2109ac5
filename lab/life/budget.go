package life

import (
	"github.com/riffle-dp/riffle/internal/world"
	"github.com/riffle-dp/riffle/pkg/plan"
)

// terms are those of a deployment's plans: a person's guarantee for all of its life, which the planner divides over as
// many reports as a person sends.
func terms(s world.Setting, m world.Mode, of world.Schedule) plan.Terms {
	t := plan.DefaultTermsFor(s.Channel)
	t.Epsilon, t.Delta, t.Dishonest, t.DishonestReports, t.MinCohort = s.Epsilon, s.Delta, s.Dishonest, 0, 0
	if m.Kind == world.Panel {
		t.Registered, t.Decisions, t.Records = of.Pool, m.Decisions, of.Records
	}
	return t
}

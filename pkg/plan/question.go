package plan

import (
	"fmt"

	"github.com/riffle-dp/riffle/pkg/glm/statistic"
)

// AskedKind is the kind of the plan's answer to a question; empty where it asks none.
func (p *Plan) AskedKind() statistic.Kind {
	for _, round := range p.Rounds {
		for _, r := range round.Releases {
			if r.Statistic.Asked() {
				return r.Statistic
			}
		}
	}
	return ""
}

// CheckQuestion refuses a question without an answer in the plan and an answer without a question; a question that is
// not well formed, or is asked of others than a panel: a panel's records are all of what people did after the
// announcement, and its plan is counted over all epochs of a person; and releases beside the answer. Errors wrap
// ErrPlan.
func (a *Announcement) CheckQuestion() error {
	kind := a.Plan.AskedKind()
	switch {
	case kind == "" && a.Question == nil:
		return nil
	case kind == "":
		return fmt.Errorf("%w: a question is asked, and the plan releases no answer", ErrPlan)
	case a.Plan.Panel == nil || a.Plan.Curator != nil:
		return fmt.Errorf("%w: a question is asked of a panel", ErrPlan)
	case len(a.Plan.Rounds) != 1 || len(a.Plan.Rounds[0].Releases) != 1:
		return fmt.Errorf("%w: the answer to a question is the epoch's one release", ErrPlan)
	}
	if err := a.Question.Validate(kind, a.Policy.Dimension); err != nil {
		return fmt.Errorf("%w: %w", ErrPlan, err)
	}
	return nil
}

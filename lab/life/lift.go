package life

import (
	"github.com/riffle-dp/riffle/internal/world"
	"github.com/riffle-dp/riffle/pkg/glm"
	"github.com/riffle-dp/riffle/pkg/glm/family"
	"github.com/riffle-dp/riffle/pkg/glm/learner"
	"github.com/riffle-dp/riffle/pkg/protocol"
)

// lift is by how much the policy was better than the default arm, in truth, on the decisions in an epoch's reports.
type lift struct {
	gain      float64
	decisions int
}

// add takes a decision. For one of the control group it is asked what the policy would have played.
func (l *lift) add(policy glm.Policy, o world.Occasion, d glm.Decision, src protocol.Source) error {
	if policy.Control == 0 {
		return nil
	}
	if d.Control {
		policy.Control = 0
		var err error
		if d, err = policy.DecideFor(o.Arms, glm.Choice{}, src); err != nil {
			return err
		}
	}
	l.gain += o.Means[d.Arm] - o.Means[0]
	l.decisions++
	return nil
}

// compare enters the lift of an epoch, by its release of rewards and in truth.
func (l lift) compare(e *Epoch, rewards learner.Aggregate, family family.Family, control float64) error {
	shown, err := learner.NewLift(rewards, family, control)
	if err != nil {
		return err
	}
	e.Lift, e.Low, e.High, e.Decisions = shown.Lift, shown.Low, shown.High, shown.Decisions
	if l.decisions > 0 {
		e.True = l.gain / float64(l.decisions)
	}
	return nil
}

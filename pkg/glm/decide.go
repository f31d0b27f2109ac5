package glm

import (
	"fmt"

	"github.com/riffle-dp/riffle/pkg/glm/design"
	"github.com/riffle-dp/riffle/pkg/glm/family"
	"github.com/riffle-dp/riffle/pkg/protocol"
)

// Errors of a decision: those of package design.
var (
	ErrNoArms = design.ErrNoArms
	ErrBadArm = design.ErrBadArm
)

// Decision is the arm that a device plays and what the device must remember of it. It stays on the device.
type Decision struct {
	Arm        int     // index into the arms given
	Weight     float64 // s(x)^2 of the arm played, equation (10); 1 while the policy has no scaling
	Propensity float64 // probability with which the policy plays this arm in this arm set
	Survivors  int     // arms left after elimination
	Shortened  int     // arms that had norm above 1 and were scaled down to the unit ball
	Control    bool    // a coin put the decision into the control group, which gets the default arm
	Explored   bool    // Criterion I of Algorithm 2 picked the arm; only with PlayOptimistic
}

// Decide is DecideFor without exclusions, with the first arm as the default.
func (p *Policy) Decide(arms [][]float64, src protocol.Source) (Decision, error) {
	return p.DecideFor(arms, Choice{}, src)
}

// DecideFor plays one round of Algorithm 1 (lines 3 and 11-21 of Riffle's seed paper): eliminate with every stage in
// order, scale the survivors, draw from their G-optimal design or take the greedy arm (with Explore, one of the two by
// chance). Before that, a coin gives the share Control of decisions the default arm. It is a pure function of the
// policy, the arms, the choice and the random words. Arms longer than 1 are scaled down to the unit ball; arms of the
// wrong dimension, with coordinates that are not finite, or that do not fit the structure are refused (ErrBadArm), and
// so are a choice that names an arm that is not there (ErrBadArm), an empty arm set and one of which all are excluded
// (ErrNoArms), and a malformed policy (ErrPolicy). A device that gets an error reports the null record.
func (p *Policy) DecideFor(arms [][]float64, choice Choice, src protocol.Source) (Decision, error) {
	draft, err := p.Draft(arms, choice)
	if err != nil {
		return Decision{}, err
	}
	return draft.Decide(src), nil
}

// Draft is a decision before chance: all that DecideFor computes without random words. It is for whoever decides for
// many people at once, in any order, and must draw for them in theirs. It keeps the arms and must not outlive a change
// of them or of the policy.
type Draft struct {
	policy  *Policy
	family  family.Family // nil: records have weight 1
	offer   offer
	lottery lottery
	choice  Choice
}

// Draft does what DecideFor does before it draws. Its errors are those of DecideFor.
func (p *Policy) Draft(arms [][]float64, choice Choice) (Draft, error) {
	d := Draft{policy: p, choice: choice}
	var err error
	if d.offer, err = p.offer(arms, choice); err != nil {
		return Draft{}, err
	}
	// Those in the control group need it too, for their propensity.
	if d.lottery, err = p.lottery(d.offer, choice.Unrecorded); err != nil {
		return Draft{}, err
	}
	if p.Scaling != nil && p.Play != PlayOptimistic {
		if d.family, err = family.New(p.Family, p.MaxReward); err != nil {
			return Draft{}, fmt.Errorf("%w: %w", ErrPolicy, err)
		}
	}
	return d, nil
}

// Decide draws: whether the person is in the control group, if there is one, and then the arm.
func (d Draft) Decide(src protocol.Source) Decision {
	p, o, l := d.policy, d.offer, d.lottery
	coin := p.Control > 0 && !d.choice.Unrecorded && protocol.Uniform(src) < p.Control
	pick := o.fallback
	if !coin {
		pick = l.draw(src)
	}
	decision := Decision{Arm: o.index(pick), Weight: 1, Propensity: p.total(l, o, pick, d.choice),
		Survivors: l.survivors, Shortened: o.shortened, Control: coin, Explored: l.explored && !coin}
	if d.family != nil {
		decision.Weight = p.Scaling.Weight(d.family, o.arms[pick])
	}
	return decision
}

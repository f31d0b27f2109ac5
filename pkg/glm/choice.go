package glm

import (
	"fmt"
)

// Choice is what an app says of one arm set beside the arms. The zero value excludes nothing and has the first arm as
// the default.
type Choice struct {
	// Default is the index of the arm that was played before there was a policy: what the control group gets, and
	// everybody for whom the policy is not sure enough (Policy.Caution). If it is excluded, the first arm left is the
	// default.
	Default int
	// Excluded are indices of arms that must not be played this time. They may repeat.
	Excluded []int
	// Unrecorded says that nobody will learn from this decision, because the person is in no cohort or has no room for
	// another record. Nobody then explores or is in a control group, which would cost and show nothing: the person gets
	// the greedy arm, or the default where no arm is estimated to be better. Only the play uniform does not change.
	Unrecorded bool
}

// offer is an arm set as a policy sees it: inside the unit ball, without the arms that are excluded.
type offer struct {
	arms      [][]float64
	of        []int // of is the index of every arm in the app's list; nil: the same
	fallback  int   // position of the default arm in arms
	shortened int   // how many of the app's arms were scaled down
}

// index is an arm's index in the app's list.
func (o offer) index(position int) int {
	if o.of == nil {
		return position
	}
	return o.of[position]
}

// offer checks the arms and the choice.
func (p *Policy) offer(arms [][]float64, c Choice) (offer, error) {
	admitted, shortened, err := p.admit(arms)
	if err != nil {
		return offer{}, err
	}
	if c.Default < 0 || c.Default >= len(arms) {
		return offer{}, fmt.Errorf("%w: the default is arm %d of %d", ErrBadArm, c.Default, len(arms))
	}
	o := offer{arms: admitted, fallback: c.Default, shortened: shortened}
	if len(c.Excluded) == 0 {
		return o, nil
	}
	out := make([]bool, len(arms))
	for _, a := range c.Excluded {
		if a < 0 || a >= len(arms) {
			return offer{}, fmt.Errorf("%w: arm %d of %d is excluded", ErrBadArm, a, len(arms))
		}
		out[a] = true
	}
	o.arms, o.of, o.fallback = nil, nil, 0
	for a, x := range admitted {
		if out[a] {
			continue
		}
		if a == c.Default {
			o.fallback = len(o.arms)
		}
		o.arms, o.of = append(o.arms, x), append(o.of, a)
	}
	if len(o.arms) == 0 {
		return offer{}, fmt.Errorf("%w: all %d arms are excluded", ErrNoArms, len(arms))
	}
	return o, nil
}

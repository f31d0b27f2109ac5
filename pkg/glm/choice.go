package glm

import (
	"fmt"
	"slices"

	"github.com/riffle-dp/riffle/pkg/convex"
	"github.com/riffle-dp/riffle/pkg/protocol"
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
	// the greedy arm, or the default where no arm is estimated to be better. The plays uniform and optimistic do not
	// change.
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

// lottery is how a policy draws an arm for somebody who is not in the control group: positions in an offer, and the
// probability of each.
type lottery struct {
	arms      []int
	weights   []float64
	equal     bool // all weights are the same
	survivors int  // arms left after elimination
	explored  bool // Decision.Explored
}

func certain(arm, survivors int) lottery {
	return lottery{arms: []int{arm}, weights: []float64{1}, survivors: survivors}
}

// lottery makes the draw. greedy leaves exploration out: see Choice.Unrecorded.
func (p *Policy) lottery(o offer, greedy bool) (lottery, error) {
	switch p.Play {
	case PlayDefault:
		return certain(o.fallback, len(o.arms)), nil
	case PlayOptimistic:
		arm, survivors, explored, err := p.optimistic(o.arms)
		l := certain(arm, survivors)
		l.explored = explored
		return l, err
	}
	survivors, err := p.Eliminate(o.arms)
	if err != nil {
		return lottery{}, err
	}
	if p.Play == PlayUniform {
		l := lottery{arms: survivors, weights: make([]float64, len(survivors)), survivors: len(survivors), equal: true}
		for i := range l.weights {
			l.weights[i] = 1 / float64(len(survivors))
		}
		return l, nil
	}
	best := survivors[p.greedy(o.arms, survivors)]
	if (p.Caution > 0 || greedy) && !p.sure(o.arms[best], o.arms[o.fallback]) {
		best = o.fallback
	}
	switch {
	case p.Play != PlayDesign && p.Play != PlayGreedy:
		return lottery{}, fmt.Errorf("%w: play %q", ErrPolicy, p.Play)
	case p.Play == PlayGreedy, greedy, len(survivors) == 1 && best == survivors[0]:
		return certain(best, len(survivors)), nil
	}
	weights, err := p.design(o.arms, survivors)
	if err != nil {
		return lottery{}, err
	}
	l := lottery{arms: survivors, weights: weights, survivors: len(survivors)}
	if p.Explore == 0 {
		return l, nil
	}
	for i := range weights {
		weights[i] *= p.Explore
	}
	at := slices.Index(survivors, best)
	if at < 0 { // the default, which was eliminated
		at, l.arms, l.weights = len(survivors), append(survivors, best), append(weights, 0)
	}
	l.weights[at] += 1 - p.Explore
	return l, nil
}

// sure says whether the estimate shows one arm to be better than another: by more than Caution standard deviations of
// their difference. The deviations are those of Scaling, which holds what is known as the policy is made. A policy
// without Scaling is sure of nothing if it is cautious.
func (p *Policy) sure(better, than []float64) bool {
	difference := make([]float64, len(better))
	for j, v := range better {
		difference[j] = v - than[j]
	}
	gain := convex.Dot(difference, p.Theta)
	if p.Caution == 0 {
		return gain > 0
	}
	if p.Scaling == nil {
		return false
	}
	return gain > p.Caution*Stage{Covariance: p.Scaling.Covariance, Width: 1}.HalfWidth(difference)
}

// draw takes one random word, or none where there is one arm.
func (l lottery) draw(src protocol.Source) int {
	if len(l.arms) == 1 && !l.equal {
		return l.arms[0]
	}
	u, last := protocol.Uniform(src), 0
	if l.equal {
		return l.arms[int(u*float64(len(l.arms)))]
	}
	for i, w := range l.weights {
		if w == 0 {
			continue
		}
		last = i
		if u < w {
			break
		}
		u -= w
	}
	return l.arms[last]
}

// total is the probability with which the policy plays the arm at a position of the offer, control group included.
func (p *Policy) total(l lottery, o offer, position int, c Choice) float64 {
	share := 0.0
	if i := slices.Index(l.arms, position); i >= 0 {
		share = l.weights[i]
	}
	if p.Control == 0 || c.Unrecorded {
		return share
	}
	share *= 1 - p.Control
	if position == o.fallback {
		share += p.Control
	}
	return share
}

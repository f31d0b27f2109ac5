package glm

import (
	"fmt"
	"math"
	"slices"

	"github.com/riffle-dp/riffle/pkg/convex"
	"github.com/riffle-dp/riffle/pkg/glm/design"
	"github.com/riffle-dp/riffle/pkg/glm/family"
	"github.com/riffle-dp/riffle/pkg/protocol"
)

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
		if !greedy {
			arm, survivors, explored, err := p.optimistic(o.arms)
			l := certain(arm, survivors)
			l.explored = explored
			return l, err
		}
	}
	if !slices.Contains(plays, p.Play) {
		return lottery{}, fmt.Errorf("%w: play %q", ErrPolicy, p.Play)
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
	top := survivors[p.greedy(o.arms, survivors)]
	best := top
	if (p.Caution > 0 || greedy) && !p.sure(o.arms[best], o.arms[o.fallback]) {
		best = o.fallback
	}
	if p.Play == PlayGreedy || greedy || len(survivors) == 1 && best == survivors[0] {
		return certain(best, len(survivors)), nil
	}
	weights, rest, err := p.explore(o.arms, survivors, top)
	if err != nil {
		return lottery{}, err
	}
	l := lottery{arms: survivors, weights: weights, survivors: len(survivors)}
	if rest == 0 {
		return l, nil
	}
	at := slices.Index(survivors, best)
	if at < 0 { // the default, which was eliminated
		at, l.arms, l.weights = len(survivors), append(survivors, best), append(weights, 0)
	}
	l.weights[at] += rest
	return l, nil
}

// explore is the probability with which exploration plays each survivor, and what is left of 1 for the greedy arm,
// which is top if there is no caution.
func (p *Policy) explore(arms [][]float64, survivors []int, top int) (weights []float64, rest float64, err error) {
	switch p.Play {
	case PlayInverseGap:
		weights, rest = p.inverseGap(arms, survivors, top)
		return weights, rest, nil
	case PlaySampled:
		weights, err = p.sampled(arms, survivors)
	case PlaySpanner:
		weights, err = p.spanner(arms, survivors)
	default:
		weights, err = p.design(arms, survivors)
	}
	if err != nil || p.Explore == 0 {
		return weights, 0, err
	}
	for i := range weights {
		weights[i] *= p.Explore
	}
	return weights, 1 - p.Explore, nil
}

// inverseGap is 1/(K + Gamma g) of every survivor, and the rest.
func (p *Policy) inverseGap(arms [][]float64, survivors []int, top int) (weights []float64, rest float64) {
	value := func(arm int) float64 { return math.Max(-1, math.Min(p.score(arms[arm]), 1)) }
	weights, rest = make([]float64, len(survivors)), 1
	for i, a := range survivors {
		weights[i] = 1 / (float64(len(survivors)) + p.Gamma*(value(top)-value(a)))
		rest -= weights[i]
	}
	return weights, math.Max(0, rest)
}

// spanner is the uniform distribution on a barycentric spanner of the survivors.
func (p *Policy) spanner(arms [][]float64, survivors []int) ([]float64, error) {
	left := make([][]float64, len(survivors))
	for i, a := range survivors {
		left[i] = arms[a]
	}
	picked, err := design.Spanner(left, design.Options{Tolerance: p.DesignTolerance})
	weights := make([]float64, len(survivors))
	for _, i := range picked {
		weights[i] = 1 / float64(len(picked))
	}
	return weights, err
}

// greedy is the position of the survivor with the largest estimated reward, the first of equals.
func (p *Policy) greedy(arms [][]float64, survivors []int) int {
	pick, best := 0, math.Inf(-1)
	for i, a := range survivors {
		if z := p.score(arms[a]); z > best {
			best, pick = z, i
		}
	}
	return pick
}

// design is the G-optimal design of the scaled survivors.
func (p *Policy) design(arms [][]float64, survivors []int) ([]float64, error) {
	if len(survivors) == 1 {
		return []float64{1}, nil
	}
	var model family.Family
	if p.Scaling != nil {
		f, err := family.New(p.Family, p.MaxReward)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrPolicy, err)
		}
		model = f
	}
	scaled := make([][]float64, len(survivors))
	backing := make([]float64, len(survivors)*p.Dimension)
	for i, a := range survivors {
		row := backing[i*p.Dimension : (i+1)*p.Dimension]
		s := 1.0
		if p.Scaling != nil {
			s = math.Sqrt(p.Scaling.Weight(model, arms[a]))
		}
		for j, v := range arms[a] {
			row[j] = s * v
		}
		scaled[i] = row
	}
	weights, _, err := design.Optimal(scaled, design.Options{Tolerance: p.DesignTolerance})
	return weights, err
}

// sure reports whether the estimate shows one arm to be better than another: by more than Caution standard deviations
// of their difference. The deviations are those of Scaling, which holds what is known as the policy is made. A policy
// without Scaling is sure of nothing if it is cautious.
func (p *Policy) sure(better, than []float64) bool {
	difference := make([]float64, len(better))
	for j, v := range better {
		difference[j] = v - than[j]
	}
	gain := convex.Dot(difference, p.Theta)
	if len(p.Trees) > 0 {
		gain = p.score(better) - p.score(than)
	}
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

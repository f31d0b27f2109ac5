package plan

import (
	"fmt"
	"math"
	"slices"

	"github.com/riffle-dp/riffle/pkg/glm/learner"
	"github.com/riffle-dp/riffle/pkg/glm/statistic"
	"github.com/riffle-dp/riffle/pkg/privacy"
	"github.com/riffle-dp/riffle/pkg/privacy/calibrate"
	"github.com/riffle-dp/riffle/pkg/protocol"
)

// pair reports whether the first two statistics of a round are an outer product and a gradient, which are certified
// together, and nothing but rewards comes after them, which say nothing of how close the others are.
func pair(round []statistic.Statistic) bool {
	if len(round) < 2 || round[0].Kind != statistic.Hessian && round[0].Kind != statistic.Covariance ||
		round[1].Kind != statistic.Gradient {
		return false
	}
	return !slices.ContainsFunc(round[2:], func(s statistic.Statistic) bool { return s.Kind != statistic.Rewards })
}

// beside extends a spread of a round's first two releases to all of them: the others are counted at their own largest
// distances. A sum of largest values is at least the largest value of the sum, so that this bounds what the releases of
// any two records, or any two reports of several decisions, are apart together.
func beside(two privacy.Spread, round []statistic.Statistic) (privacy.Spread, error) {
	if len(round) == 2 {
		return two, nil
	}
	squares := make([]float64, len(round))
	for i, s := range round[2:] {
		b, err := s.Bounds()
		if err != nil {
			return nil, err
		}
		squares[i+2] = b.Diameter * b.Diameter * (1 + shiftSlack)
	}
	return func(weights []float64) float64 {
		if len(weights) != len(squares) {
			return math.Inf(1)
		}
		sum := two(weights[:2])
		for i, w := range weights[2:] {
			sum += w * squares[i+2]
		}
		return sum * (1 + shiftSlack)
	}, nil
}

// jointly is the certificate of an epoch of one round that begins with an outer product and a gradient, nil for others.
// Its releases are those that Guarantee will find in the announcement.
func (p *Proposer) jointly(step learner.Step, r calibrate.Request) (func([]protocol.Encoding, int) (privacy.Guarantee,
	error),
	error) {
	spread, err := p.spreadOf(step)
	if spread == nil || err != nil {
		return nil, err
	}
	budget, err := privacy.Divide(r.Epsilon, r.Delta, r.Releases, r.Shares)
	if err != nil {
		return nil, err
	}
	return func(encodings []protocol.Encoding, honest int) (privacy.Guarantee, error) {
		releases, scales := make([]privacy.Release, len(encodings)), make([]float64, len(encodings))
		for i, e := range encodings {
			one, err := privacy.ReleaseOf(r.Releases[i], e, honest, budget.TailDelta)
			if err != nil {
				return privacy.NoGuarantee(), err
			}
			scales[i] = one.Shift / r.Releases[i].Diameter * (1 + shiftSlack)
			one.Shift *= 1 + shiftSlack
			one.Blocks = shiftOnly(len(e.Coordinates))
			releases[i] = one
		}
		return privacy.CertifyJoint(releases, scales, spread)
	}, nil
}

// shiftOnly describes coordinates of which nothing is known but the shift of the whole vector.
func shiftOnly(coordinates int) []privacy.Block {
	return []privacy.Block{{Count: coordinates, Levels: math.Inf(1)}}
}

// spreadOf bounds how far the releases of an epoch of one round can move together, nil where they are certified apart.
func (p *Proposer) spreadOf(step learner.Step) (privacy.Spread, error) {
	if len(step.Statistics) != 1 || !pair(step.Statistics[0]) {
		return nil, nil
	}
	two, err := p.spread(step.Statistics[0][0], step.Statistics[0][1])
	if err != nil {
		return nil, err
	}
	return beside(two, step.Statistics[0])
}

// spread is statistic.JointSpread between knots.
func (p *Proposer) spread(outer, gradient statistic.Statistic) (privacy.Spread, error) {
	key := fmt.Sprint(outer.Kind, outer.WeightBound, gradient.Family.Name(), gradient.Family.MaxReward(),
		outer.Theta, gradient.Theta,
		outer.Structure)
	if s, ok := p.spreads[key]; ok {
		return s, nil
	}
	exact, err := statistic.JointSpread(outer, gradient)
	if err != nil {
		return nil, err
	}
	if p.spreads == nil {
		p.spreads = map[string]privacy.Spread{}
	}
	p.spreads[key] = newChords(exact).at
	return p.spreads[key], nil
}

// chords bounds a spread of two releases by its values at few ratios of the weights, each computed once.
//
// Proof. A spread is a largest value of functions that are linear in the weights, so it is sublinear: weights (a, b) =
// x (1, r) + y (1, r') with x, y >= 0 have a spread of at most x S(1, r) + y S(1, r'), and upper bounds of S serve as
// well.
type chords struct {
	exact privacy.Spread
	knots map[int]float64 // S(1, exp(k*chordStep))
}

// chordStep is the distance of the knots in the logarithm of the ratio. A chord exceeds the spread by less than its
// square over 8.
const chordStep = 0.05

func newChords(exact privacy.Spread) *chords { return &chords{exact, map[int]float64{}} }

func (c *chords) at(weights []float64) float64 {
	if len(weights) != 2 || !(weights[0] > 0 && weights[1] > 0) {
		return c.exact(weights)
	}
	a, b := weights[0], weights[1]
	x := math.Log(b/a) / chordStep
	if !(math.Abs(x) < 1e4) {
		return c.exact(weights)
	}
	k := int(math.Floor(x))
	low, high := math.Exp(float64(k)*chordStep), math.Exp(float64(k+1)*chordStep)
	y := math.Max(0, (b-a*low)/(high-low))
	return (math.Max(0, a-y)*c.knot(k, low) + y*c.knot(k+1, high)) * (1 + shiftSlack)
}

func (c *chords) knot(k int, ratio float64) float64 {
	v, ok := c.knots[k]
	if !ok {
		v = c.exact([]float64{1, ratio})
		c.knots[k] = v
	}
	return v
}

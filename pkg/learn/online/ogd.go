package online

import (
	"fmt"
	"math"
	"slices"
)

// OGD is projected online gradient descent for losses that are mu-strongly convex in expectation: in round t it moves
// by -g/(mu t) and back into the ball. Section 5 of "Improved rate for locally differentially private linear bandits"
// names it as the learner that gives the same regret as Maler at a small part of the time; the step is the standard one
// (Hazan, Agarwal and Kale, "Logarithmic regret algorithms for online convex optimization", 2007), which the paper does
// not state. Its regret is at most G^2 (1 + ln T)/(2 mu).
type OGD struct {
	domain    Domain
	convexity float64
	rounds    int
	point     []float64
}

// NewOGD starts a learner for losses of the given strong convexity mu > 0.
func NewOGD(d Domain, mu float64) (*OGD, error) {
	if err := d.check(); err != nil {
		return nil, err
	}
	if !(mu > 0) || math.IsInf(mu, 0) {
		return nil, fmt.Errorf("%w: the strong convexity is %v, it must be positive", ErrParameter, mu)
	}
	return &OGD{domain: d, convexity: mu, point: make([]float64, d.Dimension)}, nil
}

// Point implements Learner.
func (o *OGD) Point() []float64 { return slices.Clone(o.point) }

// Update implements Learner.
func (o *OGD) Update(gradient []float64) error {
	g, err := o.domain.clip(gradient)
	if err != nil {
		return err
	}
	o.rounds++
	along(o.point, g, -1/(o.convexity*float64(o.rounds)))
	return o.domain.project(o.point)
}

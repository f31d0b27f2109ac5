// Package online holds online learners: they name a point of a ball, are told a gradient there, and name the next. Of
// "Improved rate for locally differentially private linear bandits", whose Online LinUCB turns their predictions into
// confidence sets.
package online

import (
	"errors"
	"fmt"
	"math"

	"github.com/riffle-dp/riffle/pkg/convex"
)

// ErrParameter wraps every reason to refuse a learner's parameters or a gradient.
var ErrParameter = errors.New("online: bad parameter")

// Learner names points of a ball around 0. It starts at 0. It is not safe for concurrent use.
type Learner interface {
	// Point is the current point, in the ball. The caller may keep and change it.
	Point() []float64
	// Update takes the gradient of the round's loss at Point and moves on. The gradient is clipped to the learner's
	// bound G. It refuses one that is not finite or of another dimension, and then nothing has changed.
	Update(gradient []float64) error
}

// Domain is what all learners of this package are told.
type Domain struct {
	Dimension int
	Radius    float64 // D of the ball; the paper calls 2D the diameter and D, too
	Gradient  float64 // G, to whose norm gradients are clipped
}

func (d Domain) check() error {
	if d.Dimension < 1 || !(d.Radius > 0) || math.IsInf(d.Radius, 0) || !(d.Gradient > 0) || math.IsInf(d.Gradient, 0) {
		return fmt.Errorf("%w: dimension %d, radius %v and gradient bound %v must be positive and finite", ErrParameter,
			d.Dimension, d.Radius, d.Gradient)
	}
	return nil
}

// clip is the gradient, shortened to G if it is longer.
func (d Domain) clip(gradient []float64) ([]float64, error) {
	if len(gradient) != d.Dimension {
		return nil, fmt.Errorf("%w: a gradient of dimension %d, not %d", ErrParameter, len(gradient), d.Dimension)
	}
	g, err := convex.Ball{Radius: d.Gradient}.Project(nil, gradient)
	if err != nil {
		return nil, fmt.Errorf("%w: the gradient: %w", ErrParameter, err)
	}
	return g, nil
}

// project moves x into the ball, in place.
func (d Domain) project(x []float64) error {
	_, err := convex.Ball{Radius: d.Radius}.Project(x, x)
	return err
}

// along adds t times g to x.
func along(x, g []float64, t float64) {
	for i, v := range g {
		x[i] += t * v
	}
}

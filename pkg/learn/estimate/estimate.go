package estimate

import (
	"math"

	"github.com/riffle-dp/riffle/pkg/convex"
	"github.com/riffle-dp/riffle/pkg/learn"
)

// Estimator learns a model from so many people, each of whom answers one question of it. It returns soon after ask gave
// an error, with that error.
type Estimator func(s learn.Setting, people int, ask learn.Asker) (learn.Model, error)

// Linear is a model of a parameter: the prediction is Mean(<x, Theta>), and Width, if not nil, bounds its error.
type Linear struct {
	Theta []float64
	Mean  func(z float64) float64 // nil: the identity
	Width func(x []float64) float64
}

// Predict implements learn.Model.
func (l Linear) Predict(x []float64) float64 {
	z := convex.Dot(x, l.Theta)
	if l.Mean == nil {
		return z
	}
	return l.Mean(z)
}

// Bound implements learn.Model.
func (l Linear) Bound(x []float64) float64 {
	if l.Width == nil {
		return unbounded
	}
	return l.Width(x)
}

var unbounded = math.Inf(1)

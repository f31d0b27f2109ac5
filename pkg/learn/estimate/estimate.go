package estimate

import (
	"math"

	"github.com/riffle-dp/riffle/pkg/convex"
	"github.com/riffle-dp/riffle/pkg/glm"
	"github.com/riffle-dp/riffle/pkg/learn"
)

// Estimator learns a model from so many people, each of whom answers one question of it. It returns soon after ask gave
// an error, with that error.
type Estimator func(s learn.Setting, people int, ask learn.Asker) (learn.Model, error)

// Linear is a model of a parameter: the prediction is Mean(<x, Theta>), and its error is at most the half-width of the
// stage, whose data a policy can announce; no bound is known where the stage has no Covariance.
type Linear struct {
	glm.Stage
	Mean func(z float64) float64 // nil: the identity
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
	if len(l.Covariance) == 0 {
		return math.Inf(1)
	}
	return l.HalfWidth(x)
}

// point is a model without a bound.
func point(theta []float64) Linear { return Linear{Stage: glm.Stage{Theta: theta}} }

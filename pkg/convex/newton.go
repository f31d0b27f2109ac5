package convex

import (
	"fmt"
	"math"

	"gonum.org/v1/gonum/mat"
)

// Defaults of NewtonConfig.
const (
	DefaultNewtonIterations = 200
	DefaultNewtonTolerance  = 1e-10
)

// NewtonConfig describes a minimisation by Newton's method.
type NewtonConfig struct {
	// Start is the first point; nil means the origin.
	Start []float64
	// Radius keeps the result's norm at most S; 0 means no bound.
	Radius float64
	// Iterations is the largest number of steps; 0 means DefaultNewtonIterations.
	Iterations int
	// Tolerance is the residual at which the search ends; 0 means DefaultNewtonTolerance.
	Tolerance float64
}

// NewtonResult is the point that Minimize found.
type NewtonResult struct {
	Theta      []float64
	Value      float64
	Iterations int
	// Residual is |theta - Proj(theta - gradient/L)| with L the largest of 1, the gradient's norm at the start and the
	// Hessian's trace. It is 0 exactly at the minimum over the ball; inside the ball it is the gradient's norm over L.
	Residual float64
}

// Minimize finds the minimum of a convex function over a ball (or everywhere) by Newton's method: each step minimises
// the quadratic model over the ball, exactly, and is shortened until the function decreases by a share of what the
// gradient promises (backtracking, S. Boyd and L. Vandenberghe, "Convex Optimization", section 9.2). With a ball it
// also converges for separable records and for fewer records than dimensions, where without one there is no minimum or
// more than one. Where it does not converge, because there is neither a ball nor a ridge, it returns its last point and
// ErrNotConverged.
func Minimize(f Objective, cfg NewtonConfig) (NewtonResult, error) {
	d := f.Dim()
	radius := cfg.Radius
	switch {
	case radius == 0:
		radius = math.Inf(1)
	case !(radius > 0):
		return NewtonResult{}, fmt.Errorf("%w: the radius is %v, it must be positive, or 0 for none",
			ErrParameter, radius)
	}
	if cfg.Iterations == 0 {
		cfg.Iterations = DefaultNewtonIterations
	}
	if cfg.Tolerance == 0 {
		cfg.Tolerance = DefaultNewtonTolerance
	}
	if cfg.Iterations < 0 || !(cfg.Tolerance > 0) {
		return NewtonResult{}, fmt.Errorf("%w: %d iterations, tolerance %v",
			ErrParameter, cfg.Iterations, cfg.Tolerance)
	}
	theta := make([]float64, d)
	if cfg.Start != nil {
		if err := checkVector("the start", cfg.Start, d); err != nil {
			return NewtonResult{}, err
		}
		copy(theta, cfg.Start)
	}
	theta, err := project(radius, theta)
	if err != nil {
		return NewtonResult{}, err
	}
	gradient, hessian := make([]float64, d), mat.NewSymDense(d, nil)
	result := NewtonResult{Theta: theta}
	scale := 1.0
	for {
		result.Value = f.Evaluate(theta, gradient, hessian)
		if err := checkVector("the gradient", gradient, d); err != nil || !IsFinite(result.Value) {
			return result, fmt.Errorf("%w: the objective at iteration %d", ErrNotFinite, result.Iterations)
		}
		trace := mat.Trace(hessian)
		if result.Iterations == 0 {
			scale = math.Max(1, math.Max(Norm(gradient), trace))
		}
		if result.Residual, err = residual(radius, theta, gradient, math.Max(scale, trace)); err != nil {
			return result, err
		}
		if result.Residual <= cfg.Tolerance {
			return result, nil
		}
		if result.Iterations == cfg.Iterations {
			return result, fmt.Errorf("%w: residual %.3g above %.3g after %d steps; add a ball or a ridge",
				ErrNotConverged, result.Residual, cfg.Tolerance, result.Iterations)
		}
		next, target, err := newtonStep(f, theta, gradient, hessian, trace, radius, result.Value)
		if err != nil {
			return result, err
		}
		if next == nil { // the decrease is below rounding; the gradient may still tell which point is better
			f.Evaluate(target, gradient, nil)
			better, err := residual(radius, target, gradient, math.Max(scale, trace))
			switch {
			case err == nil && better < result.Residual:
				next = target
			case result.Residual <= 100*cfg.Tolerance:
				return result, nil
			default:
				return result, fmt.Errorf("%w: no decrease at residual %.3g", ErrNotConverged, result.Residual)
			}
		}
		result.Iterations++
		theta, result.Theta = next, next
	}
}

// newtonStep returns the next point, nil when no step decreases the objective, and the minimum of the quadratic model.
func newtonStep(
	f Objective, theta, gradient []float64, hessian *mat.SymDense, trace, radius, value float64,
) (next, target []float64, err error) {
	d := len(theta)
	// A little damping makes the model strictly convex: directions without records stay where they are.
	damping := 1e-12*trace + 1e-300
	for j := range d {
		hessian.SetSym(j, j, hessian.At(j, j)+damping)
	}
	b := make([]float64, d) // the model's minimum y solves Hy = H theta - gradient inside the ball
	for j := range d {
		for k := range d {
			b[j] += hessian.At(j, k) * theta[k]
		}
		b[j] -= gradient[j]
	}
	if target, err = MinimizeQuadratic(hessian, b, radius); err != nil {
		return nil, nil, err
	}
	direction, slope := make([]float64, d), 0.0
	for j := range d {
		direction[j] = target[j] - theta[j]
		slope += direction[j] * gradient[j]
	}
	next = make([]float64, d)
	for share := 1.0; share > 1e-14; share /= 2 {
		for j := range d {
			next[j] = theta[j] + share*direction[j]
		}
		if v := f.Evaluate(next, nil, nil); v <= value+1e-4*share*slope && v < value {
			next, err = project(radius, next)
			return next, target, err
		}
	}
	return nil, target, nil
}

// residual is the length of a projected gradient step of size 1/scale; see NewtonResult.
func residual(radius float64, theta, gradient []float64, scale float64) (float64, error) {
	moved := make([]float64, len(theta))
	for j, v := range theta {
		moved[j] = v - gradient[j]/scale
	}
	moved, err := project(radius, moved)
	if err != nil {
		return 0, err
	}
	for j, v := range theta {
		moved[j] -= v
	}
	return Norm(moved), nil
}

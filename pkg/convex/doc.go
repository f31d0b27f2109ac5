// Package convex holds the convex optimisation that Riffle needs: projections on balls and ellipsoids, minima of
// quadratics over a ball, projected gradient descent on gradients that somebody else computes, with noise, one round at a
// time (the shuffle optimiser of Riffle's seed paper, Algorithm 7), and Newton's method for fits without privacy.
//
// Everything is a pure function or a state machine without clock, randomness or input and output. The optimiser does not
// call an oracle: it names the next point and waits for the gradient, so that a distributed analyzer and a simulation run
// the same code.
//
// Nothing here adds noise or accounts for privacy; a function of released gradients is as private as the gradients.
package convex

import (
	"errors"
	"fmt"
	"math"
)

var (
	// ErrNotFinite is returned for a NaN or an infinity in an argument or a result.
	ErrNotFinite = errors.New("convex: not a finite number")
	// ErrDimension is returned for vectors and matrices that do not fit together.
	ErrDimension = errors.New("convex: wrong dimension")
	// ErrParameter is returned for a parameter out of its range.
	ErrParameter = errors.New("convex: invalid parameter")
	// ErrNotConverged is returned, with the best point found, when an iteration ends before its tolerance is met.
	ErrNotConverged = errors.New("convex: not converged")
)

func checkVector(what string, x []float64, d int) error {
	if len(x) != d {
		return fmt.Errorf("%w: %s has %d coordinates, want %d", ErrDimension, what, len(x), d)
	}
	for i, v := range x {
		if !isFinite(v) {
			return fmt.Errorf("%w: coordinate %d of %s is %v", ErrNotFinite, i, what, v)
		}
	}
	return nil
}

func isFinite(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }

// norm is the Euclidean norm without intermediate overflow.
func norm(x []float64) float64 {
	largest := 0.0
	for _, v := range x {
		largest = math.Max(largest, math.Abs(v))
	}
	if largest == 0 || math.IsInf(largest, 0) {
		return largest
	}
	sum := 0.0
	for _, v := range x {
		sum += (v / largest) * (v / largest)
	}
	return largest * math.Sqrt(sum)
}

func dot(x, y []float64) float64 {
	sum := 0.0
	for i, v := range x {
		sum += v * y[i]
	}
	return sum
}

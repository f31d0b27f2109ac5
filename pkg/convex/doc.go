// Package convex holds the convex optimisation of Riffle: the projection on a ball, the minimum of a quadratic over a
// ball, projected gradient descent on released gradient sums, one round at a time (P_GD, the shuffle convex optimiser
// of Riffle's seed paper, arXiv 2602.00417v2, Algorithm 7), and Newton's method for fits without privacy.
//
//	Algorithm 7 (P_GD), its step and averages   shuffle_optimizer.go
//	bounds of its error                         optimizer_error.go
//	Newton's method over a ball                 newton.go, on the losses of loss.go
//	minimum of a quadratic over a ball          quadratic.go
//	projection on a ball                        ball.go, unit_ball.go
//	an upper bound of a function's maximum      maximum.go
//	eigenvalues and inverse of a matrix         spectrum.go
//	inner product, norm, checks                 vector.go
//
// Everything is a pure function or a state machine; there is no clock, no randomness and no input or output. The
// optimiser does not call an oracle: it names the next point and waits for the gradient, so that a distributed analyzer
// and a simulation run the same code.
//
// # Guarantees
//
// A result is finite and inside its ball, or there is an error. The same arguments give the same result.
//
// Nothing here adds noise or accounts for privacy. A function of released gradients is as private as these gradients
// are; Newton's method reads records in the clear and protects no one. OptimizerError is proved for convex losses;
// SmoothError bounds an expectation, and its first term is exact to second order only.
package convex

import "errors"

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

package convex

import (
	"fmt"
	"math"

	"gonum.org/v1/gonum/mat"
)

// MinimizeQuadratic finds the y of norm at most radius that minimises y'Hy/2 - b'y, for a positive semidefinite H;
// radius may be +Inf if H is positive definite. With b = Hx it is the projection of x on the ball in the metric of H,
// the projection that belongs to a Newton step. The condition (H + nu I)y = b has one unknown nu >= 0, found by
// secular. Eigenvalues of H below zero by rounding only (a relative 1e-10) count as 0; larger negative ones are
// ErrParameter.
func MinimizeQuadratic(h mat.Symmetric, b []float64, radius float64) ([]float64, error) {
	d := h.SymmetricDim()
	if err := checkVector("the linear term", b, d); err != nil {
		return nil, err
	}
	if !(radius > 0) {
		return nil, fmt.Errorf("%w: the ball's radius is %v, it must be positive", ErrParameter, radius)
	}
	values, basis, err := Spectrum(h)
	if err != nil {
		return nil, fmt.Errorf("the quadratic's matrix: %w", err)
	}
	largest := math.Max(values[d-1], -values[0])
	u, inside := make([]float64, d), 0.0
	for j, value := range values {
		if value < -1e-10*largest {
			return nil, fmt.Errorf("%w: the quadratic's matrix has the negative eigenvalue %v", ErrParameter, value)
		}
		values[j] = math.Max(0, value)
		for i := range d {
			u[j] += basis.At(i, j) * b[i]
		}
		switch {
		case u[j] == 0:
		case values[j] <= values[d-1]*1e-15:
			inside = math.Inf(1) // the minimum without the ball is at infinity, or too far out to compute
		default:
			inside = math.Hypot(inside, u[j]/values[j])
		}
	}
	nu := 0.0
	if inside > radius {
		nu = secular(u, values, radius)
	} else if math.IsInf(inside, 1) {
		return nil, fmt.Errorf("%w: the quadratic has no minimum: its matrix is singular and there is no ball",
			ErrParameter)
	}
	y := make([]float64, d)
	for j := range d {
		if u[j] == 0 {
			continue
		}
		v := u[j] / (values[j] + nu)
		for i := range d {
			y[i] += basis.At(i, j) * v
		}
	}
	if err := checkVector("the minimum", y, d); err != nil {
		return nil, err
	}
	return project(radius, y)
}

// secular finds nu >= 0 with sum_i (u_i/(h_i + nu))^2 = radius^2, given that the sum exceeds radius^2 at nu = 0 and h_i
// >= 0.
//
// The norm's reciprocal is concave in nu, so Newton's method on 1/norm - 1/radius rises monotonically to the root from
// any start below it (J. J. Moré and D. C. Sorensen, "Computing a trust region step", 1983). The start is the nu at
// which the largest single term reaches the radius.
func secular(u, h []float64, radius float64) float64 {
	nu := 0.0
	for i, v := range u {
		nu = math.Max(nu, math.Abs(v)/radius-h[i])
	}
	for range 100 {
		sum, slope := 0.0, 0.0
		for i, v := range u {
			if v == 0 {
				continue
			}
			t := v / (h[i] + nu)
			sum += t * t
			slope += t * t / (h[i] + nu)
		}
		n := math.Sqrt(sum)
		if !(n > radius*(1+4e-16)) || slope == 0 {
			break
		}
		next := nu + sum/slope*(n-radius)/radius
		if !(next > nu) || math.IsInf(next, 0) {
			break
		}
		nu = next
	}
	return nu
}

package convex

import (
	"fmt"
	"math"

	"gonum.org/v1/gonum/mat"
)

// MinimizeQuadratic finds the y of norm at most radius that minimises y'Hy/2 - b'y, for a positive semidefinite H; radius
// may be +Inf if H is positive definite. With b = Hx it is the projection of x on the ball in the metric of H, the
// projection that belongs to a Newton step. The condition (H + nu I)y = b has one unknown nu >= 0, found by secular.
func MinimizeQuadratic(h mat.Symmetric, b []float64, radius float64) ([]float64, error) {
	d := h.SymmetricDim()
	if err := checkVector("the linear term", b, d); err != nil {
		return nil, err
	}
	if !(radius > 0) {
		return nil, fmt.Errorf("%w: the ball's radius is %v, it must be positive", ErrParameter, radius)
	}
	values, basis, err := eigen("the quadratic's matrix", h)
	if err != nil {
		return nil, err
	}
	u, ones, inside := make([]float64, d), make([]float64, d), 0.0
	for j := range d {
		for i := range d {
			u[j] += basis.At(i, j) * b[i]
		}
		ones[j] = 1
		switch {
		case u[j] == 0:
		case values[j] <= values[d-1]*1e-15:
			inside = math.Inf(1) // the minimum without the ball is at infinity, or as good as there
		default:
			inside = math.Hypot(inside, u[j]/values[j])
		}
	}
	nu := 0.0
	if inside > radius {
		nu = secular(u, values, ones, radius)
	} else if math.IsInf(inside, 1) {
		return nil, fmt.Errorf("%w: the quadratic has no minimum: its matrix is singular and there is no ball", ErrParameter)
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
	if math.IsInf(radius, 1) {
		return y, nil
	}
	return Ball{Radius: radius}.Project(y, y)
}

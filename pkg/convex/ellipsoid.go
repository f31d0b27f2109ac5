package convex

import (
	"fmt"
	"math"

	"gonum.org/v1/gonum/mat"
)

// Ellipsoid is the set of points z with (z - Centre)' Matrix (z - Centre) <= Radius^2, for a positive semidefinite
// Matrix: a confidence set in the norm of a design matrix.
type Ellipsoid struct {
	Centre []float64
	Matrix mat.Symmetric
	Radius float64
}

// Project writes the point of the ellipsoid nearest to x into dst[:0] and returns it. A point inside is returned
// unchanged. With A = U diag(a) U' and u = U'(x - centre) the nearest point is centre + U diag(1/(1 + nu a)) u for the
// one nu > 0 at which it lies on the surface; nu is found by bisection, since the norm there falls as nu grows.
func (e Ellipsoid) Project(dst, x []float64) ([]float64, error) {
	d := len(e.Centre)
	if e.Matrix == nil || e.Matrix.SymmetricDim() != d {
		return nil, fmt.Errorf("%w: the ellipsoid's matrix and centre do not fit", ErrDimension)
	}
	if !(e.Radius > 0) || math.IsInf(e.Radius, 0) {
		return nil, fmt.Errorf("%w: the ellipsoid's radius is %v, it must be positive and finite", ErrParameter,
			e.Radius)
	}
	if err := checkVector("the centre", e.Centre, d); err != nil {
		return nil, err
	}
	if err := checkVector("the point", x, d); err != nil {
		return nil, err
	}
	values, basis, err := Spectrum(e.Matrix)
	if err != nil {
		return nil, fmt.Errorf("the ellipsoid's matrix: %w", err)
	}
	if values[0] < -1e-10*math.Abs(values[d-1]) {
		return nil, fmt.Errorf("%w: the ellipsoid's matrix has the negative eigenvalue %v", ErrParameter, values[0])
	}
	u := make([]float64, d)
	for j := range u {
		values[j] = math.Max(0, values[j])
		for i := range d {
			u[j] += basis.At(i, j) * (x[i] - e.Centre[i])
		}
	}
	size := func(nu float64) float64 {
		sum := 0.0
		for j, a := range values {
			v := u[j] / (1 + nu*a)
			sum += a * v * v
		}
		return math.Sqrt(sum)
	}
	out := append(dst[:0], x...)
	if size(0) <= e.Radius*(1+1e-12) {
		return out, nil
	}
	lo, hi := 0.0, 1/values[d-1]
	for size(hi) > e.Radius {
		lo, hi = hi, 2*hi
	}
	for range 200 {
		if mid := (lo + hi) / 2; size(mid) > e.Radius {
			lo = mid
		} else {
			hi = mid
		}
	}
	copy(out, e.Centre)
	for j, a := range values {
		for i := range d {
			out[i] += basis.At(i, j) * u[j] / (1 + hi*a)
		}
	}
	return out, nil
}

// Projection is onto a closed convex set.
type Projection interface {
	Project(dst, x []float64) ([]float64, error)
}

// Both is the intersection of two sets with a common point.
type Both [2]Projection

// bothRounds bounds the alternation of Both.
const bothRounds = 100

// Project is close to the point of the intersection nearest to x, by the alternating projections of R. L. Dykstra, "An
// algorithm for restricted least squares regression" (1983). The result is in the first set exactly.
func (b Both) Project(dst, x []float64) ([]float64, error) {
	out := append(dst[:0], x...)
	var carried [2][]float64
	for i := range carried {
		carried[i] = make([]float64, len(x))
	}
	for range bothRounds {
		moved := 0.0
		for _, i := range []int{1, 0} {
			before := make([]float64, len(x))
			for j, v := range out {
				before[j] = v + carried[i][j]
			}
			after, err := b[i].Project(nil, before)
			if err != nil {
				return nil, err
			}
			for j, v := range after {
				carried[i][j] = before[j] - v
				moved = math.Max(moved, math.Abs(out[j]-v))
				out[j] = v
			}
		}
		if moved <= 1e-13*(1+MaxAbs(out)) {
			break
		}
	}
	return out, nil
}

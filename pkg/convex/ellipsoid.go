package convex

import (
	"fmt"
	"math"

	"gonum.org/v1/gonum/mat"
)

// Ellipsoid is the set {y : (y-c)'A(y-c) <= r^2} for a positive semidefinite A. Directions that A ignores are free. Build it
// with NewEllipsoid; it is safe for concurrent use.
type Ellipsoid struct {
	centre []float64
	values []float64 // eigenvalues of A, non-negative
	basis  *mat.Dense
	radius float64
}

// NewEllipsoid takes A, the centre c (nil for the origin) and r > 0. Eigenvalues of A below zero by rounding only (a
// relative 1e-10) count as 0; a matrix with larger negative ones is ErrParameter.
func NewEllipsoid(a mat.Symmetric, centre []float64, radius float64) (*Ellipsoid, error) {
	d := a.SymmetricDim()
	if centre == nil {
		centre = make([]float64, d)
	}
	if err := checkVector("the centre", centre, d); err != nil {
		return nil, err
	}
	if !(radius > 0) || math.IsInf(radius, 0) {
		return nil, fmt.Errorf("%w: the ellipsoid's radius is %v, it must be positive and finite", ErrParameter, radius)
	}
	values, basis, err := eigen("the ellipsoid's matrix", a)
	if err != nil {
		return nil, err
	}
	return &Ellipsoid{centre: append([]float64(nil), centre...), values: values, basis: basis, radius: radius}, nil
}

// Project writes the point of the ellipsoid nearest to x, in Euclidean distance, into dst[:0] and returns it. With y - c
// in the eigenbasis of A, the optimality condition (I + nu A)(y-c) = x-c has one unknown nu >= 0, found by secular.
func (e *Ellipsoid) Project(dst, x []float64) ([]float64, error) {
	d := len(e.centre)
	if err := checkVector("the point", x, d); err != nil {
		return nil, err
	}
	u := make([]float64, d) // x - c in the eigenbasis
	for j := range d {
		for i := range d {
			u[j] += e.basis.At(i, j) * (x[i] - e.centre[i])
		}
	}
	num, ones, sum := make([]float64, d), make([]float64, d), 0.0
	for j := range d {
		num[j], ones[j] = math.Sqrt(e.values[j])*u[j], 1
		sum += num[j] * num[j]
	}
	dst = append(dst[:0], x...)
	if math.IsNaN(sum) || math.IsInf(sum, 0) {
		return nil, fmt.Errorf("%w: the point is too far from the ellipsoid to compute with", ErrNotFinite)
	}
	// The slack keeps a point that was projected once where it is.
	if math.Sqrt(sum) <= e.radius*(1+1e-14) {
		return dst, nil
	}
	nu := secular(num, ones, e.values, e.radius)
	for j := range u {
		u[j] /= 1 + nu*e.values[j]
	}
	for i := range d {
		dst[i] = e.centre[i]
		for j := range d {
			dst[i] += e.basis.At(i, j) * u[j]
		}
	}
	return dst, nil
}

// eigen decomposes a positive semidefinite matrix; tiny negative eigenvalues become 0.
func eigen(what string, a mat.Symmetric) ([]float64, *mat.Dense, error) {
	values, basis, err := Spectrum(a)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", what, err)
	}
	d := len(values)
	for i, v := range values {
		if v < -1e-10*math.Max(values[d-1], -values[0]) {
			return nil, nil, fmt.Errorf("%w: %s has the negative eigenvalue %v", ErrParameter, what, v)
		}
		values[i] = math.Max(0, v)
	}
	return values, basis, nil
}

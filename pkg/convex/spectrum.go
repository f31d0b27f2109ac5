package convex

import (
	"fmt"
	"math"

	"gonum.org/v1/gonum/mat"
)

// negligible is the size, relative to the largest entry, up to which an entry is dropped before a decomposition.
const negligible = 1e-40

// FromSpectrum returns U diag(values) U' for the d orthonormal columns of U, exactly symmetric: the inverse of
// Spectrum.
func FromSpectrum(values []float64, u *mat.Dense) *mat.SymDense {
	d := len(values)
	m := mat.NewSymDense(d, nil)
	for i := range d {
		for j := i; j < d; j++ {
			sum := 0.0
			for k, v := range values {
				sum += u.At(i, k) * v * u.At(j, k)
			}
			m.SetSym(i, j, sum)
		}
	}
	return m
}

// Inverse is that of a positive definite matrix, by Cholesky. Errors: ErrParameter where it is not positive definite,
// or so nearly singular that rounding decides the inverse (mat.ConditionTolerance).
func Inverse(m *mat.SymDense) (*mat.SymDense, error) {
	var factor mat.Cholesky
	if !factor.Factorize(m) {
		return nil, fmt.Errorf("%w: a matrix is not positive definite", ErrParameter)
	}
	inverse := mat.NewSymDense(m.SymmetricDim(), nil)
	if err := factor.InverseTo(inverse); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrParameter, err)
	}
	return inverse, nil
}

// MapSpectrum applies a function to the eigenvalues of a symmetric matrix; it is given the largest one, too. Errors:
// those of Spectrum; ErrNotFinite where the function's value is not a finite number.
func MapSpectrum(m mat.Symmetric, f func(value, largest float64) float64) (*mat.SymDense, error) {
	values, vectors, err := Spectrum(m)
	if err != nil {
		return nil, err
	}
	largest := values[len(values)-1]
	for i, v := range values {
		if values[i] = f(v, largest); !IsFinite(values[i]) {
			return nil, fmt.Errorf("%w: a function of the eigenvalue %v", ErrNotFinite, v)
		}
	}
	return FromSpectrum(values, vectors), nil
}

// Spectrum returns the eigenvalues of a symmetric matrix, ascending, and its orthonormal eigenvectors as columns.
// Errors: ErrNotFinite names the first entry that is not a finite number; ErrNotConverged.
//
// The matrix is first scaled to entries of at most 1, and entries below 1e-40 of the largest are dropped: gonum v0.17.0
// panics ("lapack: insufficient length of a") on some blocks with entries below 1e-122, and nothing depends on
// eigenvalues that far below the largest. A device gets its matrices from an analyzer that it does not trust; they must
// not stop it.
func Spectrum(m mat.Symmetric) ([]float64, *mat.Dense, error) {
	d, largest := m.SymmetricDim(), 0.0
	for i := range d {
		for j := i; j < d; j++ {
			v := m.At(i, j)
			if !IsFinite(v) {
				return nil, nil, fmt.Errorf("%w: entry (%d, %d) is %v", ErrNotFinite, i, j, v)
			}
			largest = math.Max(largest, math.Abs(v))
		}
	}
	scaled := mat.NewSymDense(d, nil)
	for i := range d {
		for j := i; j < d; j++ {
			if v := m.At(i, j); math.Abs(v) > negligible*largest {
				scaled.SetSym(i, j, v/largest)
			}
		}
	}
	var e mat.EigenSym
	if !e.Factorize(scaled, true) {
		return nil, nil, fmt.Errorf("%w: the eigenvalues of a matrix", ErrNotConverged)
	}
	values, vectors := e.Values(nil), new(mat.Dense)
	e.VectorsTo(vectors)
	for i := range values {
		values[i] *= largest
	}
	return values, vectors, nil
}

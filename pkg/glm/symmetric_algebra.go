package glm

import (
	"fmt"
	"math"

	"gonum.org/v1/gonum/mat"

	"github.com/riffle-dp/riffle/pkg/convex"
)

// compose returns U diag(values) U' for orthonormal columns U, exactly symmetric.
func compose(u *mat.Dense, values []float64) *mat.SymDense {
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

// inverse inverts a positive definite matrix through its eigenvalues; those below 1e-12 of the largest count as that much.
func inverse(m *mat.SymDense) (*mat.SymDense, error) {
	return spectral(m, func(v, largest float64) float64 { return 1 / math.Max(v, 1e-12*largest) })
}

// floored raises the eigenvalues of a symmetric matrix to at least floor. It is post-processing: a released matrix with noise need not
// be positive definite.
func floored(m *mat.SymDense, floor float64) (*mat.SymDense, error) {
	return spectral(m, func(v, _ float64) float64 { return math.Max(v, floor) })
}

func spectral(m *mat.SymDense, f func(v, largest float64) float64) (*mat.SymDense, error) {
	values, vectors, err := convex.Spectrum(m)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrAggregate, err)
	}
	largest := values[len(values)-1]
	for i, v := range values {
		values[i] = f(v, largest)
		if !isFinite(values[i]) {
			return nil, fmt.Errorf("%w: a matrix is singular or not finite", ErrAggregate)
		}
	}
	return compose(vectors, values), nil
}

// intoBall projects theta onto the ball of the given radius; the result's norm is at most radius in floating point too. It reports
// false when theta is not finite.
func intoBall(theta []float64, radius float64) ([]float64, bool) {
	if firstNotFinite(theta) >= 0 {
		return nil, false
	}
	scaled := make([]float64, len(theta))
	for i, v := range theta {
		scaled[i] = v / radius
	}
	unit, long := ToUnitBall(scaled)
	if !long {
		return theta, true
	}
	projected := make([]float64, len(theta))
	for i, v := range unit {
		projected[i] = v * radius
	}
	for norm(projected) > radius {
		for i := range projected {
			projected[i] *= 1 - 0x1p-52
		}
	}
	return projected, true
}

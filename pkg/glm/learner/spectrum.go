package learner

import (
	"fmt"
	"math"

	"gonum.org/v1/gonum/mat"

	"github.com/riffle-dp/riffle/pkg/convex"
)

// inverse inverts a positive definite matrix through its eigenvalues; an eigenvalue below 1e-12 of the largest counts
// as 1e-12 of it.
func inverse(m *mat.SymDense) (*mat.SymDense, error) {
	return spectral(m, func(v, largest float64) float64 { return 1 / math.Max(v, 1e-12*largest) })
}

// floored raises the eigenvalues of a symmetric matrix to at least floor. It is post-processing: a released matrix with
// noise need not be positive definite.
func floored(m *mat.SymDense, floor float64) (*mat.SymDense, error) {
	return spectral(m, func(v, _ float64) float64 { return math.Max(v, floor) })
}

func spectral(m *mat.SymDense, f func(v, largest float64) float64) (*mat.SymDense, error) {
	out, err := convex.MapSpectrum(m, f)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrAggregate, err)
	}
	return out, nil
}

package glm

import (
	"fmt"
	"math"

	"gonum.org/v1/gonum/mat"
)

// Symmetric is a symmetric d x d matrix as it stands in a policy: the upper triangle, row-major, (0,0) (0,1) .. (0,d-1) (1,1) ..,
// d(d+1)/2 plain entries (no sqrt 2 on the off-diagonals, unlike the vectors that devices send).
type Symmetric []float64

// NewSymmetric copies a gonum symmetric matrix.
func NewSymmetric(m mat.Symmetric) Symmetric {
	d := m.SymmetricDim()
	s := make(Symmetric, 0, TriangleDim(d))
	for i := range d {
		for j := i; j < d; j++ {
			s = append(s, m.At(i, j))
		}
	}
	return s
}

// Dense returns the matrix as a new gonum symmetric matrix of dimension d; it panics only if the length is not d(d+1)/2, which
// Validate refuses.
func (s Symmetric) Dense(d int) *mat.SymDense {
	m := mat.NewSymDense(d, nil)
	k := 0
	for i := range d {
		for j := i; j < d; j++ {
			m.SetSym(i, j, s[k])
			k++
		}
	}
	return m
}

// Form returns x'Mx, or NaN when the sizes do not fit.
func (s Symmetric) Form(x []float64) float64 {
	d := len(x)
	if len(s) != TriangleDim(d) {
		return math.NaN()
	}
	sum, k := 0.0, 0
	for i, v := range x {
		inner := 0.5 * s[k] * v
		k++
		for _, u := range x[i+1:] {
			inner += s[k] * u
			k++
		}
		sum += v * inner
	}
	return 2 * sum
}

// maxPolicyNumber bounds the entries and widths of a policy, so that no bound computed from them overflows.
const maxPolicyNumber = 1e100

// check refuses a matrix of the wrong size, with entries that are not finite, or that is not positive semidefinite.
func (s Symmetric) check(d int) error {
	if len(s) != TriangleDim(d) {
		return fmt.Errorf("a symmetric matrix of dimension %d has %d entries, got %d", d, TriangleDim(d), len(s))
	}
	for i, v := range s {
		if !(math.Abs(v) <= maxPolicyNumber) {
			return fmt.Errorf("entry %d of a symmetric matrix is %v", i, v)
		}
	}
	largest := 0.0
	for _, v := range s {
		largest = math.Max(largest, math.Abs(v))
	}
	if largest == 0 {
		return nil
	}
	l, k := make([]float64, d*d), 0
	for i := range d {
		for j := i; j < d; j++ {
			l[j*d+i] = s[k] / largest
			k++
		}
		l[i*d+i] += definiteSlack
	}
	if !choleskyInPlace(l, d, 0) {
		return fmt.Errorf("a covariance has a negative eigenvalue")
	}
	return nil
}

// definiteSlack is how far below zero, relative to the largest entry, an eigenvalue of a covariance may lie: rounding puts those of a
// singular one there.
const definiteSlack = 1e-9

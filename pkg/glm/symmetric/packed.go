// Package symmetric holds symmetric matrices as vectors: packed, as a policy announces them, and as the triangles that
// devices report.
//
//	packed.go      a policy's matrices
//	triangle.go    a reported matrix
//	cholesky.go    the factor of a small matrix, in place
package symmetric

import (
	"fmt"
	"math"

	"gonum.org/v1/gonum/mat"

	"github.com/riffle-dp/riffle/pkg/convex"
)

// Packed is a symmetric d x d matrix as a policy holds it: the upper triangle, row-major, (0,0) (0,1) .. (0,d-1)
// (1,1) .., as Dim(d) unscaled entries (without the factor sqrt 2 that the vectors of devices have off the
// diagonal).
type Packed []float64

// Pack copies a gonum symmetric matrix.
func Pack(m mat.Symmetric) Packed {
	d := m.SymmetricDim()
	s := make(Packed, 0, Dim(d))
	for i := range d {
		for j := i; j < d; j++ {
			s = append(s, m.At(i, j))
		}
	}
	return s
}

// Dense returns the matrix as a new gonum symmetric matrix of dimension d. It panics if there are fewer than
// Dim(d) entries, which Validate refuses.
func (s Packed) Dense(d int) *mat.SymDense {
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
func (s Packed) Form(x []float64) float64 {
	d := len(x)
	if len(s) != Dim(d) {
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

// Times appends Mx to dst, which must not overlap x. It panics if there are fewer than Dim(len(x)) entries.
func (s Packed) Times(dst, x []float64) []float64 {
	first := len(dst)
	dst = append(dst, make([]float64, len(x))...)
	y := dst[first:]
	for i, v := range x {
		row := s[:len(x)-i]
		sum := y[i] + row[0]*v
		for k, m := range row[1:] {
			sum += m * x[i+1+k]
			y[i+1+k] += m * v
		}
		y[i], s = sum, s[len(x)-i:]
	}
	return dst
}

// Forms writes x'Mx for every vector, as Form gives it to the last bit, four at a time: one sum alone waits for its
// last addition.
func (s Packed) Forms(dst []float64, vectors [][]float64) {
	i := 0
	for ; i+4 <= len(vectors); i += 4 {
		x0, d := vectors[i], len(vectors[i])
		if len(s) != Dim(d) || len(vectors[i+1]) != d || len(vectors[i+2]) != d || len(vectors[i+3]) != d {
			break
		}
		x1, x2, x3 := vectors[i+1][:d], vectors[i+2][:d], vectors[i+3][:d]
		var f0, f1, f2, f3 float64
		row := s
		for j := range d {
			y0, y1, y2, y3 := x0[j:], x1[j:], x2[j:], x3[j:]
			half := 0.5 * row[0]
			s0, s1, s2, s3 := half*y0[0], half*y1[0], half*y2[0], half*y3[0]
			n := len(y0)
			y1, y2, y3 = y1[:n], y2[:n], y3[:n]
			for k, v := range row[1:n] {
				s0 += v * y0[k+1]
				s1 += v * y1[k+1]
				s2 += v * y2[k+1]
				s3 += v * y3[k+1]
			}
			f0 += y0[0] * s0
			f1 += y1[0] * s1
			f2 += y2[0] * s2
			f3 += y3[0] * s3
			row = row[n:]
		}
		dst[i], dst[i+1], dst[i+2], dst[i+3] = 2*f0, 2*f1, 2*f2, 2*f3
	}
	for ; i < len(vectors); i++ {
		dst[i] = s.Form(vectors[i])
	}
}

// MaxEntry bounds the entries and widths of a policy, so that no bound computed from them overflows.
const MaxEntry = 1e100

// CheckSize refuses a matrix of the wrong size, or with entries that are not finite or above MaxEntry.
func (s Packed) CheckSize(d int) error {
	if len(s) != Dim(d) {
		return fmt.Errorf("a symmetric matrix of dimension %d has %d entries, got %d", d, Dim(d), len(s))
	}
	for i, v := range s {
		if !(math.Abs(v) <= MaxEntry) {
			return fmt.Errorf("entry %d of a symmetric matrix is %v", i, v)
		}
	}
	return nil
}

// Check refuses what CheckSize refuses, and a matrix that is not positive semidefinite.
func (s Packed) Check(d int) error {
	if err := s.CheckSize(d); err != nil {
		return err
	}
	largest := convex.MaxAbs(s)
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
	if !Cholesky(l, d, 0) {
		return fmt.Errorf("a covariance has a negative eigenvalue")
	}
	return nil
}

// definiteSlack is the distance below zero, relative to the largest entry, at which an eigenvalue of a covariance may
// lie: rounding moves the eigenvalues of a singular matrix there.
const definiteSlack = 1e-9

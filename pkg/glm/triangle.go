package glm

import (
	"math"

	"gonum.org/v1/gonum/mat"
)

// A device reports a symmetric matrix as the vector of its upper triangle, row by row, (0,0), (0,1) .. (0,d-1), (1,1)
// .., with the entries off the diagonal multiplied by sqrt 2. The Euclidean norm of the vector is then the Frobenius
// norm of the matrix, noise of one variance on every coordinate is isotropic on matrices, and an entry off the diagonal
// is released with half the variance of one on it. (The seed paper sends the triangle unscaled and mirrors it: the
// sensitivity is the same, and the noise off the diagonal has twice the variance.)

// TriangleDim is the number of entries in the upper triangle of a symmetric d x d matrix: d(d+1)/2.
func TriangleDim(d int) int { return d * (d + 1) / 2 }

// appendOuter appends the vector of weight * x x' to dst. Its Euclidean norm is |weight| * ||x||^2.
func appendOuter(dst []float64, weight float64, x []float64) []float64 {
	for i, a := range x {
		dst = append(dst, weight*a*a)
		for _, b := range x[i+1:] {
			dst = append(dst, weight*a*b*math.Sqrt2)
		}
	}
	return dst
}

// fromTriangle is the d x d matrix of a vector of TriangleDim(d) entries. It undoes the factor sqrt 2 up to the last
// binary digit, and leaves the diagonal as it is.
func fromTriangle(v []float64, d int) *mat.SymDense {
	m := mat.NewSymDense(d, nil)
	for i := range d {
		m.SetSym(i, i, v[0])
		for j, entry := range v[1 : d-i] {
			m.SetSym(i, i+1+j, entry/math.Sqrt2)
		}
		v = v[d-i:]
	}
	return m
}

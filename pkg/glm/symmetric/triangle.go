package symmetric

import (
	"gonum.org/v1/gonum/mat"
)

// A device reports a symmetric matrix as the vector of its upper triangle, row by row, (0,0), (0,1) .. (0,d-1), (1,1)
// .., with the entries off the diagonal multiplied by sqrt 2. The Euclidean norm of the vector is then the Frobenius
// norm of the matrix, noise of one variance on every coordinate is isotropic on matrices, and an entry off the diagonal
// is released with half the variance of one on it. (The seed paper sends the triangle unscaled and mirrors it: the
// sensitivity is the same, and the noise off the diagonal has twice the variance.)

// Dim is the number of entries in the upper triangle of a symmetric d x d matrix: d(d+1)/2.
func Dim(d int) int { return d * (d + 1) / 2 }

// AppendOuter appends the upper triangle of weight * x x' to dst, with the entries off the diagonal times off. With
// sqrt 2 the Euclidean norm of what is appended is the Frobenius norm of the matrix, |weight| * ||x||^2; with 1 it is
// at most that.
func AppendOuter(dst []float64, weight float64, x []float64, off float64) []float64 {
	for i, a := range x {
		dst = append(dst, weight*a*a)
		for _, b := range x[i+1:] {
			dst = append(dst, weight*a*b*off)
		}
	}
	return dst
}

// FromTriangle is the d x d matrix of a vector of Dim(d) entries. It undoes the factor off up to the last
// binary digit, and leaves the diagonal as it is.
func FromTriangle(v []float64, d int, off float64) *mat.SymDense {
	m := mat.NewSymDense(d, nil)
	for i := range d {
		m.SetSym(i, i, v[0])
		for j, entry := range v[1 : d-i] {
			m.SetSym(i, i+1+j, entry/off)
		}
		v = v[d-i:]
	}
	return m
}

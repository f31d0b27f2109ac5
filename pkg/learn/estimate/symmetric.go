package estimate

import (
	"math"

	"gonum.org/v1/gonum/mat"

	"github.com/riffle-dp/riffle/pkg/convex"
)

// spectral applies a function to the eigenvalues of a symmetric matrix.
func spectral(m mat.Symmetric, f func(v float64) float64) (*mat.SymDense, error) {
	values, basis, err := convex.Spectrum(m)
	if err != nil {
		return nil, err
	}
	for i, v := range values {
		values[i] = f(v)
	}
	return convex.FromSpectrum(values, basis), nil
}

// root is the square root of a positive semidefinite matrix; eigenvalues below 0 by rounding count as 0.
func root(m mat.Symmetric) (*mat.SymDense, error) {
	return spectral(m, func(v float64) float64 { return math.Sqrt(math.Max(0, v)) })
}

// congruence is A B A for symmetric A and B.
func congruence(a, b *mat.SymDense) *mat.SymDense {
	var ab, aba mat.Dense
	ab.Mul(a, b)
	aba.Mul(&ab, a)
	d := a.SymmetricDim()
	out := mat.NewSymDense(d, nil)
	for i := range d {
		for j := i; j < d; j++ {
			out.SetSym(i, j, (aba.At(i, j)+aba.At(j, i))/2)
		}
	}
	return out
}

// identity is the d x d identity.
func identity(d int) *mat.SymDense {
	m := mat.NewSymDense(d, nil)
	for i := range d {
		m.SetSym(i, i, 1)
	}
	return m
}

// multiply is dst = M x for a symmetric M given row by row.
func multiply(dst []float64, rows [][]float64, x []float64) []float64 {
	dst = dst[:0]
	for _, row := range rows {
		dst = append(dst, convex.Dot(row, x))
	}
	return dst
}

// rowsOf copies a matrix, for inner loops.
func rowsOf(m mat.Matrix) [][]float64 {
	r, c := m.Dims()
	rows := make([][]float64, r)
	for i := range rows {
		rows[i] = make([]float64, c)
		for j := range rows[i] {
			rows[i][j] = m.At(i, j)
		}
	}
	return rows
}

// appendTriangle appends the upper triangle of weight x x', row by row, with the entries off the diagonal times off.
// With sqrt 2 the Euclidean norm of what is appended is the Frobenius norm of the matrix; with 1 it is at most that.
func appendTriangle(dst []float64, weight float64, x []float64, off float64) []float64 {
	for i, a := range x {
		dst = append(dst, weight*a*a)
		for _, b := range x[i+1:] {
			dst = append(dst, weight*a*b*off)
		}
	}
	return dst
}

// fromTriangle undoes appendTriangle.
func fromTriangle(v []float64, d int, off float64) *mat.SymDense {
	m, k := mat.NewSymDense(d, nil), 0
	for i := range d {
		for j := i; j < d; j++ {
			if i == j {
				m.SetSym(i, i, v[k])
			} else {
				m.SetSym(i, j, v[k]/off)
			}
			k++
		}
	}
	return m
}

// triangleBounds bounds the entries of appendTriangle for weight ||x||^2 <= 1: a square is in [0, 1], a product of two
// coordinates in [-1/2, 1/2].
func triangleBounds(d int, off float64) (lower, upper []float64) {
	for i := range d {
		for j := i; j < d; j++ {
			if i == j {
				lower, upper = append(lower, 0), append(upper, 1)
			} else {
				lower, upper = append(lower, -off/2), append(upper, off/2)
			}
		}
	}
	return lower, upper
}

package estimate

import (
	"math"

	"gonum.org/v1/gonum/mat"

	"github.com/riffle-dp/riffle/pkg/convex"
)

// root is the square root of a positive semidefinite matrix; eigenvalues below 0 by rounding count as 0.
func root(m mat.Symmetric) (*mat.SymDense, error) {
	return convex.MapSpectrum(m, func(v, _ float64) float64 { return math.Sqrt(math.Max(0, v)) })
}

// congruence is A B A' for a symmetric B.
func congruence(a mat.Matrix, b *mat.SymDense) *mat.SymDense {
	var ab, aba mat.Dense
	ab.Mul(a, b)
	aba.Mul(&ab, a.T())
	d := b.SymmetricDim()
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

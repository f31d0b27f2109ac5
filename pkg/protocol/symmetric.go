package protocol

import (
	"fmt"
	"math"
)

// A symmetric matrix travels as the vector of its upper triangle, row by row, (0,0), (0,1) .. (0,d-1), (1,1) .., with the entries
// off the diagonal times sqrt 2. The vector's l2 norm is the matrix's Frobenius norm, so that noise of one variance on every
// coordinate is isotropic on matrices, and an entry off the diagonal is released with half the variance of one on it. (The seed
// paper sends the triangle as it is and mirrors it: the same sensitivity, and twice the noise off the diagonal.)

// Symmetric is a symmetric matrix; gonum's mat.Symmetric is one.
type Symmetric interface {
	SymmetricDim() int
	At(i, j int) float64
}

// SymDim is the length of the vector of a symmetric d x d matrix: d(d+1)/2.
func SymDim(d int) int { return d * (d + 1) / 2 }

// SymVec returns the vector of m, in dst if its capacity suffices. Only the upper triangle is read.
func SymVec(dst []float64, m Symmetric) []float64 {
	d := m.SymmetricDim()
	dst = dst[:0]
	for i := range d {
		dst = append(dst, m.At(i, i))
		for j := i + 1; j < d; j++ {
			dst = append(dst, m.At(i, j)*math.Sqrt2)
		}
	}
	return dst
}

// SymOuter returns the vector of weight * x x', in dst if its capacity suffices. Its l2 norm is |weight| * ||x||^2.
func SymOuter(dst []float64, weight float64, x []float64) []float64 {
	dst = dst[:0]
	for i, a := range x {
		dst = append(dst, weight*a*a)
		for _, b := range x[i+1:] {
			dst = append(dst, weight*a*b*math.Sqrt2)
		}
	}
	return dst
}

// SymMat returns the matrix of vector v as d*d entries, row by row, exactly symmetric, in dst if its capacity suffices; gonum's
// mat.NewSymDense takes them as they are. The diagonal is v's own; off the diagonal SymMat(SymVec(m)) is m up to the last binary
// digit. It returns ErrVector if the length of v is not d(d+1)/2 for any d.
func SymMat(dst []float64, v []float64) ([]float64, error) {
	d := int((math.Sqrt(8*float64(len(v))+1) - 1) / 2)
	if d == 0 || SymDim(d) != len(v) {
		return nil, fmt.Errorf("%w: %d entries are no upper triangle; a symmetric d x d matrix has d(d+1)/2", ErrVector, len(v))
	}
	if cap(dst) < d*d {
		dst = make([]float64, d*d)
	}
	dst = dst[:d*d]
	for i := range d {
		dst[i*d+i], v = v[0], v[1:]
		for j := i + 1; j < d; j++ {
			value := v[0] / math.Sqrt2
			dst[i*d+j], dst[j*d+i], v = value, value, v[1:]
		}
	}
	return dst, nil
}

package statistic

import (
	"math"

	"gonum.org/v1/gonum/mat"

	"github.com/riffle-dp/riffle/pkg/glm/structure"
	"github.com/riffle-dp/riffle/pkg/glm/symmetric"
)

// products is which products of two coordinates are in vectors of outer products. It is made once for all records of a
// report, for the time that it takes.
type products struct {
	runs   [][2]int          // where arms lie in one of these, and nothing else is known of them
	layout *structure.Layout // of any other structure; both nil: any arm
}

func (s Statistic) products() (p products) {
	if len(s.Structure) == 0 || s.Kind != Hessian && s.Kind != Covariance {
		return p
	}
	if p.runs = s.Structure.Runs(s.ArmDim); p.runs != nil && len(s.Structure) == 1 {
		return p
	}
	layout := s.Structure.Layout(s.ArmDim)
	return products{layout: &layout}
}

// append appends the vector of weight * xx' for an arm that fits.
func (p products) append(dst []float64, weight float64, x []float64) []float64 {
	switch {
	case p.runs != nil: // row-major order is that of the runs
		for _, run := range p.runs {
			dst = symmetric.AppendOuter(dst, weight, x[run[0]:run[1]], math.Sqrt2)
		}
		return dst
	case p.layout == nil:
		return symmetric.AppendOuter(dst, weight, x, math.Sqrt2)
	}
	for i, a := range x {
		dst = append(dst, weight*a*a)
		for j := i + 1; j < len(x); j++ {
			if p.layout.Possible(i, j) {
				dst = append(dst, weight*a*x[j]*math.Sqrt2)
			}
		}
	}
	return dst
}

// Matrix is the d x d matrix of a vector of a Hessian or a Covariance, which has Dim numbers: those off the diagonal
// are divided by sqrt 2, and pairs that no arm has are 0. It panics if there are fewer.
func (s Statistic) Matrix(vector []float64) *mat.SymDense {
	if len(s.Structure) == 0 {
		return symmetric.FromTriangle(vector, s.ArmDim, math.Sqrt2)
	}
	m, layout := mat.NewSymDense(s.ArmDim, nil), s.Structure.Layout(s.ArmDim)
	for i := range s.ArmDim {
		m.SetSym(i, i, vector[0])
		vector = vector[1:]
		for j := i + 1; j < s.ArmDim; j++ {
			if layout.Possible(i, j) {
				m.SetSym(i, j, vector[0]/math.Sqrt2)
				vector = vector[1:]
			}
		}
	}
	return m
}

// possible leaves of the bounds of all pairs those of the pairs that are in the vectors. The diameter stays: leaving
// out what is 0 in every vector moves no two of them.
func (s Statistic) possible(b Bounds) Bounds {
	if len(s.Structure) == 0 {
		return b
	}
	k, n, layout := 0, 0, s.Structure.Layout(s.ArmDim)
	for i := range s.ArmDim {
		for j := i; j < s.ArmDim; j++ {
			if layout.Possible(i, j) {
				b.Lower[n], b.Upper[n] = b.Lower[k], b.Upper[k]
				n++
			}
			k++
		}
	}
	b.Lower, b.Upper = b.Lower[:n], b.Upper[:n]
	return b
}

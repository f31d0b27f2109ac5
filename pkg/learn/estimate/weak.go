package estimate

import (
	"fmt"
	"math"

	"gonum.org/v1/gonum/mat"

	"github.com/riffle-dp/riffle/pkg/convex"
)

// Weak is a reason in the data for a fit without intervals: columns that, as the noised statistics show, say too little
// by themselves, whatever the noise.
type Weak struct {
	// Columns are the features concerned, from 0 on: one that hardly varies, or several that nearly determine each
	// other.
	Columns []int
	// Spread bounds the standard deviation of the column, or of a combination of the columns with coefficients whose
	// squares sum to 1, in units of half the width of their bounds.
	Spread float64
}

// How weak columns are told.
const (
	// weakSpread is the Spread from which on columns are not called weak.
	weakSpread = 0.1
	// weakFailure is how often noise alone makes a fit call columns weak whose spread is larger than stated.
	weakFailure = 0.01
	// weakPart is the least coefficient of a column in a combination that is called weak.
	weakPart = 0.2
)

// weakColumns tells the weak columns of a noised matrix of (1, z), of which the diagonal has noise of the variance and
// the rest of half of it.
//
// A column's variance, M_jj - M_0j^2/M_00, is tried on its own first: at mean m its noise has the variance (1 + m^2)^2
// times that of the matrix at most, at first order; M_00 is noised where there are groups. Combinations of the other
// columns follow, along eigenvectors of what is left of the matrix: the noise moves no quadratic form of a unit vector
// by more than its operator norm, at most deviation (sqrt(2d) + sqrt(2 ln(1/failure))) except with that probability
// (see askMoments), so that a choice of vectors that depends on the noise is covered, too. Each part has half of
// weakFailure.
func weakColumns(m *mat.SymDense, variance float64) ([]Weak, error) {
	d, n := m.SymmetricDim(), m.At(0, 0)
	if !(n > 0) {
		return nil, nil
	}
	var out []Weak
	quantile := math.Sqrt2 * math.Erfinv(1-weakFailure/float64(d)) // one side, for each of d-1 columns
	left := []int{0}
	for j := 1; j < d; j++ {
		mean := m.At(0, j) / n
		upper := m.At(j, j) - mean*mean*n + quantile*math.Sqrt(variance)*(1+mean*mean)
		if spread := math.Sqrt(math.Max(0, upper) / n); spread < weakSpread {
			out = append(out, Weak{[]int{j - 1}, spread})
			continue
		}
		left = append(left, j)
	}
	part := mat.NewSymDense(len(left), nil)
	for a, i := range left {
		for b, j := range left[:a+1] {
			part.SetSym(a, b, m.At(i, j))
		}
	}
	values, basis, err := convex.Spectrum(part)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrFit, err)
	}
	norm := math.Sqrt(variance) * (math.Sqrt(2*float64(d)) + math.Sqrt(2*math.Log(2/weakFailure)))
	for i, l := range values {
		spread := math.Sqrt(math.Max(0, l+norm) / n)
		if spread >= weakSpread {
			continue
		}
		w := Weak{Spread: spread}
		for a, j := range left {
			if j > 0 && math.Abs(basis.At(a, i)) >= weakPart {
				w.Columns = append(w.Columns, j-1)
			}
		}
		if len(w.Columns) > 0 {
			out = append(out, w)
		}
	}
	return out, nil
}

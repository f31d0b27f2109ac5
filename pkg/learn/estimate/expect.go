package estimate

import (
	"fmt"
	"math"

	"gonum.org/v1/gonum/mat"
)

// usualSpread is the standard deviation that Expect takes columns to have, in units of half the width of their bounds:
// bounds are three standard deviations to each side of the middle.
const usualSpread = 1.0 / 3

// Expect is what a fit of so many rows can show, from bounds and budget alone, before anybody has looked at the data:
// the intervals of coefficients that are 0, if columns are uncorrelated, centred within their bounds, and spread by a
// third of half their width, as the target does (in a logistic fit half of the targets are 1). Columns that are
// correlated or spread less give wider ones. No noise is drawn and nothing is spent.
func (f Fit) Expect(rows int, logistic bool) (Fitted, error) {
	if logistic {
		f.Target = Range{Low: 0, High: 1}
	}
	if err := f.checkSetting(rows); err != nil {
		return Fitted{}, err
	}
	d := len(f.Features) + 1
	n, square := float64(rows), usualSpread*usualSpread
	if logistic {
		_, noises, err := f.newtonNoises()
		if err != nil {
			return Fitted{}, err
		}
		last := noises[len(noises)-1]
		step := newtonStep{to: make([]float64, d), gradient: make([]float64, d), hessian: mat.NewSymDense(d, nil),
			variance: last.Deviation() * last.Deviation()}
		for i := range d {
			step.hessian.SetSym(i, i, n/4*square)
		}
		step.hessian.SetSym(0, 0, n/4)
		if step.inverse, step.reliable, err = ridged(step.hessian, step.variance); err != nil {
			return Fitted{}, err
		}
		out := Fitted{Rows: rows}
		err = f.conclude(&out, make([]float64, d), step)
		return out, err
	}
	moved, noise, err := f.momentsNoise()
	if err != nil {
		return Fitted{}, err
	}
	sums := make([]float64, moved.Dim)
	at := 0 // the diagonal comes first in each row of the triangle, but for the first entry of all, which is left out
	for i := range d + 1 {
		if i > 0 {
			sums[at] = n * square
			at++
		}
		at += d - i
	}
	variance := noise.Deviation() * noise.Deviation()
	if f.Local {
		variance *= n
	}
	return f.solve(sums, variance, rows)
}

// RowsFor is about how many rows a fit needs for intervals, as Expect sees it; 0: more than there can be.
func (f Fit) RowsFor(logistic bool) (int, error) {
	for n := 2*len(f.Features) + 10; n <= mostRows; n += n/20 + 1 {
		out, err := f.Expect(n, logistic)
		if err != nil {
			return 0, fmt.Errorf("%d rows: %w", n, err)
		}
		if out.Reliable || out.Bounded {
			return int(roundUp(float64(n))), nil
		}
	}
	return 0, nil
}

// roundUp rounds up to two digits.
func roundUp(n float64) float64 {
	unit := math.Max(1, math.Pow10(int(math.Log10(n))-1))
	return math.Ceil(n/unit) * unit
}

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
// third of half their width, as the target does (in a logistic fit half of the targets are 1), and groups are equal.
// Columns that are correlated or spread less give wider ones. No noise is drawn and nothing is spent; the guarantee is
// that of such a fit.
func (f Fit) Expect(rows int, logistic bool) (Fitted, error) {
	if logistic {
		f.Target = Range{Low: 0, High: 1}
	}
	if err := f.checkSetting(rows); err != nil {
		return Fitted{}, err
	}
	d, blocks := len(f.Features)+1, float64(f.blocks())
	n, square := float64(rows)/blocks, usualSpread*usualSpread
	vector, shares := f.momentsVector(), []float64{1}
	if logistic {
		vector, shares = f.newtonVector(), f.rounds()
	}
	planned, err := f.plan(vector, shares, rows)
	if err != nil {
		return Fitted{}, err
	}
	variance := f.variance(planned, len(shares)-1, rows)
	if logistic {
		step := newtonStep{from: make([]float64, d), to: make([]float64, d), gradient: make([]float64, d),
			hessian: mat.NewSymDense(d, nil), variance: variance}
		for i := range d {
			step.hessian.SetSym(i, i, n/4*square)
		}
		step.hessian.SetSym(0, 0, n/4)
		if step.inverse, step.reliable, err = ridged(step.hessian, step.variance); err != nil {
			return Fitted{}, err
		}
		out := Fitted{Rows: rows, Guarantee: planned.guarantee}
		err = f.conclude(&out, step)
		return out, err
	}
	o := noisedMoments{m: mat.NewSymDense(d, nil), s: make([]float64, d), square: n * square, variance: variance,
		counted: f.Groups > 0, rows: rows}
	for i := range d {
		o.m.SetSym(i, i, n*square)
	}
	o.m.SetSym(0, 0, n)
	out, err := f.solve(o)
	out.Guarantee = planned.guarantee
	return out, err
}

// RowsFor is about how many rows a fit needs for intervals, as Expect sees it; 0: more than there can be.
func (f Fit) RowsFor(logistic bool) (int, error) {
	least := 2*len(f.Features) + 10
	enough := func(n int) (bool, error) {
		out, err := f.Expect(n, logistic)
		if err != nil {
			return false, fmt.Errorf("%d rows: %w", n, err)
		}
		return out.Reliable || out.Bounded, nil
	}
	low, high := least-1, least // too few, or none; enough
	for {
		ok, err := enough(high)
		if err != nil {
			return 0, err
		}
		if ok {
			break
		}
		if high > mostRows/2 {
			return 0, nil
		}
		low, high = high, 2*high
	}
	for high-low > 1+high/20 {
		middle := low + (high-low)/2
		ok, err := enough(middle)
		if err != nil {
			return 0, err
		}
		if ok {
			high = middle
		} else {
			low = middle
		}
	}
	return int(roundUp(float64(high))), nil
}

// roundUp rounds up to two digits.
func roundUp(n float64) float64 {
	unit := math.Max(1, math.Pow10(int(math.Log10(n))-1))
	return math.Ceil(n/unit) * unit
}

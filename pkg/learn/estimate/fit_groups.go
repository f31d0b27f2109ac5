package estimate

import (
	"fmt"
	"math"

	"gonum.org/v1/gonum/mat"
)

// Group is what a fit says of one group. Rows of its Fitted is Count, rounded.
type Group struct {
	Fitted
	Count Coefficient // of its rows; the interval is of the noise alone
	Mean  Coefficient // of the target, clipped
}

// ByGroup is Linear or Logistic in each of the Groups, with the number of rows and the target's mean; without features
// it is these alone. A row has its group's number, from 0 on. Groups are public; which rows are in which, and how many,
// is not.
//
// All groups are one release: a row is in one of them, and if it goes to another it moves the sums no more than any row
// does (momentsVector, newtonVector). So each group has the whole budget, and the guarantee is of all groups together.
func (f Fit) ByGroup(rows [][]float64, target []float64, group []int, logistic bool) ([]Group, error) {
	if f.Groups < 1 || len(group) != len(rows) {
		return nil, fmt.Errorf("%w: %d groups, and %d rows have one of %d", ErrFit, f.Groups, len(group), len(rows))
	}
	for i, g := range group {
		if g < 0 || g >= f.Groups {
			return nil, fmt.Errorf("%w: row %d is in none of the %d groups", ErrFit, i+1, f.Groups)
		}
	}
	out := make([]Group, f.Groups)
	if logistic {
		last, guarantee, err := f.descend(rows, target, group)
		if err != nil {
			return nil, err
		}
		for g := range out {
			out[g].Count, out[g].Mean = f.share(*last[g].first)
			out[g].Rows = int(math.Max(0, math.Round(out[g].Count.Value)))
			if err := f.conclude(&out[g].Fitted, last[g]); err != nil {
				return nil, err
			}
			out[g].Guarantee = guarantee
		}
		return out, nil
	}
	if err := f.check(rows, target); err != nil {
		return nil, err
	}
	all, guarantee, err := f.moments(rows, target, group)
	if err != nil {
		return nil, err
	}
	for g, o := range all {
		if out[g].Fitted, err = f.solve(o); err != nil {
			return nil, err
		}
		if out[g].Mean, err = f.mean(o); err != nil {
			return nil, err
		}
		out[g].Count, out[g].Guarantee = f.count(o.m.At(0, 0), o.variance), guarantee
	}
	return out, nil
}

// count is a number of rows with noise of the variance.
func (f Fit) count(n, variance float64) Coefficient {
	half := f.quantile() * math.Sqrt(variance)
	return Coefficient{Value: n, Noise: math.Sqrt(variance), Low: n - half, High: n + half}
}

// mean is that of the target: the regression on nothing but the intercept.
func (f Fit) mean(o noisedMoments) (Coefficient, error) {
	f.Features = nil
	o.m, o.s = o.m.SliceSym(0, 1).(*mat.SymDense), o.s[:1]
	out, err := f.solve(o)
	return out.Intercept, err
}

// share is the number of a group's rows and the mean of their targets, 0 and 1, from the round at 0. There p is one
// half, so that the first number of the Hessian is n/4, and that of the gradient sums y - 1/2.
//
// With q the mean less one half, and h and g those numbers with their noise of variance v, g - 4qh has the variance v
// (1 + 16 q^2), and n (1/4 - q^2) of sampling. The q for which it is no farther from 0 than the level allows are the
// interval (Fieller, as in fiellerSet); for n stands 4h with the quantile of its noise on top.
func (f Fit) share(at0 newtonStep) (count, mean Coefficient) {
	h, g, v, z := at0.hessian.At(0, 0), at0.gradient[0], at0.variance, f.quantile()
	count = f.count(4*h, 16*v)
	n := math.Max(0, count.High)
	mean = Coefficient{Value: 0.5, Low: math.Inf(-1), High: math.Inf(1)}
	if h > 0 {
		q := math.Max(-0.5, math.Min(0.5, g/(4*h)))
		mean.Value = 0.5 + q
		mean.Sampling, mean.Noise = math.Sqrt((0.25-q*q)/(4*h)), math.Sqrt(v*(1+16*q*q))/(4*h)
	}
	a, b, c := 16*h*h-z*z*(16*v-n), -8*g*h, g*g-z*z*(v+n/4)
	if root := b*b - 4*a*c; h > 0 && 16*h*h > z*z*16*v && a > 0 && root >= 0 {
		mean.Low = math.Max(0, 0.5+(-b-math.Sqrt(root))/(2*a))
		mean.High = math.Min(1, 0.5+(-b+math.Sqrt(root))/(2*a))
	}
	return count, mean
}

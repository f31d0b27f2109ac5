package estimate

import (
	"fmt"
	"math"

	"gonum.org/v1/gonum/mat"

	"github.com/riffle-dp/riffle/pkg/glm/symmetric"
)

// Answered is least squares of a target on features with an intercept, from released sums alone: triangle is the upper
// triangle of the sum of uu' over decisions, u = (1, z, y) with z and y in [-1, 1], entries off the diagonal times sqrt
// 2, and the variance is that of the noise of each coordinate. Unlike the rows of Linear, decisions are counted by the
// sum itself, so that its first entry has noise, too. alike is how many decisions that follow each other may be of one
// person; residuals of one person are taken to be the same, so that the variance of their sum is alike times as large.
//
// Intervals and what they assume are those of Linear, and so is what is said where the noise is too large. Epsilon,
// Delta, Noise and Local are not read. Errors wrap ErrFit.
func (f Fit) Answered(triangle []float64, variance, alike float64) (out Fitted, err error) {
	d := len(f.Features) + 1
	if len(triangle) != symmetric.Dim(d+1) || !(variance >= 0) || !(alike >= 1) {
		return out, fmt.Errorf("%w: %d sums for %d features", ErrFit, len(triangle), len(f.Features))
	}
	all := symmetric.FromTriangle(triangle, d+1, math.Sqrt2)
	o := noisedMoments{m: mat.NewSymDense(d, nil), s: make([]float64, d), square: all.At(d, d), variance: variance,
		counted: true}
	for i := range d {
		o.s[i] = all.At(i, d)
		for j := i; j < d; j++ {
			o.m.SetSym(i, j, all.At(i, j))
		}
	}
	n := all.At(0, 0)
	out.Rows = int(math.Max(0, math.Round(n)))
	inverse, reliable, err := ridged(o.m, variance)
	if err != nil {
		return out, err
	}
	theta := product(inverse, o.s)
	residual := o.residual(theta) * alike
	out.Reliable = reliable && n > float64(d)+1 // with fewer decisions nothing can be said
	if !out.Reliable {
		set, err := newFieller(o.m, o.s, residual, variance, f.quantile())
		if err != nil {
			return out, fmt.Errorf("%w: %w", ErrFit, err)
		}
		if out.Bounded = set.bounded; set.bounded {
			f.describeSet(&out, make([]float64, d), set)
			return out, nil
		}
	} else {
		out.Residual = math.Sqrt(residual/alike) * f.Target.half()
	}
	f.describe(&out, theta, sandwich(inverse, o.m, residual),
		sandwich(inverse, noiseCovariance(theta, variance, o.counted), 1))
	return out, nil
}

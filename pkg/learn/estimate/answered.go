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
	m, s, square := mat.NewSymDense(d, nil), make([]float64, d), all.At(d, d)
	for i := range d {
		s[i] = all.At(i, d)
		for j := i; j < d; j++ {
			m.SetSym(i, j, all.At(i, j))
		}
	}
	n := all.At(0, 0)
	out.Rows = int(math.Max(0, math.Round(n)))
	least := float64(d) + 1 // decisions, below which nothing can be said
	inverse, reliable, err := ridged(m, variance)
	if err != nil {
		return out, err
	}
	theta := product(inverse, s)
	residual := residualVariance(m, theta, s, square, variance, math.Max(n, least)) * alike
	if out.Reliable = reliable && n > least; out.Reliable {
		out.Residual = math.Sqrt(residual/alike) * f.Target.half()
		noise := noiseCovariance(theta, variance)
		noise.SetSym(0, 0, noise.At(0, 0)+variance*theta[0]*theta[0])
		f.describe(&out, theta, sandwich(inverse, m, residual), sandwich(inverse, noise, 1))
		return out, nil
	}
	set, err := newFieller(m, s, residual, variance, f.quantile())
	if err != nil {
		return out, fmt.Errorf("%w: %w", ErrFit, err)
	}
	if out.Bounded = set.bounded; set.bounded {
		f.describeSet(&out, make([]float64, d), set)
		return out, nil
	}
	f.describe(&out, theta, sandwich(inverse, m, residual), sandwich(inverse, noiseCovariance(theta, variance), 1))
	return out, nil
}

package estimate

import (
	"fmt"
	"math"

	"gonum.org/v1/gonum/mat"

	"github.com/riffle-dp/riffle/pkg/convex"
	"github.com/riffle-dp/riffle/pkg/glm/symmetric"
)

// A fiellerSet is the set of all theta that the noised equations M theta = s do not rule out, in the basis of M's
// eigenvectors. It holds the truth at the stated level however weak M is beside its noise: where M is too weak the set
// has no end.
//
// With theta the truth, the difference s - M theta is r + e - E theta: the sum of residuals, of covariance v S, and
// noise of covariance c ((1 + |theta|^2) I + theta theta'), c half of the variance of a coordinate (noiseCovariance,
// without what the exact entry saves). That covariance is at most (1 + 2 |theta|^2) Omega with Omega = v S + c I. A
// value t of a linear function is kept if some theta with that value has (s - M theta)' Omega^-1 (s - M theta) <=
// z^2 (1 + 2 |theta|^2), z the normal quantile: the subset statistic of Anderson and Rubin, whose level holds if the
// other directions are weak, too (Guggenberger, Kleibergen, Mavroeidis and Chen, "On the asymptotic sizes of subset
// Anderson-Rubin and Lagrange multiplier tests in linear instrumental variables regression", 2012). In one dimension it
// is Fieller's interval (1954).
//
// Those t are where a quadratic form with one negative eigenvalue is negative somewhere on a hyperplane. In the basis
// of eigenvectors the form is an arrow, and its inverse is at hand: if all margins l^2/omega - 2 z^2 are positive the
// set is center +- root(spread * sum of a_i^2/margin_i), else it has no end.
type fiellerSet struct {
	basis   *mat.Dense
	margins []float64
	center  []float64 // in the basis
	// solution is that of the noised equations, in the basis
	solution []float64
	spread   float64
	bounded  bool
}

// newFieller is the set of the noised matrix m and vector s, of which a coordinate's noise has the variance; residual
// is a bound on the residuals' variance v.
func newFieller(m *mat.SymDense, s []float64, residual, variance, quantile float64) (fiellerSet, error) {
	values, basis, err := convex.Spectrum(m)
	if err != nil {
		return fiellerSet{}, err
	}
	d := len(values)
	out := fiellerSet{basis: basis, margins: make([]float64, d), center: make([]float64, d),
		solution: make([]float64, d), bounded: true}
	z2, curve := quantile*quantile, -quantile*quantile
	above := math.Sqrt(2 * float64(d) * variance) // by which the noise may have lowered an eigenvalue
	for i, l := range values {
		y := 0.0
		for j, v := range s {
			y += basis.At(j, i) * v
		}
		omega := residual*(math.Max(0, l)+above) + variance/2
		if omega == 0 {
			omega = math.SmallestNonzeroFloat64
		}
		margin := l*l/omega - 2*z2
		if !(l > 0 && margin > 0) {
			out.bounded = false
			return out, nil
		}
		out.margins[i], out.center[i], out.solution[i] = margin, l*y/omega/margin, y/l
		curve += y*y/omega - (l*y/omega)*(l*y/omega)/margin
	}
	out.spread = -curve
	out.bounded = out.spread >= 0
	return out, nil
}

// interval has the values of weights'theta for theta in the set.
func (s fiellerSet) interval(weights []float64) (low, high float64) {
	if !s.bounded {
		return math.Inf(-1), math.Inf(1)
	}
	middle, square := 0.0, 0.0
	for i, margin := range s.margins {
		a := 0.0
		for j, w := range weights {
			a += s.basis.At(j, i) * w
		}
		middle += a * s.center[i]
		square += a * a / margin
	}
	half := math.Sqrt(s.spread * square)
	return middle - half, middle + half
}

// estimate is the theta that solves the noised equations. It is in every set.
func (s fiellerSet) estimate() []float64 { return product(s.basis, s.solution) }

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

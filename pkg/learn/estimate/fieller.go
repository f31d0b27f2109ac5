package estimate

import (
	"math"

	"gonum.org/v1/gonum/mat"

	"github.com/riffle-dp/riffle/pkg/convex"
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

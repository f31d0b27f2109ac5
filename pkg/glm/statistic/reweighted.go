package statistic

import (
	"math"

	"github.com/riffle-dp/riffle/pkg/convex"
	"github.com/riffle-dp/riffle/pkg/glm/family"
	"github.com/riffle-dp/riffle/pkg/glm/symmetric"
)

// The statistics of regression under a normalization U, a positive semidefinite matrix: Chen, Li, Rakhlin and
// Simchi-Levi, "Near-optimal private learning in linear contextual bandits" (2025). What a device is told is its root
// H = U^(1/2), so that it needs no decomposition of a matrix: y = Hx, Ux = Hy and u = Ux/|Ux|. The bounds hold for
// every symmetric H, whatever its condition, because they use only that |u| = 1 and |y|^2 = <x, Ux> <= |Ux|. None of
// the statistics depends on the scale of U.

// leastNormalized is the |Ux| below which a record counts as x = 0, whose vectors are zero: nothing is divided by it.
const leastNormalized = 1e-12

// normalized is y = Hx and u = Ux/|Ux| of a clipped arm, in room, and |Ux|; false where |Ux| is as good as 0.
func (s Statistic) normalized(room *[32]float64, x []float64) (y, u []float64, length float64, ok bool) {
	y = s.Normalization.Times(room[:0:16], x)
	u = s.Normalization.Times(room[16:16], y)
	length = convex.Norm(u)
	if !(length > leastNormalized) {
		return nil, nil, 0, false
	}
	for i := range u {
		u[i] /= length
	}
	return y, u, length, true
}

// appendReweighted appends the vector of a clipped record, of a kind that has a normalization.
func (s Statistic) appendReweighted(dst []float64, r Record) []float64 {
	var room [32]float64
	y, u, length, ok := s.normalized(&room, r.Arm)
	if !ok {
		return append(dst, make([]float64, s.Dim())...)
	}
	switch s.Kind {
	case Normalization: // rounding can make |y|^2/|Ux| larger than it is where U has a large condition
		n := convex.Norm(y)
		scale := math.Min(1/math.Sqrt(length), 1/n)
		for i := range y {
			y[i] *= scale
		}
		return symmetric.AppendOuter(dst, 1, y, math.Sqrt2)
	case ReweightedGradient:
		residual := family.Residual(s.Family, s.Family.Mean(convex.Dot(r.Arm, s.Theta)), r.Reward)
		for _, v := range u {
			dst = append(dst, v*residual)
		}
		return dst
	}
	for _, v := range u {
		dst = append(dst, v*r.Reward)
	}
	for _, v := range u {
		for _, x := range r.Arm {
			dst = append(dst, v*x)
		}
	}
	return symmetric.AppendOuter(dst, 1, u, math.Sqrt2)
}

// reweightedBounds are those of the kinds that have a normalization.
//
// Normalization. V = yy'/|Ux| is positive semidefinite of rank one, with trace and Frobenius norm |y|^2/|Ux| =
// <x, Ux>/|Ux| <= |x| <= 1 (Lemma A.5 of the paper): it is an outer product of weight 1, and outerBounds holds. Two
// eigenvectors of U reach the diameter sqrt 2, where the paper takes 2.
//
// ReweightedGradient. |u| = 1, and the residual is at most rho, its largest over |z| <= |theta| and rewards in range:
// two vectors are at most 2 rho apart. (Two nearly equal arms can have opposite u, so that this is reached for U of
// large condition.) The paper takes rho = 2 everywhere, which is right for rewards in [-1, 1] and |theta| = 1.
//
// ReweightedLinear. For two records let c = <u, u'>, q = <x, x'>, |q| <= 1, and |r| <= B. The squared distances are at
// most 2 B^2 (1 + |c|) for u r, |x|^2 + |x'|^2 - 2 c q <= 2 (1 + |c|) for u x', and 2 (1 - c^2) for u u'. Their sum
// rises in |c| up to (B^2 + 1)/2, or 1: for B >= 1 the diameter is 2 sqrt(B^2 + 1), and the third is free. The paper
// takes 6 where this is sqrt 8. The null record is at most sqrt(B^2 + 2) from others, which is less.
func (s Statistic) reweightedBounds() Bounds {
	d := s.ArmDim
	switch s.Kind {
	case Normalization:
		return outerBounds(d, 1)
	case ReweightedGradient:
		rho := newGradientSet(s.Family, convex.Norm(s.Theta)).longest()
		return box(d, rho, 2*rho)
	}
	most := math.Max(math.Abs(s.Family.MinReward()), math.Abs(s.Family.MaxReward()))
	square := most * most
	c := math.Min(1, (square+1)/2)
	b := box(d, most, math.Sqrt(2*(square+1)*(1+c)+2*(1-c*c)))
	products, outer := box(d*d, 1, 0), outerBounds(d, 1)
	b.Lower = append(append(b.Lower, products.Lower...), outer.Lower...)
	b.Upper = append(append(b.Upper, products.Upper...), outer.Upper...)
	return b
}

// box are bounds of n coordinates in [-half, half].
func box(n int, half, diameter float64) Bounds {
	b := Bounds{Lower: make([]float64, n), Upper: make([]float64, n), Diameter: diameter}
	for j := range n {
		b.Lower[j], b.Upper[j] = -half, half
	}
	return b
}

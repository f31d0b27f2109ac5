package statistic

import (
	"math"

	"github.com/riffle-dp/riffle/pkg/convex"
	"github.com/riffle-dp/riffle/pkg/glm/family"
)

// ballTolerance is the relative accuracy of the radius of EnclosingBall.
const ballTolerance = 1e-10

// EnclosingBall gives a ball that holds the gradient (mu(<x,theta>) - r) x of every record with |x| <= 1 and r in
// [L, R], L and R being the smallest and the largest reward, for every theta of Euclidean norm size. Its centre is
// centre*theta/|theta|. Its radius is never too small; where the choice of the centre below is tight, in two dimensions
// or more, it is at most 1e-9 (relative) above the smallest one. The sensitivity of the gradient is at most 2*radius.
//
// Proof. Let z = <x,theta>. The gradient is a convex combination of the one for r = L, (mu(z) - L)x, and the one for
// r = R, which is (R - mu(-z'))x' with x' = -x and z' = -z. So it lies in the convex hull of the points m x with
// m in {mu(z) - L, R - mu(-z)}, and a ball that holds these points holds the hull. With x at |x| <= 1,
//
//	||m x - c theta/|theta| ||^2 <= m^2 - 2 c m z/|theta| + c^2,
//
// a function of z in [-|theta|, |theta|] alone, whose maximum is taken with an error margin (see convex.UpperMaximum).
// Any c is valid; a good choice makes the radius small.
//
// The choice. Two points m x at the same angle phi from theta, on opposite sides, are 2 m sin(phi) apart, so no ball is
// smaller than max m sin(phi). If c = m cos(phi) at the maximum gives a radius no larger than that, the ball is the
// smallest and twice its radius is the exact sensitivity; this is so for the families here at ordinary sizes. Otherwise
// c is found by convex minimisation of the radius.
//
// An m is negative only where the mean leaves [L, R]. The point m x is then -m times the arm -x, whose other m is at
// least as large; so upper bounds of positive m hold for these points too.
func EnclosingBall(f family.Response, size float64) (centre, radius float64) {
	g := newGradientSet(f, size)
	if size == 0 {
		return 0, g.radius(0)
	}
	lower, c := g.widest()
	radius = g.radius(c)
	if radius <= lower*(1+10*ballTolerance) {
		return c, radius
	}
	return g.minimise(c, radius)
}

// gradientSet is the set of gradients at one |theta|, described by the two functions m of the proof above in the
// variable a = cos(phi) = z/|theta|.
type gradientSet struct {
	f                    family.Response
	size                 float64
	first, second, third float64 // bounds of the absolute derivatives of mu over |z| <= size
}

func newGradientSet(f family.Response, size float64) *gradientSet {
	second, third := f.Smoothness(size)
	return &gradientSet{f: f, size: size, first: f.MaxVariance(size), second: second, third: third}
}

// low is the length of the gradient of a unit arm with the smallest reward, high the one with the largest, mirrored. Of
// clipped residuals both are the clip, which is at least their length.
func (g *gradientSet) low(a float64) float64 {
	if c, clipped := family.ClipOf(g.f); clipped {
		return c
	}
	return g.f.Mean(g.size*a) - g.f.MinReward()
}

func (g *gradientSet) high(a float64) float64 {
	if c, clipped := family.ClipOf(g.f); clipped {
		return c
	}
	return g.f.MaxReward() - g.f.Mean(-g.size*a)
}

// branches lists the distinct functions m.
func (g *gradientSet) branches() []func(float64) float64 {
	if g.f.Symmetric() {
		return []func(float64) float64{g.low}
	}
	return []func(float64) float64{g.low, g.high}
}

// widest finds max m(a) sqrt(1-a^2) by golden-section search from the best point of a grid, and m(a) a there. It is a
// valid lower bound of the radius whatever it finds.
func (g *gradientSet) widest() (width, centre float64) {
	const grid = 32
	for _, m := range g.branches() {
		at := func(phi float64) float64 { return m(math.Cos(phi)) * math.Sin(phi) }
		best, phi := math.Inf(-1), 0.0
		for i := 1; i < grid; i++ {
			p := math.Pi * float64(i) / grid
			if v := at(p); v > best {
				best, phi = v, p
			}
		}
		phi = goldenMinimum(func(p float64) float64 { return -at(p) }, phi-math.Pi/grid, phi+math.Pi/grid, 1e-8)
		if v := at(phi); v > width {
			width, centre = v, m(math.Cos(phi))*math.Cos(phi)
		}
	}
	return width, centre
}

// radius is an upper bound, within the tolerance, of the distance of the set from the centre c.
func (g *gradientSet) radius(c float64) float64 {
	most := family.MaxResidual(g.f, g.size)
	// F = m^2 - 2cma has |F''| <= 2m'^2 + 2|m||m''| + 4|c|m' + 2|c||m''| with m' = size mu', m'' = size^2 mu''.
	m1, m2 := g.size*g.first, g.size*g.size*g.second
	curvature := 2*m1*m1 + 2*most*m2 + 4*math.Abs(c)*m1 + 2*math.Abs(c)*m2
	largest := 0.0
	for _, m := range g.branches() {
		distance := func(a float64) float64 {
			v := m(a)
			return v*v - 2*c*v*a + c*c
		}
		largest = math.Max(largest, convex.UpperMaximum(distance, -1, 1, curvature, ballTolerance))
	}
	return math.Sqrt(largest)
}

// minimise improves the centre by golden-section search: the squared radius is a maximum of convex functions of c.
func (g *gradientSet) minimise(c, radius float64) (float64, float64) {
	most := family.MaxResidual(g.f, g.size)
	better := goldenMinimum(g.radius, -most, most, 1e-7)
	if r := g.radius(better); r < radius {
		return better, r
	}
	return c, radius
}

// goldenMinimum finds the minimum of a unimodal function over [lo, hi] to the given relative width of the interval.
func goldenMinimum(f func(float64) float64, lo, hi, tol float64) float64 {
	const ratio = 0.6180339887498949
	width := (hi - lo) * tol
	a, b := hi-ratio*(hi-lo), lo+ratio*(hi-lo)
	fa, fb := f(a), f(b)
	for hi-lo > width {
		if fa <= fb {
			hi, b, fb = b, a, fa
			a = hi - ratio*(hi-lo)
			fa = f(a)
		} else {
			lo, a, fa = a, b, fb
			b = lo + ratio*(hi-lo)
			fb = f(b)
		}
	}
	return (lo + hi) / 2
}

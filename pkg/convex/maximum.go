package convex

import "math"

// maximumCells bounds the work of UpperMaximum. Beyond it the bound stays valid and is only less tight.
const maximumCells = 20000

// UpperMaximum returns an upper bound of max f over [lo, hi], where curvature is an upper bound of minus the second
// derivative of f. On a cell of width h with end values fa and fb, f + curvature x^2/2 is convex, so f lies below its
// chord plus curvature (x-a)(b-x)/2. Cells whose bound exceeds the best value found by at most a relative tol are
// dropped, the others halved. The result exceeds the maximum by at most a relative tol.
func UpperMaximum(f func(float64) float64, lo, hi, curvature, tol float64) float64 {
	type cell struct{ a, b, fa, fb float64 }
	const start = 8 // a first cut, so that a narrow peak is met early and prunes the rest
	var stack []cell
	a, fa := lo, f(lo)
	best := fa
	for i := 1; i <= start; i++ {
		b := lo + (hi-lo)*float64(i)/start
		fb := f(b)
		best = math.Max(best, fb)
		stack = append(stack, cell{a, b, fa, fb})
		a, fa = b, fb
	}
	bound := math.Inf(-1) // over the cells given up
	for n := 0; len(stack) > 0; n++ {
		c := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		u := CellBound(c.fa, c.fb, curvature*(c.b-c.a)*(c.b-c.a))
		mid := c.a + (c.b-c.a)/2
		switch {
		case u <= best+tol*math.Abs(best): // dropped: below best + tol for good, because best only grows
		case n >= maximumCells || mid <= c.a || mid >= c.b:
			bound = math.Max(bound, u)
		default:
			fm := f(mid)
			best = math.Max(best, fm)
			stack = append(stack, cell{c.a, mid, c.fa, fm}, cell{mid, c.b, fm, c.fb})
		}
	}
	return math.Max(bound, best+tol*math.Abs(best))
}

// CellBound is the largest value on a cell of the chord from fa to fb plus the parabola of height k/8, where k is
// curvature times the square of the cell's width.
func CellBound(fa, fb, k float64) float64 {
	d := math.Abs(fb - fa)
	if 2*d >= k {
		return math.Max(fa, fb)
	}
	return (fa+fb)/2 + k/8 + d*d/(2*k)
}

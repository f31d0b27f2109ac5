package statistic

import (
	"math"
	"math/rand/v2"
	"testing"
)

// plainUpper is the bound of a box as its proof has it: the largest sum over the sixteen choices of ends.
func plainUpper(a, b float64, p, q jointCell, lo, hi float64) float64 {
	largest := 0.0
	for k := range 16 {
		w, v, m, n := p.w.hi, q.w.hi, p.m.hi, q.m.hi
		for i, end := range []struct {
			to *float64
			lo float64
		}{{&w, p.w.lo}, {&v, q.w.lo}, {&m, p.m.lo}, {&n, q.m.lo}} {
			if k>>i&1 != 0 {
				*end.to = end.lo
			}
		}
		x, y := a*w*v, b*m*n
		c := lo
		if x > 0 {
			c = math.Max(lo, math.Min(hi, -y/(2*x)))
		}
		largest = math.Max(largest, a*(w*w+v*v)+b*(m*m+n*n)-2*x*c*c-2*y*c)
	}
	return largest
}

// What is computed once for several sums of a box changes no bit of its bound: on boxes of all sizes, with zeros of
// both signs and numbers at both ends of a double's range. Where the plain bound is not finite neither is the other,
// and spread makes +Inf of both.
func TestTheBoundOfABoxIsTheLargestOfSixteenSums(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 9))
	odd := []float64{0, math.Copysign(0, -1), math.SmallestNonzeroFloat64, 1e-310, 1e-160, 1, 1e100, 1e154, 1e160,
		math.MaxFloat64}
	finite := 0
	for i := range 200_000 {
		number := func() float64 {
			if i%2 == 0 && rng.IntN(2) == 0 {
				return odd[rng.IntN(len(odd))]
			}
			return math.Exp(5 * rng.NormFloat64())
		}
		between := func() interval {
			x, y := number(), number()
			return interval{min(x, y), max(x, y)}
		}
		lo, hi := -1.0, 1-2*rng.Float64()
		switch i % 5 {
		case 0:
			lo, hi = min(hi, 0), 0
		case 1:
			lo, hi = hi, 1
		}
		p, q := jointCell{between(), between()}, jointCell{between(), between()}
		a, b := number(), number()
		want, got := plainUpper(a, b, p, q, lo, hi), jointUpper(a, b, p, q, lo, hi)
		overflows := !(want <= math.MaxFloat64)
		if overflows != !(got <= math.MaxFloat64) || !overflows && math.Float64bits(got) != math.Float64bits(want) {
			t.Fatalf("weights %v and %v, cells %v and %v, cosines %v to %v: %v, want %v", a, b, p, q, lo, hi, got, want)
		}
		if !overflows {
			finite++
		}
	}
	if finite < 120_000 {
		t.Errorf("%d finite bounds were compared", finite)
	}
}

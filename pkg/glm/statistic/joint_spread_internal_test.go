package statistic

import (
	"math"
	"math/rand/v2"
	"testing"
)

// The bound on a box is bit for bit what max and min give, and no bound where an end is NaN: then no box may be
// dropped.
func TestJointUpperIsTheLargestOfAllEnds(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	special := []float64{0, 1, math.MaxFloat64, math.Inf(1)}
	number := func() float64 {
		if rng.IntN(20) == 0 {
			return special[rng.IntN(len(special))]
		}
		return math.Exp(20*rng.Float64() - 15)
	}
	ends := func() interval {
		x, y := number(), number()
		return interval{min(x, y), max(x, y)}
	}
	none, clipped := 0, [3]int{}
	for range 100_000 {
		a, b, p, q := number(), number(), jointCell{ends(), ends()}, jointCell{ends(), ends()}
		x, y := 2*rng.Float64()-1, 2*rng.Float64()-1
		lo, hi := min(x, y), max(x, y)
		want := 0.0
		for i := range 16 {
			w, v, m, n := p.w.hi, q.w.hi, p.m.hi, q.m.hi
			for bit, end := range []*float64{&w, &v, &m, &n} {
				if i>>bit&1 == 1 {
					*end = [4]float64{p.w.lo, q.w.lo, p.m.lo, q.m.lo}[bit]
				}
			}
			c, x, y := lo, a*w*v, b*m*n
			if x > 0 {
				c = max(lo, min(hi, -y/(2*x)))
				switch c {
				case lo:
					clipped[0]++
				case hi:
					clipped[1]++
				default:
					clipped[2]++
				}
			}
			want = max(want, a*(w*w+v*v)+b*(m*m+n*n)-2*x*c*c-2*y*c)
		}
		got := jointUpper(a, b, p, q, lo, hi)
		if math.IsNaN(want) {
			none++
			want, got = 0, map[bool]float64{true: 0, false: 1}[math.IsNaN(got)]
		}
		if math.Float64bits(got) != math.Float64bits(want) {
			t.Fatalf("a %v, b %v, cells %v and %v, cosines from %v to %v: %v, want %v", a, b, p, q, lo, hi, got, want)
		}
	}
	if none < 1000 || min(clipped[0], clipped[1], clipped[2]) < 1000 {
		t.Errorf("%d are NaN, and the cosine is %v times at either end and between: too few to show anything", none,
			clipped)
	}
}

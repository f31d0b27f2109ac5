package privacy

import (
	"fmt"
	"math"
	"testing"
)

// The values in this file were computed independently of this package (binomial distribution functions from an
// incomplete beta function).

func within(t *testing.T, what string, got, want, below, above float64) {
	t.Helper()
	if !(got >= want*(1-below) && got <= want*(1+above)) {
		t.Errorf("%s: got %.10g, want %.10g (relative %+.2e)", what, got, want, got/want-1)
	}
}

func TestGoldenMuFor(t *testing.T) {
	for _, q := range []struct{ epsilon, delta, want float64 }{
		{0.5, 1e-6, 0.1241061490}, {1, 1e-6, 0.2367043807}, {4, 1e-6, 0.8378587571},
		{1, 0.98e-6, 0.2364724103}, {1, 1e-9, 0.1819748073}, {1, 1e-12, 0.1524896512}, {2, 1e-5, 0.5015516892},
	} {
		got, err := MuFor(q.epsilon, q.delta)
		if err != nil {
			t.Fatal(err)
		}
		within(t, fmt.Sprintf("mu*(%v,%v)", q.epsilon, q.delta), got, q.want, 1e-9, 5e-10)
	}
}

// TestGoldenBruteForce pins the exact side of the cross-checks.
func TestGoldenBruteForce(t *testing.T) {
	one := func(n int, p, v, s float64) pair { return encodedPair(coins(n, p), v, s) }
	two := one(60, 0.5, 0.25, 0.5).times(one(100, 0.25, 0, 1))
	third := 1 / math.Sqrt(3)
	three := one(24, 0.5, 0, third).times(one(24, 0.5, 0, third)).times(one(24, 0.5, 0, third))
	mixed := one(40, 0.25, 0.5, 0.6).times(one(40, 0.25, 0.1, 0.8))
	for _, q := range []struct {
		name                   string
		a                      pair
		epsilon, there, andBck float64
	}{
		{"N=100 p=1/4 k=1", one(100, 0.25, 0, 1), 0.5, 2.837402737e-3, 9.172758524e-4},
		{"N=200 p=1/4", one(200, 0.25, 0.75, 2.5), 1, 2.726973076e-3, 9.092023331e-4},
		{"N=200 p=1/4, epsilon 0", one(200, 0.25, 0.75, 2.5), 0, 1.611853708e-1, 1.611853708e-1},
		{"N=60", one(60, 0.5, 0.3, 0.5), 0.25, 1.619970252e-3, 1.209710183e-3},
		{"N=24", one(24, 0.5, 0.5, 0.5), 0.25, 1.743900153e-2, 6.616570002e-3},
		{"two releases", two, 0.5, 5.225438143e-3, 2.931124269e-3},
		{"two releases", two, 1, 5.649789435e-5, 2.137447119e-6},
		{"D=3", three, 0.5, 2.132999238e-2, 3.339608940e-2},
		{"D=2", mixed, 0.5, 2.447078490e-2, 1.316334261e-2},
	} {
		within(t, q.name, q.a.hockeyStick(q.epsilon), q.there, 1e-8, 1e-8)
		within(t, q.name+" reversed", q.a.swapped().hockeyStick(q.epsilon), q.andBck, 1e-8, 1e-8)
	}
	for _, q := range []struct {
		n             int
		p, v, s, d, m float64
	}{{60, 0.5, 0.3, 0.5, 1e-5, 0.1325155895}, {200, 0.25, 0.75, 2.5, 1e-6, 0.4722765291},
		{1000, 0.1, 0.5, 1, 1e-9, 0.1244507685}, {5000, 0.5, 0.25, 0.5, 1e-12, 0.0141415464}} {
		within(t, fmt.Sprint("exact mu ", q), one(q.n, q.p, q.v, q.s).mu(q.d), q.m, 1e-7, 1e-7)
	}
	// Shuffle bounds of one coordinate, worse direction.
	for _, q := range []struct {
		n             int
		p, k          float64
		epsilon, want float64
	}{{100, 0.5, 1, 0.5, 5.698563e-4}, {100, 0.25, 1, 0.5, 2.837403e-3}, {1000, 0.5, 5, 1, 1.131486e-4},
		{4, 0.5, 1, 0, 0.375}} {
		a := one(q.n, q.p, 0, q.k)
		within(t, fmt.Sprint("delta ", q), math.Max(a.hockeyStick(q.epsilon), a.swapped().hockeyStick(q.epsilon)),
			q.want, 1e-6, 1e-6)
	}
}

// slopeFor returns the smallest slope, up to 1e-9, whose line has at most the given rise.
func slopeFor(s *scores, rise float64, window int) float64 {
	lo, hi := 0.1/s.bin.Sigma(), 10/s.bin.Sigma()
	for hi-lo > 1e-10*hi {
		mid := (lo + hi) / 2
		if worst, _ := s.excess(mid, window); worst <= rise {
			hi = mid
		} else {
			lo = mid
		}
	}
	return hi
}

// TestGoldenLines compares single lines. The reference also demands that the slope be at least that of the scores in
// the cell of the median, a check that the proof of scores.line shows to be needless; where it binds (the values marked
// false) ours may be smaller.
func TestGoldenLines(t *testing.T) {
	for _, q := range []struct {
		n    uint64
		p, d float64
		g    float64
		want [5]float64
		same [5]bool
		D    int
		mu   float64
	}{
		{3000, 0.5, 1e-9, 6.4, [5]float64{0.0390641942, 0.0373558997, 0.0365257681, 0.036517881, 0.036517881},
			[5]bool{true, true, true, false, false}, 5, 0.23621523},
		{500, 0.25, 1e-10, 1.5, [5]float64{0.151356259, 0.141573155, 0.131730089, 0.12209968, 0.115719825},
			[5]bool{true, true, true, true, true}, 1, 0.18597328},
		{1000, 0.1, 1e-9, 2.5, [5]float64{0.160403304, 0.151303425, 0.141581222, 0.131629555, 0.126380865},
			[5]bool{true, true, true, true, true}, 6, 0.34456584},
	} {
		bin, err := NewBinomial(q.n, q.p)
		if err != nil {
			t.Fatal(err)
		}
		s := newScores(bin, q.d, sabotage{})
		var ls []line
		for i, k := range []float64{0, 0.01, 0.03, 0.06, 0.12} {
			rise := k / bin.Sigma()
			got := slopeFor(s, rise, windowFor(q.g))
			below := 1e-6
			if !q.same[i] {
				below = 1
			}
			within(t, fmt.Sprintf("slope at rise %v/sigma, N=%d", k, q.n), got, q.want[i], below, 1e-6)
			ls = append(ls, line{math.Max(got, q.want[i]), rise})
		}
		// The reference bound, from its own lines and our allocation argument: equal shifts are the worst.
		e := envelope{blocks: []Block{{q.D, math.Inf(1)}}, lines: ls}
		within(t, fmt.Sprintf("mu of the reference's lines, N=%d", q.n),
			e.bound([]float64{q.g / math.Sqrt(float64(q.D))}), q.mu, 1e-4, 1e-3)
		// The search over slopes may only improve on it, and by no more than the coarse grid of rises costs.
		g, err := Certify(Release{Blocks: []Block{{q.D, math.Inf(1)}}, Shift: q.g, Noise: q.n, Bias: q.p,
			TailDelta: q.d})
		if err != nil {
			t.Fatal(err)
		}
		within(t, fmt.Sprintf("mu, N=%d", q.n), g.Mu, q.mu, 0.02, 1e-4)
	}
}

func TestGoldenMu(t *testing.T) {
	for _, q := range []struct {
		n          uint64
		d, g       float64
		D          int
		want, gain float64
	}{{2000, 1e-9, 0.7, 3, 0.03324335, 0.005}, {5500, 1e-11, 1.458, 55, 0.04181461, 0.01},
		{500, 1e-9, 2, 15, 0.20099849, 0.015}} {
		g, err := Certify(Release{Blocks: []Block{{q.D, math.Inf(1)}}, Shift: q.g, Noise: q.n, Bias: 0.5,
			TailDelta: q.d})
		if err != nil {
			t.Fatal(err)
		}
		within(t, fmt.Sprint("mu ", q), g.Mu, q.want, q.gain, 1e-4)
	}
}

// TestGoldenScale compares the largest scale for a budget, 2 % of delta given up in the tails. Ours may be larger than
// the reference's, which used a coarse grid of rises, but never above the exact Gaussian's.
func TestGoldenScale(t *testing.T) {
	for _, q := range []struct {
		n     uint64
		p     float64
		delta float64
		D, R  int
		want  float64
		gain  float64
	}{
		{12000, 0.5, 1e-6, 15, 1, 12.9099, 0.001},
		{12000, 0.5, 1e-9, 15, 1, 9.8755, 0.005},
		{12000, 0.5, 1e-12, 15, 1, 8.2321, 0.01},
		{18000, 0.25, 1e-6, 15, 1, 13.5145, 0.001},
		{3000, 0.5, 1e-6, 5, 1, 6.4084, 0.005},
		{3000, 0.5, 1e-6, 55, 1, 6.2498, 0.015},
		{3000, 0.5, 1e-6, 15, 8, 2.1892, 0.01},
	} {
		target, err := MuFor(1, 0.98*q.delta)
		if err != nil {
			t.Fatal(err)
		}
		target /= math.Sqrt(float64(q.R))
		c, err := NewCertifier(q.n, q.p, 0.02*q.delta/float64(q.R*q.D))
		if err != nil {
			t.Fatal(err)
		}
		got, err := c.LargestScale(1, []Block{{q.D, math.Inf(1)}}, target)
		if err != nil {
			t.Fatal(err)
		}
		within(t, fmt.Sprint("largest scale ", q), got, q.want, 1e-4, q.gain)
		if gauss := target * c.scores.bin.Sigma(); got >= gauss {
			t.Errorf("%v: scale %v above the Gaussian's %v", q, got, gauss)
		}
	}
}

// TestGoldenComposition covers two different releases of one record.
func TestGoldenComposition(t *testing.T) {
	budget, err := MuFor(1, 0.98e-6)
	if err != nil {
		t.Fatal(err)
	}
	c, err := NewCertifier(12000, 0.5, 1e-9)
	if err != nil {
		t.Fatal(err)
	}
	for _, q := range []struct {
		share, mu, g float64
		D            int
	}{{0.15, 0.091585371, 4.9768, 15}, {0.85, 0.218016790, 11.9154, 5}} {
		target := budget * math.Sqrt(q.share)
		within(t, "share", target, q.mu, 1e-8, 1e-8)
		got, err := c.LargestScale(1, []Block{{q.D, math.Inf(1)}}, target)
		if err != nil {
			t.Fatal(err)
		}
		within(t, fmt.Sprint("scale of share ", q.share), got, q.g, 1e-4, 2e-3)
	}
	one := func(n uint64, p, shift, want float64) Guarantee {
		g, err := Certify(Release{Blocks: []Block{{1, math.Inf(1)}}, Shift: shift, Noise: n, Bias: p, TailDelta: 1e-6})
		if err != nil {
			t.Fatal(err)
		}
		within(t, "mu", g.Mu, want, 0.02, 1e-4)
		return g
	}
	// The shift is slightly below 1, where the quantisation margin would widen the window.
	a, b := one(60, 0.5, 0.5, 0.17060387), one(100, 0.25, 1-1e-8, 0.33892110)
	all := Compose(a, b)
	within(t, "composed mu", all.Mu, math.Hypot(a.Mu, b.Mu), 1e-12, 1e-12)
	reference := Guarantee{Mu: 0.37943800, TailDelta: 2e-6}
	within(t, "delta at 0.5", reference.Delta(0.5), 2.109496e-2, 1e-4, 1e-4)
	within(t, "delta at 1", reference.Delta(1), 8.072271e-4, 1e-4, 1e-4)
}

package privacy

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"testing"
)

// long reports whether the large sweeps run: set RIFFLE_LONG=1.
func long() bool { return os.Getenv("RIFFLE_LONG") != "" }

func times(n, factor int) int {
	if long() {
		return n * factor
	}
	return n
}

// tally counts what a sweep compared; violation describes the first time that the bound was below the exact value.
type tally struct {
	stopAtFirst           bool
	settings, comparisons int
	tightest              float64 // largest exact/bound
	violation             string
}

func (y *tally) compare(exact, bound float64, what func() string) {
	y.comparisons++
	if exact > 0 {
		y.tightest = math.Max(y.tightest, exact/bound)
	}
	if !(exact <= bound*(1+1e-9)+1e-15) && y.violation == "" {
		y.violation = fmt.Sprintf("exact %v > bound %v at %s", exact, bound, what())
	}
}

var epsilons = []float64{0, 0.1, 0.25, 0.5, 1, 1.5, 2, 3, 4}

func (y *tally) done() bool { return y.stopAtFirst && y.violation != "" }

// check compares a pair with a guarantee: all trade-offs at once through the exact mu (the same in both directions, as
// f(0,d) (x) G(mu) is its own inverse), which it returns, and hockey-sticks in both directions through Delta.
func (y *tally) check(a pair, g Guarantee, what func() string) float64 {
	exact := a.mu(g.TailDelta)
	y.compare(exact, g.Mu, what)
	for _, side := range []pair{a, a.swapped()} {
		for _, e := range epsilons {
			y.compare(side.hockeyStick(e), g.Delta(e), what)
		}
	}
	return exact
}

// randomNoise draws a small noise law, and a probability to give up that certifies some window in most cases.
func randomNoise(rng *rand.Rand, largest int) (n int, p, d float64) {
	n = 8 + rng.IntN(largest-7)
	p = []float64{0.5, 0.5, 0.25, 0.35, 0.1, 0.05, 0.75}[rng.IntN(7)]
	if rng.IntN(4) == 0 {
		p = 0.05 + 0.45*rng.Float64()
	}
	return n, p, math.Pow(10, -1.3-8*rng.Float64())
}

// sweepLines checks single lines of the envelope for what they claim: rise + slope*t bounds the exact mu for every
// offset and shift up to the window, for slopes from far too small (large rise) to generous.
func sweepLines(y *tally, broken sabotage, rng *rand.Rand) {
	for y.settings < times(500, 20) && !y.done() {
		n, p, d := randomNoise(rng, 200)
		noise := coins(n, p)
		bin, err := NewBinomial(uint64(n), p)
		if err != nil {
			panic(err)
		}
		s := newScores(bin, d, broken)
		window := 1 + rng.IntN(3)
		if !s.covers(window) {
			continue
		}
		var ls []line
		for _, m := range []float64{0.3, 0.9, 1, 1.05, 1.2, 1.6, 2.5} {
			l, _ := s.line(m/bin.Sigma(), window)
			if broken.noRise {
				l.rise = 0
			}
			ls = append(ls, l)
		}
		y.settings++
		for k := range 12 {
			v := []float64{0, 0.5, 1e-9, 1 - 1e-9}[k%4]
			if k >= 4 {
				v = rng.Float64()
			}
			t := float64(window) * rng.Float64()
			if k%3 == 0 {
				t = math.Max(1e-3, float64(rng.IntN(window+1))+[]float64{0, 1e-6, -1e-6}[k/3%3])
			}
			t = math.Min(t, float64(window))
			exact := encodedPair(noise, v, t).mu(d)
			for _, l := range ls {
				y.compare(exact, l.at(t), func() string {
					return fmt.Sprintf("line %+v of N=%d p=%v d=%v window %d: v=%v t=%v", l, n, p, d, window, v, t)
				})
			}
		}
	}
}

// sweepSingles checks whole certificates of one coordinate.
func sweepSingles(y *tally, broken sabotage, rng *rand.Rand) {
	for y.settings < times(700, 20) && !y.done() {
		n, p, d := randomNoise(rng, 300)
		c := brokenCertifier(n, p, d, broken)
		g := []float64{0.1, 0.5, 1, 2, 0.05 + 3*rng.Float64(), 0.05 + 3*rng.Float64()}[rng.IntN(6)]
		got, err := c.Certify([]Block{{Count: 1, Levels: math.Inf(1)}}, g)
		if err != nil {
			continue
		}
		noise := coins(n, p)
		y.settings++
		for k := range 6 {
			v, t := []float64{0, 0.5}[k%2], g
			if k >= 2 {
				v, t = rng.Float64(), g*math.Sqrt(rng.Float64())
			}
			y.check(encodedPair(noise, v, t), got, func() string {
				return fmt.Sprintf("N=%d p=%v d=%v g=%v: v=%v t=%v", n, p, d, g, v, t)
			})
		}
	}
}

func brokenCertifier(n int, p, d float64, broken sabotage) *Certifier {
	c, err := newCertifier(uint64(n), p, d, broken)
	if err != nil {
		panic(err)
	}
	return c
}

// part is one coordinate of a product: its noise, the l2 group (release) it belongs to and how far it may move.
type part struct {
	noise   []float64
	release int
	levels  float64
}

// search looks for the allocation, the offsets and the signs that make the exact mu of the product largest, subject to
// an l2 shift per release.
func search(y *tally, parts []part, shifts []float64, g Guarantee, steps int, rng *rand.Rand, what string) {
	type point struct{ v, t []float64 }
	normalise := func(x point) {
		for r, g := range shifts {
			sum := 0.0
			for i, p := range parts {
				if p.release == r {
					sum += x.t[i] * x.t[i]
				}
			}
			for i, p := range parts {
				if p.release == r {
					x.t[i] *= g / math.Sqrt(sum)
					x.t[i] = math.Max(-p.levels, math.Min(p.levels, x.t[i]))
				}
			}
		}
	}
	build := func(x point) pair {
		a := pair{[]float64{1}, []float64{1}}
		for i, p := range parts {
			a = a.times(encodedPair(p.noise, x.v[i]+math.Max(0, -x.t[i]), x.t[i]))
		}
		return a
	}
	best, bestMu := point{}, math.Inf(-1)
	for k := range steps {
		x := point{make([]float64, len(parts)), make([]float64, len(parts))}
		for i := range parts {
			switch {
			case k == 0: // equal spread, integers
				x.t[i] = 1
			case k <= len(parts): // one coordinate moves
				x.t[i] = 1e-9
				if i == k-1 {
					x.t[i] = 1
				}
			case k < steps/2 || best.t == nil:
				x.v[i], x.t[i] = rng.Float64(), rng.NormFloat64()
			default:
				x.v[i] = math.Abs(best.v[i] + 0.1*rng.NormFloat64())
				x.t[i] = best.t[i] + 0.2*rng.NormFloat64()
			}
		}
		normalise(x)
		describe := func() string { return fmt.Sprintf("%s: v=%v t=%v", what, x.v, x.t) }
		if m := y.check(build(x), g, describe); m > bestMu {
			best, bestMu = x, m
		}
	}
}

// sweepProducts checks certificates of two and three coordinates, with and without level caps, and of two or three
// releases of one record with different noise.
func sweepProducts(y *tally, broken sabotage, rng *rand.Rand) {
	shapes := [][][]Block{ // releases x blocks
		{{{2, math.Inf(1)}}},
		{{{1, 0.4}, {1, math.Inf(1)}}},
		{{{2, 0.6}}},
		{{{3, math.Inf(1)}}},
		{{{2, 0.5}, {1, 2}}},
		{{{1, math.Inf(1)}}, {{1, math.Inf(1)}}},
		{{{2, math.Inf(1)}}, {{1, math.Inf(1)}}},
		{{{1, math.Inf(1)}}, {{1, 0.7}}, {{1, math.Inf(1)}}},
	}
	for y.settings < times(220, 20) && !y.done() {
		shape := shapes[rng.IntN(len(shapes))]
		largest := 60
		if shape[0][0].Count == 3 || len(shape) == 3 || len(shape) == 2 && shape[0][0].Count == 2 ||
			len(shape[0]) == 2 && shape[0][0].Count == 2 {
			largest = 20
		}
		var parts []part
		var shifts []float64
		var gs []Guarantee
		what := ""
		ok := true
		for r, blocks := range shape {
			n, p, d := randomNoise(rng, largest)
			d = math.Min(0.03, math.Pow(d, 0.6)) // so that most small laws certify something
			g := 0.1 + 2*rng.Float64()
			got, err := brokenCertifier(n, p, d, broken).Certify(blocks, g)
			ok = ok && err == nil
			shifts, gs = append(shifts, g), append(gs, got)
			noise := coins(n, p)
			for _, b := range blocks {
				for range b.Count {
					parts = append(parts, part{noise, r, b.Levels})
				}
			}
			what += fmt.Sprintf("[N=%d p=%v d=%v blocks %v g=%v]", n, p, d, blocks, g)
		}
		if !ok {
			continue
		}
		y.settings++
		search(y, parts, shifts, Compose(gs...), 7, rng, what)
	}
}

// sweepBorder checks many coordinates that each move by one level: a count of zero on any of them excludes the moved
// record, an event whose exact probability delta must pay for at every epsilon.
func sweepBorder(y *tally, broken sabotage, rng *rand.Rand) {
	for y.settings < times(60, 20) && !y.done() {
		n, p, d := 9+rng.IntN(12), 0.3+0.2*rng.Float64(), 0.0
		noise := coins(n, p)
		d = math.Min(MaxTailDelta, 1.0001*(noise[0]+noise[1]))
		count := 10 + rng.IntN(50)
		got, err := brokenCertifier(n, p, d, broken).Certify([]Block{{count, 1}}, math.Sqrt(float64(count)))
		if err != nil {
			continue
		}
		y.settings++
		exact := -math.Expm1(float64(count) * math.Log1p(-noise[0]))
		y.compare(exact, got.Delta(1e6), func() string {
			return fmt.Sprintf("N=%d p=%v d=%v count=%d", n, p, d, count)
		})
	}
}

// TestNeverBelowBruteForce compares the certificate with exact divergences of small instances: real shifts, offsets,
// both directions, one to three coordinates with and without level caps, one to three releases, several biases,
// searched allocations.
func TestNeverBelowBruteForce(t *testing.T) {
	if testing.Short() { // nothing of it runs at the same time as anything else
		t.Skip("without a second goroutine")
	}
	total := 0
	for name, sweep := range sweeps {
		t.Run(name, func(t *testing.T) {
			y := tally{}
			sweep(&y, sabotage{}, rand.New(rand.NewPCG(1, 2)))
			if y.violation != "" {
				t.Errorf("%s", y.violation)
			}
			t.Logf("%d settings, %d comparisons, tightest exact/bound %.8f", y.settings, y.comparisons, y.tightest)
			total += y.settings
		})
	}
	t.Logf("%d settings in all", total)
}

var sweeps = map[string]func(*tally, sabotage, *rand.Rand){"lines": sweepLines, "singles": sweepSingles,
	"products": sweepProducts, "border": sweepBorder}

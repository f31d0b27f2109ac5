package privacy

import (
	"errors"
	"math"
	"testing"

	"pgregory.net/rapid"

	_ "github.com/riffle-dp/riffle/internal/testing/fixedseed"
)

func TestCertifyRefuses(t *testing.T) {
	fine := Release{Name: "sum", Blocks: []Block{{Count: 3, Levels: 4}}, Shift: 2, Noise: 2000, Bias: 0.5,
		TailDelta: 1e-9}
	if _, err := Certify(fine); err != nil {
		t.Fatal(err)
	}
	nan, inf := math.NaN(), math.Inf(1)
	for name, change := range map[string]func(*Release){
		"no blocks":         func(r *Release) { r.Blocks = nil },
		"empty block":       func(r *Release) { r.Blocks = []Block{{0, 1}} },
		"negative count":    func(r *Release) { r.Blocks = []Block{{-1, 1}} },
		"count overflow":    func(r *Release) { r.Blocks = []Block{{1 << 30, 1}, {1 << 30, 1}} },
		"zero levels":       func(r *Release) { r.Blocks = []Block{{1, 0}} },
		"NaN levels":        func(r *Release) { r.Blocks = []Block{{1, nan}} },
		"zero shift":        func(r *Release) { r.Shift = 0 },
		"negative shift":    func(r *Release) { r.Shift = -1 },
		"NaN shift":         func(r *Release) { r.Shift = nan },
		"infinite shift":    func(r *Release) { r.Shift = inf },
		"no noise":          func(r *Release) { r.Noise = 0 },
		"bias 0":            func(r *Release) { r.Bias = 0 },
		"bias 1":            func(r *Release) { r.Bias = 1 },
		"NaN bias":          func(r *Release) { r.Bias = nan },
		"no tail":           func(r *Release) { r.TailDelta = 0 },
		"negative tail":     func(r *Release) { r.TailDelta = -1e-9 },
		"vanishing tail":    func(r *Release) { r.TailDelta = 1e-60 },
		"NaN tail":          func(r *Release) { r.TailDelta = nan },
		"tail of a quarter": func(r *Release) { r.TailDelta = 0.25 },
	} {
		r := fine
		change(&r)
		if g, err := Certify(r); !errors.Is(err, ErrRelease) || g != NoGuarantee() {
			t.Errorf("%s: %+v, %v", name, g, err)
		}
	}
	for name, change := range map[string]func(*Release){
		"wider than the noise": func(r *Release) { r.Shift, r.Blocks = 1500, []Block{{3, inf}} },
		"two noise bits":       func(r *Release) { r.Noise = 2 },
		"huge shift":           func(r *Release) { r.Shift, r.Blocks = 1e300, []Block{{3, inf}} },
	} {
		r := fine
		change(&r)
		if g, err := Certify(r); !errors.Is(err, ErrUncertified) || g != NoGuarantee() {
			t.Errorf("%s: %+v, %v", name, g, err)
		}
	}
}

func drawRelease(t *rapid.T) Release {
	return Release{
		Blocks: rapid.SliceOfN(rapid.Custom(func(t *rapid.T) Block {
			b := Block{rapid.IntRange(1, 20).Draw(t, "count"), math.Inf(1)}
			if rapid.Bool().Draw(t, "capped") {
				b.Levels = rapid.Float64Range(0.05, 6).Draw(t, "levels")
			}
			return b
		}), 1, 4).Draw(t, "blocks"),
		Shift:     rapid.Float64Range(0.02, 8).Draw(t, "shift"),
		Noise:     uint64(math.Pow(10, rapid.Float64Range(2.5, 4.5).Draw(t, "log noise"))),
		Bias:      rapid.Float64Range(0.05, 0.95).Draw(t, "bias"),
		TailDelta: math.Pow(10, -rapid.Float64Range(3, 15).Draw(t, "-log tail")),
	}
}

// mu returns +Inf for what is not certified.
func mu(t interface{ Fatal(...any) }, r Release) float64 {
	g, err := Certify(r)
	if err != nil && !errors.Is(err, ErrUncertified) {
		t.Fatal(err)
	}
	return g.Mu
}

// leastMu is a lower bound on every certificate that adds up what single coordinates reveal, from total variations
// alone.
//
// A guarantee (d, mu) of one coordinate bounds its total variation by d + (1-d)(2 Phi(mu/2) - 1). A shift t of Gaussian
// noise with deviation sigma has total variation 2 Phi(t/(2 sigma)) - 1, and that of rounded binomial noise falls short
// of it by the share short at most. So mu >= m with
//
//	2 Phi(m/2) - 1 = ((1-short)(2 Phi(t/(2 sigma)) - 1) - d)/(1-d),
//
// to first order m = (1-short) t/sigma - sqrt(2 pi) d.
//
// What is given up counts in full: where d is not small beside the total variation, no share of the Gaussian's mu is a
// bound. In the case of one coordinate, t/sigma = 0.0058 and d = 1e-3, it is more than a third of it.
func leastMu(r Release) float64 {
	// From 316 noise bits of bias 0.05 on, where sigma^2 is 15, the exact total variation falls short of the Gaussian's
	// by 0.65 % at most (10 000 draws): by about 1/(8 sigma^2) where the binomial's mean lies between two whole
	// numbers.
	const short = 0.01
	sigma := math.Sqrt(float64(r.Noise) * r.Bias * (1 - r.Bias))
	t, _ := moves(r.Blocks, r.Shift)
	square := 0.0
	for i, b := range r.Blocks {
		variation := (1-short)*math.Erf(t[i]/(2*math.Sqrt2*sigma)) - r.TailDelta
		if m := 2 * math.Sqrt2 * math.Erfinv(math.Max(0, variation)/(1-r.TailDelta)); m > 0 {
			square += float64(b.Count) * m * m
		}
	}
	return math.Sqrt(square)
}

// TestCertificateIsMonotone: no certificate is below what must be true; more shift, looser levels, more coordinates
// never help; more noise and more tail never hurt. The tolerance is that of the search over slopes; along N also that
// of a bound which is not exactly tight (the true divergence is monotone, its bound nearly).
func TestCertificateIsMonotone(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := drawRelease(t)
		base := mu(t, r)
		if math.IsInf(base, 1) {
			return
		}
		if least := leastMu(r); base < least {
			t.Fatalf("mu %v below %v, the least that can be true", base, least)
		}
		const tolerance = 1e-6
		worse := r
		worse.Shift *= 1 + rapid.Float64Range(0, 0.5).Draw(t, "more shift")
		if m := mu(t, worse); m < base*(1-tolerance) {
			t.Fatalf("shift %v: mu %v; shift %v: mu %v", r.Shift, base, worse.Shift, m)
		}
		worse = r
		worse.Blocks = append([]Block{{1, math.Inf(1)}}, r.Blocks...)
		if m := mu(t, worse); m < base*(1-tolerance) {
			t.Fatalf("one coordinate more: mu %v from %v", m, base)
		}
		worse = r
		worse.Blocks = append([]Block(nil), r.Blocks...)
		worse.Blocks[0].Levels *= 1.3
		if m := mu(t, worse); m < base*(1-tolerance) {
			t.Fatalf("looser levels: mu %v from %v", m, base)
		}
		better := r
		better.TailDelta = math.Min(MaxTailDelta, 2*r.TailDelta)
		if m := mu(t, better); m > base*(1+tolerance) {
			t.Fatalf("twice the tail: mu %v from %v", m, base)
		}
		better = r
		better.Noise *= 2
		if m := mu(t, better); m > base {
			t.Fatalf("twice the noise: mu %v from %v", m, base)
		}
		same := r
		same.Bias = 1 - r.Bias
		if m := mu(t, same); math.Abs(m/base-1) > 2e-6 {
			t.Fatalf("bias %v: mu %v, bias %v: mu %v", r.Bias, base, same.Bias, m)
		}
		split := r
		split.Blocks = nil
		for _, b := range r.Blocks {
			for range b.Count {
				split.Blocks = append([]Block{{1, b.Levels}}, split.Blocks...)
			}
		}
		if m := mu(t, split); math.Abs(m/base-1) > 2e-6 {
			t.Fatalf("block by block: mu %v, coordinate by coordinate: %v", base, m)
		}
	})
}

// TestMovesAreTheWorstAllocation: no allowed allocation exceeds the sum at the equal-as-allowed one, for random concave
// envelopes; and the bound agrees with its Lagrangian dual, the form in which the certificate was first published, from
// which it differs only by the dual's grid.
func TestMovesAreTheWorstAllocation(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := drawRelease(t)
		e := envelope{blocks: r.Blocks, lines: rapid.SliceOfN(rapid.Custom(func(t *rapid.T) line {
			return line{rapid.Float64Range(0.01, 1).Draw(t, "slope"), rapid.Float64Range(0, 1).Draw(t, "rise")}
		}), 1, 5).Draw(t, "lines")}
		worst, largest := moves(r.Blocks, r.Shift)
		bound := e.bound(worst)
		u := func(t float64) float64 {
			v := math.Inf(1)
			for _, l := range e.lines {
				v = math.Min(v, l.at(t))
			}
			return v
		}
		used := 0.0
		for i, b := range r.Blocks {
			used += float64(b.Count) * worst[i] * worst[i]
			if worst[i] > largest {
				t.Fatalf("%v: block %d moves %v, at most %v is possible", r, i, worst[i], largest)
			}
		}
		if used > r.Shift*r.Shift*(1+1e-9) {
			t.Fatalf("%v: moves %v use %v of %v", r, worst, used, r.Shift*r.Shift)
		}
		left, sum := r.Shift*r.Shift, 0.0
		for _, b := range r.Blocks {
			for range b.Count {
				// Shares are drawn from what is left, so that some allocations are very unequal.
				x := math.Min(math.Min(b.Levels, r.Shift), math.Sqrt(left)*rapid.Float64Range(0, 1).Draw(t, "share"))
				left = math.Max(0, left-x*x)
				sum += u(x) * u(x)
			}
		}
		if math.Sqrt(sum) > bound*(1+1e-9) {
			t.Fatalf("an allocation reaches %v, the bound is %v", math.Sqrt(sum), bound)
		}
		dual := math.Inf(1)
		for i := 0; i <= 400; i++ {
			lambda := 2 * float64(i) / 400 * 2
			total := lambda * r.Shift * r.Shift
			for _, b := range r.Blocks {
				top := 0.0
				limit := math.Min(r.Shift, math.Min(b.Levels+quantisation, math.Ceil(b.Levels)))
				for k := 0; k <= 200; k++ {
					x := limit * float64(k) / 200
					top = math.Max(top, u(x)*u(x)-lambda*x*x)
				}
				total += float64(b.Count) * top
			}
			dual = math.Min(dual, total)
		}
		if dual < bound*bound*(1-2e-2) { // the inner maximum is on a grid, too
			t.Fatalf("dual %v below the bound %v", dual, bound*bound)
		}
	})
}

// TestLargestScaleIsLargest: the returned scale certifies, and either hardly more would not, or one more cell would
// have to be covered. The certificate is not quite monotone where a level is added, so a scale a few per cent above the
// returned one may qualify too.
func TestLargestScaleIsLargest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := drawRelease(t)
		c, err := NewCertifier(r.Noise, r.Bias, r.TailDelta)
		if err != nil {
			t.Fatal(err)
		}
		diameter := rapid.Float64Range(0.1, 3).Draw(t, "diameter")
		target := rapid.Float64Range(0.02, 1.2).Draw(t, "mu")
		s, err := c.LargestScale(diameter, r.Blocks, target)
		if err != nil {
			if !errors.Is(err, ErrUncertified) {
				t.Fatal(err)
			}
			s = 0
		} else if g, err := c.Certify(scaled(r.Blocks, s), diameter*s); err != nil || g.Mu > target {
			t.Fatalf("scale %v: %+v, %v, want mu <= %v", s, g, err, target)
		}
		for _, more := range []float64{1.2, 1.5, 3} {
			up := math.Max(s, 1e-3) * more
			if g, err := c.Certify(scaled(r.Blocks, up), diameter*up); err == nil && g.Mu <= target {
				t.Fatalf("scale %v returned, but %v has mu %v <= %v", s, up, g.Mu, target)
			}
		}
	})
}

// TestLargestScaleReachesFar: the largest scale is found where its window is far from the first guess, and where lines
// that suit the first guess certify nothing.
func TestLargestScaleReachesFar(t *testing.T) {
	for name, q := range map[string]struct {
		noise            uint64
		bias, tail       float64
		blocks           []Block
		diameter, target float64
	}{
		"a range far below the diameter": {22759, 0.6, 1e-13, []Block{{1, 0.052}}, 3, 1.158},
		"hardly noise enough":            {697, 0.95, 3e-14, []Block{{5, math.Inf(1)}}, 1, 1},
	} {
		c, err := NewCertifier(q.noise, q.bias, q.tail)
		if err != nil {
			t.Fatal(err)
		}
		s, err := c.LargestScale(q.diameter, q.blocks, q.target)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if g, err := c.Certify(scaled(q.blocks, 1.1*s), q.diameter*1.1*s); err == nil && g.Mu <= q.target {
			t.Errorf("%s: scale %v, but a tenth more has mu %v, at most %v is asked", name, s, g.Mu, q.target)
		}
	}
}

func TestLargestScaleRefuses(t *testing.T) {
	c, err := NewCertifier(2000, 0.5, 1e-9)
	if err != nil {
		t.Fatal(err)
	}
	blocks := []Block{{3, 1}}
	for _, q := range []struct {
		diameter, mu float64
		blocks       []Block
		want         error
	}{
		{0, 0.2, blocks, ErrRelease}, {math.NaN(), 0.2, blocks, ErrRelease}, {math.Inf(1), 0.2, blocks, ErrRelease},
		{1, 0.2, nil, ErrRelease},
		{1, 0, blocks, ErrTarget}, {1, math.NaN(), blocks, ErrTarget}, {1, math.Inf(1), blocks, ErrTarget},
		{1, 1e-14, blocks, ErrUncertified},
	} {
		if s, err := c.LargestScale(q.diameter, q.blocks, q.mu); !errors.Is(err, q.want) || s != 0 {
			t.Errorf("%+v: %v, %v", q, s, err)
		}
	}
}

// TestExtremes runs the corners of the range that plans may ask for: finite or refused, never NaN, never below the
// Gaussian.
func TestExtremes(t *testing.T) {
	if testing.Short() { // nothing of it runs at the same time as anything else
		t.Skip("without a second goroutine")
	}
	for _, n := range []uint64{50, 51, 333, 1e4, 1e6, 1e9} {
		for _, p := range []float64{0.05, 0.25, 0.5} {
			for _, d := range []float64{1e-3, 1e-9, 1e-20, 1e-40} {
				if n == 1e9 && (p != 0.5 || d != 1e-9) && !long() {
					continue
				}
				c, err := NewCertifier(n, p, d)
				if err != nil {
					t.Fatal(err)
				}
				sigma := c.scores.bin.Sigma()
				for _, g := range []float64{1e-6, 0.1, 1, sigma / 10, sigma, 5 * sigma} {
					got, err := c.Certify([]Block{{15, math.Inf(1)}}, g)
					if err != nil {
						if !errors.Is(err, ErrUncertified) || got != NoGuarantee() {
							t.Errorf("N=%d p=%v d=%v g=%v: %+v, %v", n, p, d, g, got, err)
						}
						continue
					}
					// A large tail probability may hide part of a small shift; 1e-9 and less may not.
					if got.Mu > 60 || d <= 1e-9 && got.Mu < g/sigma*(1-1e-3) && g > 0.01 {
						t.Errorf("N=%d p=%v d=%v g=%v: mu %v, Gaussian %v", n, p, d, g, got.Mu, g/sigma)
					}
				}
			}
		}
	}
	// More noise bits than any table count as MaxNoise of them.
	if g, err := Certify(Release{Blocks: []Block{{1, 1}}, Shift: 1, Noise: math.MaxUint64, Bias: 0.5,
		TailDelta: 1e-9}); err != nil || g.Mu > 1e-4 {
		t.Errorf("%+v, %v", g, err)
	}
}

func FuzzCertify(f *testing.F) {
	f.Add(5, 1.0, 2.0, uint64(2000), 0.5, 1e-9)
	f.Add(1, math.Inf(1), 1e300, uint64(50), 0.05, 1e-3)
	f.Fuzz(func(t *testing.T, count int, levels, shift float64, noise uint64, bias, tail float64) {
		if noise > 1e6 {
			noise %= 1e6
		}
		g, err := Certify(Release{Blocks: []Block{{count, levels}, {1, levels / 3}}, Shift: shift, Noise: noise,
			Bias: bias, TailDelta: tail})
		if err != nil {
			if g != NoGuarantee() || !errors.Is(err, ErrRelease) && !errors.Is(err, ErrUncertified) {
				t.Errorf("%+v, %v", g, err)
			}
			return
		}
		reach := math.Min(shift, math.Max(levels, math.Min(shift, levels)))
		if !(g.Mu > 0) || math.IsInf(g.Mu, 1) || !(g.TailDelta >= tail) || g.Mu < 0.1*reach/math.Sqrt(float64(noise)) {
			t.Errorf("%+v for shift %v, levels %v, noise %v", g, shift, levels, noise)
		}
	})
}

// TestQuantisedFractionsAreCharged: two values that differ by far less than a quantum of the rounding fraction can be
// quantised to neighbouring multiples of 2^-32. The certificate for their distance must cover the distance of what is
// really sent, whether the shift or a coordinate's own range is what bounds it.
func TestQuantisedFractionsAreCharged(t *testing.T) {
	for _, r := range []Release{{Blocks: []Block{{1, 4}}, Shift: 1e-13}, {Blocks: []Block{{1, 1e-13}}, Shift: 4}} {
		r.Noise, r.Bias, r.TailDelta = 200, 0.5, 1e-30
		g, err := Certify(r)
		if err != nil {
			t.Fatal(err)
		}
		if exact := encodedPair(coins(200, 0.5), 0.25, 0x1p-32).mu(1e-30); !(exact > 1e-11 && exact <= g.Mu) {
			t.Errorf("%+v: exact mu %v of one quantum, certified %v", r, exact, g.Mu)
		}
	}
}

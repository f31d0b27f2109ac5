package calibrate

import (
	"errors"
	"math"
	"strings"
	"testing"

	"pgregory.net/rapid"

	_ "github.com/riffle-dp/riffle/internal/testing/fixedseed"
	"github.com/riffle-dp/riffle/pkg/privacy"
	"github.com/riffle-dp/riffle/pkg/protocol"
)

// unitVector is a statistic of d coordinates in [-1/2, 1/2] with diameter 1, as a gradient is at theta = 0.
func unitVector(d int) privacy.Vector {
	s := privacy.Vector{Name: "vector", Diameter: 1}
	for range d {
		s.Lower, s.Upper = append(s.Lower, -0.5), append(s.Upper, 0.5)
	}
	return s
}

// complete divides the budget evenly and searches noise bits of one half, where a test says nothing else.
func complete(r Request) Request {
	if r.Shares == nil {
		r.Shares = privacy.Even(len(r.Releases))
	}
	if r.Biases == nil {
		r.Biases = []protocol.Bias{protocol.BiasHalf}
	}
	return r
}

func repeated(s privacy.Vector, n int) []privacy.Vector {
	var all []privacy.Vector
	for range n {
		all = append(all, s)
	}
	return all
}

// The message counts that exploratory work reached with the same certificate must be reached here.
func TestSolveMessageCounts(t *testing.T) {
	for _, c := range []struct {
		dim, releases, cohort int
		ratio                 float64
		most                  int
	}{
		{15, 1, 2000, 2, 9},
		{15, 1, 2000, 1.2, 19},
		{5, 32, 2000, 2, 4},
		{5, 32, 2000, 1.2, 9},
	} {
		p, err := Bits(complete(Request{
			Epsilon: 1, Delta: 1e-6, Cohort: c.cohort, MinCohort: c.cohort,
			Releases:      repeated(unitVector(c.dim), c.releases),
			VarianceRatio: c.ratio, Biases: []protocol.Bias{protocol.BiasHalf, protocol.BiasQuarter},
		}))
		if err != nil {
			t.Fatal(err)
		}
		if got := p.Releases[0].Messages / c.dim; got > c.most {
			t.Errorf("%+v: %d messages per coordinate", c, got)
		}
		for _, r := range p.Releases {
			if r.VarianceRatio > c.ratio {
				t.Errorf("%+v: variance ratio %v", c, r.VarianceRatio)
			}
		}
		// Where one message fewer is worth a smaller scale, some of the budget stays unused, and the solution says so.
		if !(p.Epsilon <= 1 && p.Epsilon > 0.9) || p.Epsilon < 0.98 && p.Unused < 0.01 {
			t.Errorf("%+v: epsilon %v of 1, unused %v", c, p.Epsilon, p.Unused)
		}
	}
}

// For any request, a solution's own certificate is within the target, its messages are its encodings', it meets what
// was asked, and honest noise alone counts.
func TestSolutionsKeepTheirPromise(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		n := rapid.IntRange(50, 3000).Draw(rt, "cohort")
		r := Request{
			Epsilon: rapid.Float64Range(0.2, 4).Draw(rt, "epsilon"),
			Delta:   math.Pow(10, -rapid.Float64Range(4, 9).Draw(rt, "-log10 delta")),
			Cohort:  n, MinCohort: n - n/rapid.IntRange(5, 50).Draw(rt, "drop-out"),
			MaxDishonest: n / rapid.IntRange(5, 50).Draw(rt, "dishonest"),
			ShiftOnly:    rapid.Bool().Draw(rt, "shift only"),
		}
		if rapid.Bool().Draw(rt, "capped") {
			r.MaxShift = rapid.Float64Range(2, 40).Draw(rt, "cap")
		}
		if rapid.Bool().Draw(rt, "two biases") {
			r.Biases = []protocol.Bias{protocol.BiasHalf, protocol.BiasQuarter}
		}
		switch rapid.IntRange(0, 2).Draw(rt, "budget") {
		case 0:
			r.VarianceRatio = rapid.Float64Range(1.3, 6).Draw(rt, "ratio")
		case 1:
			r.MaxMessages = rapid.IntRange(20, 500).Draw(rt, "messages")
		case 2:
			r.VarianceRatio, r.MaxMessages = rapid.Float64Range(1.3, 6).Draw(rt, "ratio"),
				rapid.IntRange(20, 500).Draw(rt, "messages")
		}
		for range rapid.IntRange(1, 3).Draw(rt, "releases") {
			s := unitVector(rapid.IntRange(1, 20).Draw(rt, "dim"))
			s.Diameter = rapid.Float64Range(1, 3).Draw(rt, "diameter")
			s.Upper[0] = rapid.Float64Range(0.1, 1).Draw(rt, "another range")
			r.Releases = append(r.Releases, s)
			r.Shares = append(r.Shares, rapid.Float64Range(0.1, 1).Draw(rt, "share"))
		}
		p, err := Bits(complete(r))
		var infeasible *Infeasible
		if errors.As(err, &infeasible) {
			return
		}
		if err != nil {
			rt.Fatal(err)
		}
		var encodings []protocol.Encoding
		messages := 0
		for i, rel := range p.Releases {
			encodings = append(encodings, rel.Encoding)
			messages += rel.Encoding.Messages()
			if r.VarianceRatio > 0 && rel.VarianceRatio > r.VarianceRatio*(1+1e-9) && rel.Limit != LimitShift {
				rt.Fatalf("release %d: variance ratio %v, asked for %v", i, rel.VarianceRatio, r.VarianceRatio)
			}
			if v := rel.Encoding.Variance(uint64(n), 0)[0]; math.Abs(v/(rel.Deviation*rel.Deviation)-1) > 1e-9 {
				rt.Fatalf("release %d: predicted variance %v, the encoding has %v", i, rel.Deviation*rel.Deviation, v)
			}
			if r.MaxShift > 0 && rel.Encoding.Scale*r.Releases[i].Diameter > r.MaxShift {
				rt.Fatalf("release %d: shift %v above the cap %v",
					i, rel.Encoding.Scale*r.Releases[i].Diameter, r.MaxShift)
			}
			if rel.Encoding.Scale*r.Releases[i].Diameter > rel.Shift {
				rt.Fatalf("release %d: shift %v is less than diameter times scale", i, rel.Shift)
			}
			// Scales are rounded on their way into announcements: none may be so close to where a level is added that
			// this adds one.
			e := rel.Encoding
			nudged, err := privacy.EncodingAt(r.Releases[i], e.Scale*(1+5e-10), e.NoiseBits, e.Bias)
			if err != nil || nudged.Messages() != rel.Messages {
				rt.Fatalf("release %d: %d messages, a hair's breadth above %d, %v",
					i, rel.Messages, nudged.Messages(), err)
			}
			for j, c := range rel.Encoding.Coordinates {
				if c.Offset > r.Releases[i].Lower[j] ||
					c.Offset+float64(c.Levels)/rel.Encoding.Scale < r.Releases[i].Upper[j]*(1-1e-12) {
					rt.Fatalf("release %d: coordinate %d does not cover its range", i, j)
				}
			}
		}
		if messages != p.Messages || r.MaxMessages > 0 && messages > r.MaxMessages {
			rt.Fatalf("the solution says %d messages, its encodings send %d, %d are allowed",
				p.Messages, messages, r.MaxMessages)
		}
		// Raising all budgets together never makes a solution worse.
		if start, err := newSolver(complete(r)); err == nil && n%5 == 0 { // a fifth of the cases, for time
			if first, err := start.solve(r, 0); err != nil {
				rt.Fatal(err)
			} else if r.VarianceRatio > 0 && p.Messages > first.Messages {
				rt.Fatalf("%d messages, by shares alone %d", p.Messages, first.Messages)
			} else if r.VarianceRatio == 0 && worstRatio(p) > worstRatio(first)*(1+1e-9) {
				rt.Fatalf("ratio %v, by shares alone %v", worstRatio(p), worstRatio(first))
			}
		}
		honest := r.MinCohort - r.MaxDishonest
		g, err := recompute(r.Releases, encodings, honest, p.TailDelta)
		if err != nil {
			rt.Fatal(err)
		}
		if eps := g.Epsilon(r.Delta); !(eps <= r.Epsilon) || !(p.Guarantee.Epsilon(r.Delta) <= r.Epsilon) ||
			p.Epsilon < eps*(1-1e-6) {
			rt.Fatalf("epsilon %v of %v, solved for %v", eps, r.Epsilon, p.Epsilon)
		}
		if r.ShiftOnly { // then the guarantee depends on nothing but the shifts
			var apart []privacy.Guarantee
			for i, rel := range p.Releases {
				one, err := privacy.Certify(privacy.Release{Blocks: shiftOnly(len(r.Releases[i].Lower)),
					Shift: rel.Shift,
					Noise: uint64(honest) * uint64(rel.Encoding.NoiseBits), Bias: rel.Encoding.Bias.Float(),
					TailDelta: p.TailDelta})
				if err != nil {
					rt.Fatal(err)
				}
				apart = append(apart, one)
			}
			if g := privacy.Compose(apart...); math.Abs(g.Mu/p.Guarantee.Mu-1) > 1e-6 {
				rt.Fatalf("mu %v by the shifts alone, solved for %v", g.Mu, p.Guarantee.Mu)
			}
		}
		// One honest device fewer, and the same encodings give less; with the whole cohort they give more.
		weaker, err := recompute(r.Releases, encodings, honest-1, p.TailDelta)
		if err == nil && !(weaker.Mu > g.Mu) {
			rt.Fatalf("mu %v with less noise, %v with more", weaker.Mu, g.Mu)
		}
		live, err := p.At(n)
		if err != nil || !(live.Mu < p.Guarantee.Mu) {
			rt.Fatalf("mu %v with the whole cohort, %v at the minimum, %v", live.Mu, p.Guarantee.Mu, err)
		}
		if same, err := p.At(honest); err != nil || math.Abs(same.Mu/p.Guarantee.Mu-1) > 1e-6 {
			rt.Fatalf("mu %v at the planned honest reports, solved for %v, %v", same.Mu, p.Guarantee.Mu, err)
		}
		// Either the budget is used, or the solution says how much of it is not.
		budget, _ := privacy.MuFor(r.Epsilon, (1-privacy.TailShare)*r.Delta)
		if math.Abs(1-p.Guarantee.Mu*p.Guarantee.Mu/(budget*budget)-p.Unused) > 1e-5 {
			rt.Fatalf("mu %v of %v, unused %v", p.Guarantee.Mu, budget, p.Unused)
		}
	})
}

// A range far wider than the diameter needs levels rather than noise: they stay within what can be certified.
func TestLevelsStayInRange(t *testing.T) {
	s := privacy.Vector{Name: "wide", Lower: []float64{0, 0}, Upper: []float64{1e5, 1}, Diameter: 1}
	p, err := Bits(complete(Request{Epsilon: 1, Delta: 1e-6, Cohort: 3000, MinCohort: 3000,
		Releases:  []privacy.Vector{s},
		NoiseBits: 2}))
	if err != nil {
		t.Fatal(err)
	}
	if levels := p.Releases[0].Encoding.Coordinates[0].Levels; levels > privacy.MaxLevels ||
		levels < privacy.MaxLevels-1 ||
		p.Releases[0].Limit != LimitShift {
		t.Errorf("%d levels, limited by %s", levels, p.Releases[0].Limit)
	}
}

// recompute is the guarantee of encoded releases from first principles, as a device computes it.
func recompute(vectors []privacy.Vector, encodings []protocol.Encoding, honest int,
	tailDelta float64) (privacy.Guarantee, error) {
	gs := make([]privacy.Guarantee, len(vectors))
	for i, v := range vectors {
		r, err := privacy.ReleaseOf(v, encodings[i], honest, tailDelta)
		if err != nil {
			return privacy.NoGuarantee(), err
		}
		if gs[i], err = privacy.Certify(r); err != nil {
			return privacy.NoGuarantee(), err
		}
	}
	return privacy.Compose(gs...), nil
}

func worstRatio(p Solution) (worst float64) {
	for _, r := range p.Releases {
		worst = math.Max(worst, r.VarianceRatio)
	}
	return worst
}

// No choice of noise bits, bias and scale within the budget has fewer messages at the ratio asked for, nor as many with
// less error.
func TestFewestMessagesAgainstAllChoices(t *testing.T) {
	for _, c := range []struct {
		n, dim int
		ratio  float64
	}{{300, 3, 1.5}, {300, 3, 3}, {2000, 5, 1.2}, {2000, 5, 2}, {20000, 4, 2}} {
		s := unitVector(c.dim)
		s.Upper[0] = 0.2 // two ranges
		biases := []protocol.Bias{protocol.BiasHalf, protocol.BiasQuarter}
		r := Request{Epsilon: 1, Delta: 1e-6, Cohort: c.n, MinCohort: c.n, Releases: []privacy.Vector{s},
			VarianceRatio: c.ratio, Biases: biases}
		p, err := Bits(complete(r))
		if err != nil {
			t.Fatal(err)
		}
		mu, err := privacy.MuFor(1, (1-privacy.TailShare)*1e-6)
		if err != nil {
			t.Fatal(err)
		}
		best, error2 := math.MaxInt, 0.0
		for bits := uint32(1); bits < 20; bits++ {
			for _, bias := range biases {
				certifier, err := privacy.NewCertifier(uint64(c.n)*uint64(bits), bias.Float(), p.TailDelta)
				if err != nil {
					t.Fatal(err)
				}
				most, err := certifier.LargestScale(s.Diameter, s.Blocks(), mu)
				if err != nil {
					continue
				}
				for level := 1.0; ; level++ {
					for _, width := range []float64{1, 0.7} {
						scale := math.Min(level/width*(1-1e-9), most)
						e, err := privacy.EncodingAt(s, scale, bits, bias)
						if err != nil {
							t.Fatal(err)
						}
						v := e.Variance(uint64(c.n), 0)[0]
						if v*mu*mu > c.ratio {
							continue
						}
						if m := e.Messages(); m < best || m == best && v < error2 {
							best, error2 = m, v
						}
					}
					if level > most {
						break
					}
				}
			}
		}
		got := p.Releases[0]
		if p.Messages != best || got.Deviation*got.Deviation > error2*(1+1e-4) {
			t.Errorf("%+v: %d messages with variance %v, all choices have %d with %v",
				c, p.Messages, got.Deviation*got.Deviation, best, error2)
		}
	}
}

// Large cohorts need few messages per person: their scale is what the messages allow, not what the budget would.
func TestLargeCohortsHaveASolution(t *testing.T) {
	last := 0.0
	for _, n := range []int{2000, 20000, 200000, 2000000} {
		p, err := Bits(complete(Request{Epsilon: 1, Delta: 1e-6, Cohort: n, MinCohort: n, MaxShift: 16,
			MaxMessages: 150,
			ShiftOnly:   true, Releases: []privacy.Vector{unitVector(15), unitVector(5)}, Shares: []float64{15, 85},
			Biases: []protocol.Bias{protocol.BiasHalf, protocol.BiasQuarter}}))
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("n=%d: %d messages, epsilon %.3f, unused %.3f, ratios %.2f %.2f",
			n, p.Messages, p.Epsilon, p.Unused, p.Releases[0].VarianceRatio, p.Releases[1].VarianceRatio)
		if p.Messages < 140 || p.Messages > 150 {
			t.Errorf("n=%d: %d messages of 150", n, p.Messages)
		}
		if d := p.Releases[1].Deviation; d < last {
			t.Errorf("n=%d: error %v of the sum, %v with fewer people", n, d, last)
		} else {
			last = d / 10 // per person it must fall, all the same
		}
	}
}

func TestInfeasibleNamesTheConstraint(t *testing.T) {
	base := Request{Epsilon: 1, Delta: 1e-6, Cohort: 2000, MinCohort: 2000, Releases: repeated(unitVector(15), 1)}
	for _, c := range []struct {
		constraint string
		change     func(*Request)
		remedy     string
	}{
		{"MaxMessages", func(r *Request) { r.MaxMessages, r.VarianceRatio = 60, 1.2 }, "or a variance ratio of"},
		{"MaxMessages", func(r *Request) { r.MaxMessages = 29 }, "allow 30 messages"},
		{"VarianceRatio", func(r *Request) { r.VarianceRatio = 1 }, "above 1"},
		{"VarianceRatio", func(r *Request) { r.VarianceRatio, r.NoiseBits = 1.0001, 0 }, "allow a ratio of 1.0"},
		{"MinCohort", func(r *Request) { r.MaxDishonest = 2000 }, "raise the minimum cohort"},
		{"Cohort", func(r *Request) { r.Cohort = 10 }, "lower the minimum cohort"},
		{"NoiseBits", func(r *Request) { r.Cohort, r.MinCohort, r.Delta, r.NoiseBits = 2, 2, 1e-9, 1 },
			"raise the minimum cohort"},
		{"VarianceRatio", func(r *Request) { r.MaxDishonest, r.VarianceRatio = 1000, 1.9 },
			"count on more honest reports"},
	} {
		r := base
		c.change(&r)
		_, err := Bits(complete(r))
		var infeasible *Infeasible
		if !errors.As(err, &infeasible) || infeasible.Constraint != c.constraint ||
			!strings.Contains(infeasible.Remedy, c.remedy) {
			t.Errorf("want %s with %q, got %v", c.constraint, c.remedy, err)
		}
	}
}

func TestRequestsOutOfRange(t *testing.T) {
	base := complete(Request{Epsilon: 1, Delta: 1e-6, Cohort: 500, MinCohort: 500,
		Releases: repeated(unitVector(3), 2)})
	for name, change := range map[string]func(*Request){
		"epsilon":       func(r *Request) { r.Epsilon = math.NaN() },
		"delta":         func(r *Request) { r.Delta = 0 },
		"shares":        func(r *Request) { r.Shares = []float64{1} },
		"zero share":    func(r *Request) { r.Shares = []float64{1, 0} },
		"no releases":   func(r *Request) { r.Releases = nil },
		"diameter":      func(r *Request) { r.Releases[1].Diameter = math.Inf(1) },
		"empty range":   func(r *Request) { r.Releases[1].Upper[0] = r.Releases[1].Lower[0] },
		"no biases":     func(r *Request) { r.Biases = nil },
		"no shares":     func(r *Request) { r.Shares = nil },
		"bounds length": func(r *Request) { r.Releases[0].Upper = r.Releases[0].Upper[:2] },
	} {
		r := base
		r.Releases = []privacy.Vector{unitVector(3), unitVector(3)}
		change(&r)
		if _, err := Bits(r); !errors.Is(err, privacy.ErrRequest) && !errors.Is(err, privacy.ErrTarget) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func BenchmarkSolvePracticalCohort(b *testing.B) {
	r := Request{Epsilon: 1, Delta: 1e-6, Cohort: 2700, MinCohort: 2700, MaxShift: 16,
		Releases: []privacy.Vector{unitVector(15), unitVector(5)}, Shares: []float64{15, 85}}
	for b.Loop() {
		if _, err := Bits(complete(r)); err != nil {
			b.Fatal(err)
		}
	}
}

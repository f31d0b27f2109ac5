package plan

import (
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/riffle-dp/riffle/pkg/glm/learner"
	"github.com/riffle-dp/riffle/pkg/glm/statistic"
	"github.com/riffle-dp/riffle/pkg/privacy"
)

// party is whose noise bits are in a sum.
type party int

const (
	person party = iota
	othersHonest
	dishonest
	shuffler
	analyzer
)

// bitsOf lists the noise bits of each party on a coordinate of a release, as the devices and servers add them.
func bitsOf(c Channel, cohort Cohort, r Release) map[party]int {
	b := int(r.NoiseBits)
	bits := map[party]int{person: b, othersHonest: b * int(cohort.Minimum-cohort.MaxDishonest-1),
		dishonest: b * int(cohort.MaxDishonest)}
	switch c {
	case Shuffle:
		bits[shuffler] = int(r.ShufflerNoise)
	case Shares:
		bits[shuffler], bits[analyzer] = int(r.ShufflerNoise), int(r.AnalyzerNoise)
	case Local: // what others add is on other people's values
		bits = map[party]int{person: b}
	case Central:
		bits = map[party]int{analyzer: int(r.AnalyzerNoise)}
	}
	return bits
}

// watchers is the table of the design: the observers that each channel protects from, in the order of Observers, and
// whose noise each of them knows.
var watchers = map[Channel][]struct {
	sees  string
	knows []party
}{
	Shuffle: {{"analyzer and the public", []party{dishonest, analyzer}},
		{"shuffler that follows the protocol and remembers its noise", []party{dishonest, shuffler}}},
	Shares: {{"analyzer", []party{dishonest, analyzer}}, {"shuffler", []party{dishonest, shuffler}},
		{"the public", []party{dishonest}}},
	Local:   {{"everybody", []party{othersHonest, dishonest, shuffler, analyzer}}},
	Central: {{"shuffler and the public", []party{dishonest, shuffler}}},
}

// law is the exact law of one coordinate's sum, less what the observer knows: a level rounded at random, and n fair
// bits. What is more than 7.5 deviations out, below 1e-13 together, is left out.
func law(level float64, n, size int) []float64 {
	out := make([]float64, size)
	low, fraction := math.Modf(level)
	reach := int(3.75*math.Sqrt(float64(n))) + 1
	for k := max(0, n/2-reach); k <= min(n, n/2+reach); k++ {
		a, _ := math.Lgamma(float64(n + 1))
		b, _ := math.Lgamma(float64(k + 1))
		c, _ := math.Lgamma(float64(n - k + 1))
		p := math.Exp(a - b - c - float64(n)*math.Ln2)
		out[int(low)+k] += p * (1 - fraction)
		out[int(low)+k+1] += p * fraction
	}
	return out
}

// hockeyStick is the exact delta at an epsilon between two views of independent coordinates, two each.
func hockeyStick(p, q [2][]float64, epsilon float64) float64 {
	sum, e := 0.0, math.Exp(epsilon)
	first := 0
	for first < len(p[1])-1 && p[1][first] == 0 {
		first++
	}
	last := len(p[1])
	for last > first && p[1][last-1] == 0 {
		last--
	}
	for i, a := range p[0] {
		if a == 0 {
			continue
		}
		for j := first; j < last; j++ {
			sum += max(0, a*p[1][j]-e*q[0][i]*q[1][j])
		}
	}
	return sum
}

// sharpest is the smallest epsilon, exactly to a hundredth, at which all pairs of records of one dimension are hidden
// at delta, where an observer does not know so many noise bits of each release.
func sharpest(t *testing.T, a *Announcement, unknown []int, delta float64) float64 {
	t.Helper()
	round, err := CheckRound(a)
	if err != nil {
		t.Fatal(err)
	}
	var views [][2][]float64
	for _, r := range []statistic.Record{{Null: true}, {Arm: []float64{1}, Reward: 1, Weight: 1},
		{Arm: []float64{1}, Weight: 1},
		{Arm: []float64{-1}, Reward: 1, Weight: 1}} {
		var view [2][]float64
		for i, s := range round.Statistics {
			v, err := s.Vector(nil, r)
			if err != nil {
				t.Fatal(err)
			}
			c := round.Encodings[i].Coordinates[0]
			level := math.Min(math.Max((v[0]-c.Offset)*round.Encodings[i].Scale, 0), float64(c.Levels))
			view[i] = law(level, unknown[i], unknown[i]+int(c.Levels)+2)
		}
		views = append(views, view)
	}
	epsilon := 0.0
	for _, p := range views {
		for _, q := range views {
			if hockeyStick(p, q, epsilon) <= delta {
				continue
			}
			hi := epsilon + 0.01
			for hockeyStick(p, q, hi) > delta {
				epsilon, hi = hi, 2*hi
			}
			for hi-epsilon > 0.01 {
				if mid := (epsilon + hi) / 2; hockeyStick(p, q, mid) > delta {
					epsilon = mid
				} else {
					hi = mid
				}
			}
			epsilon = hi
		}
	}
	return epsilon
}

// In one dimension every observer's view can be computed exactly. The bound on each holds, and is not far above: one
// that counted the observer's own noise, or other people's in the channel local, would be below.
func TestGuaranteeOfEveryObserverHoldsExactly(t *testing.T) {
	const delta = 1e-3 // larger than any deployment's, so that few noise bits certify something
	step := stepAt(t, learner.Config{Dimension: 1, Horizon: 5000}, 60, 0)
	for _, of := range every() {
		terms := termsOf(of)
		terms.Epsilon, terms.Delta, terms.DishonestReports, terms.VarianceRatio = 2, delta, 7, 1.3
		if of.Channel == Shuffle {
			terms.VarianceRatio, terms.MaxMessages = 0, 16
		}
		p, err := Propose(step, terms)
		if err != nil {
			t.Fatalf("%+v: %v", of, err)
		}
		a := p.Announced(step)
		if of.Channel == Shares && of.ServerNoise > 0 { // servers that differ
			for i := range a.Plan.Rounds[0].Releases {
				a.Plan.Rounds[0].Releases[i].ShufflerNoise *= 3
			}
		}
		observers, err := Observers(a, 0)
		if err != nil {
			t.Fatal(err)
		}
		worstTogether, worstAlone := 0.0, 0.0
		var bounds [2]float64 // the largest of protected observers, together and alone
		for k, w := range watchers[of.Channel] {
			o := observers[k]
			if o.Sees != w.sees {
				t.Fatalf("%+v: observer %q, the table has %q", of, o.Sees, w.sees)
			}
			for _, alone := range []bool{false, true} {
				unknown := make([]int, 2)
				for i, r := range a.Releases() {
					bits := bitsOf(of.Channel, a.Cohort, r)
					for _, known := range w.knows {
						delete(bits, known)
					}
					if alone {
						delete(bits, othersHonest)
					}
					for _, n := range bits {
						unknown[i] += n
					}
				}
				g := o.Together
				if alone {
					g = o.Alone
				}
				bound := g.Epsilon(delta)
				if protected := !(of.Channel == Shuffle && k == 1); protected {
					at := 0
					if alone {
						at = 1
					}
					bounds[at] = math.Max(bounds[at], bound)
				}
				if math.IsInf(bound, 1) {
					if (unknown[0] > 200 && unknown[1] > 200) || !alone && !of.NoDeviceNoise {
						t.Errorf("%+v: no bound on %q with %d noise bits", of, o.Sees, unknown)
					}
					// the second observer of shuffle is not one it protects from
					if !(of.Channel == Shuffle && k == 1) {
						if alone {
							worstAlone = bound
						} else {
							worstTogether = bound
						}
					}
					continue
				}
				exact := sharpest(t, a, unknown, delta) - 0.01
				if !(exact <= bound) || exact < 0.75*bound-0.02 {
					t.Errorf("%+v, %q, alone %v: exactly %v with %d bits, the bound is %v", of, o.Sees, alone, exact,
						unknown, bound)
				}
				if of.Channel == Shuffle && k == 1 {
					continue
				}
				if alone {
					worstAlone = max(worstAlone, exact)
				} else {
					worstTogether = max(worstTogether, exact)
				}
			}
		}
		together, err := Guarantee(a, 0)
		if err != nil {
			t.Fatal(err)
		}
		alone, err := Alone(a)
		if err != nil {
			t.Fatal(err)
		}
		if e, f := together.Epsilon(delta), alone.Epsilon(delta); e != bounds[0] || f != bounds[1] {
			t.Errorf("%+v: Guarantee and Alone give epsilon %v and %v, the worst observers' bounds are %v", of, e, f,
				bounds)
		}
		if e := together.Epsilon(delta); !(worstTogether <= e) || !(e <= 1.35*worstTogether+0.03) {
			t.Errorf("%+v: Guarantee gives epsilon %v, the worst observer has exactly %v", of, e, worstTogether)
		}
		if e := alone.Epsilon(delta); !(worstAlone <= e) || !(e <= 1.35*worstAlone+0.03) {
			t.Errorf("%+v: Alone gives epsilon %v, the worst observer has exactly %v", of, e, worstAlone)
		}
	}
}

func TestNoiseThatDoesNotProtectDoesNotCount(t *testing.T) {
	if testing.Short() { // nothing of it runs at the same time as anything else
		t.Skip("without a second goroutine")
	}
	step := stepAt(t, learner.Config{Dimension: 2, Horizon: 5000}, 500, 0.7)
	epsilon := func(a *Announcement) (together, alone float64, err error) {
		t.Helper()
		g, err := Guarantee(a, 0)
		if err != nil && g != privacy.NoGuarantee() {
			t.Error("an error came with a guarantee")
		}
		h, wrong := Alone(a)
		if wrong != nil {
			t.Error(wrong)
		}
		return g.Epsilon(1e-6), h.Epsilon(1e-6), err
	}
	propose := func(of Terms) *Announcement {
		t.Helper()
		p, err := Propose(step, termsOf(of))
		if err != nil {
			t.Fatal(err)
		}
		return p.Announced(step)
	}
	releases := func(a *Announcement) []Release { return a.Plan.Rounds[0].Releases }

	// The analyzer's own noise is none against the analyzer, and the shuffler has none in central and local.
	for _, c := range []struct {
		of     Terms
		change func(*Release)
	}{
		{Terms{Channel: Shuffle}, func(r *Release) { r.AnalyzerNoise = 1 << 20 }},
		{Terms{Channel: Local}, func(r *Release) { r.AnalyzerNoise, r.ShufflerNoise = 1<<20, 1<<20 }},
		{Terms{Channel: Central}, func(r *Release) { r.ShufflerNoise = 1 << 20 }},
		{Terms{Channel: Shares}, func(r *Release) { r.AnalyzerNoise = 1 << 20 }},
		{Terms{Channel: Shares}, func(r *Release) { r.ShufflerNoise = 1 << 20 }},
	} {
		a := propose(c.of)
		before, aloneBefore, _ := epsilon(a)
		for i := range releases(a) {
			c.change(&releases(a)[i])
		}
		if after, alone, err := epsilon(a); err != nil || after != before || alone != aloneBefore {
			t.Errorf("%+v with other noise: epsilon %v and alone %v, before %v and %v, %v", c.of, after, alone, before,
				aloneBefore, err)
		}
		// Where no honest device is left it does not replace them.
		a.Cohort.MaxDishonest = a.Cohort.Minimum
		if _, _, err := epsilon(a); (err == nil) != (c.of.Channel == Local || c.of.Channel == Central) {
			t.Errorf("%+v without an honest device: %v", c.of, err)
		}
	}

	// One release with noise of servers does not protect the other.
	a := propose(Terms{Channel: Shares, ServerNoise: 1})
	if _, alone, _ := epsilon(a); !(alone <= 1) {
		t.Errorf("alone %v", alone)
	}
	releases(a)[1].AnalyzerNoise = 0
	if together, alone, err := epsilon(a); err != nil || !(together <= 1) || !math.IsInf(alone, 1) {
		t.Errorf("noise of one server in one release: epsilon %v, alone %v, %v", together, alone, err)
	}
	a.Cohort.MaxDishonest = a.Cohort.Minimum
	if _, _, err := epsilon(a); !errors.Is(err, ErrPlan) {
		t.Errorf("nothing to count on in one release: %v", err)
	}

	// Not even where the person's own noise would be enough for a guarantee: a plan in which every report may be
	// dishonest promises nothing about the cohort, and what is left is Alone's to say.
	a = propose(Terms{Channel: Shares})
	for i := range releases(a) {
		releases(a)[i].NoiseBits, a.Encodings[i].NoiseBits = 4000, 4000
	}
	a.Cohort.MaxDishonest = a.Cohort.Minimum
	if _, alone, err := epsilon(a); math.IsInf(alone, 1) || err == nil ||
		!strings.Contains(err.Error(), "leaves no noise to count on") {
		t.Errorf("only the person's own noise: alone %v, %v", alone, err)
	}

	// With noise of servers in all releases, devices need not be counted on, and only the person's own counts.
	a = propose(Terms{Channel: Shares, ServerNoise: 1})
	a.Cohort.MaxDishonest = a.Cohort.Minimum
	if together, alone, err := epsilon(a); err != nil || together != alone {
		t.Errorf("no honest device: epsilon %v, alone %v, %v", together, alone, err)
	}

	// In local and central the cohort does not matter.
	for _, c := range []Channel{Local, Central} {
		a := propose(Terms{Channel: c})
		before, _, _ := epsilon(a)
		live, err := GuaranteeWith(a, 1_000_000)
		a.Cohort.MaxDishonest = a.Cohort.Minimum - 1
		after, alone, wrong := epsilon(a)
		if err != nil || wrong != nil || live.Epsilon(1e-6) != before || after != before || alone != before {
			t.Errorf("%s: epsilon %v, with a million %v, without honest others %v, alone %v", c, before,
				live.Epsilon(1e-6), after, alone)
		}
	}

	// More noise of a server than can be is refused, and does not wrap around.
	a = propose(Terms{Channel: Central})
	releases(a)[0].AnalyzerNoise = math.MaxUint64
	if _, err := Guarantee(a, 0); !errors.Is(err, ErrPlan) {
		t.Errorf("2^64 noise bits: %v", err)
	}
	a = propose(Terms{Channel: Shares})
	releases(a)[0].NoiseBits, a.Cohort.Minimum = math.MaxUint32, math.MaxUint32
	a.Encodings[0].NoiseBits = math.MaxUint32 - 100
	if _, err := Guarantee(a, 0); !errors.Is(err, ErrPlan) {
		t.Errorf("devices that send other noise than planned: %v", err)
	}
	// A channel that is not known protects from nobody.
	a = propose(Terms{Channel: Central})
	a.Plan.Channel = "radio"
	if _, err := Guarantee(a, 0); !errors.Is(err, ErrPlan) {
		t.Errorf("a channel that is not known: %v", err)
	}
}

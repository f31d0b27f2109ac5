package simulated_test

import (
	"encoding/binary"
	"errors"
	"iter"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"

	_ "github.com/riffle-dp/riffle/internal/testing/fixedseed"

	"github.com/riffle-dp/riffle/pkg/channel/simulated"
	"github.com/riffle-dp/riffle/pkg/protocol"
)

func newSource(label string, n int) *rand.ChaCha8 {
	var seed [32]byte
	binary.LittleEndian.PutUint64(seed[:8], uint64(n))
	copy(seed[8:], label)
	return rand.NewChaCha8(seed)
}

var (
	_ simulated.Channel = simulated.Exact{}
	_ simulated.Channel = simulated.Integer{}
	_ simulated.Channel = (*simulated.GaussianLocal)(nil)
	_ simulated.Channel = (*simulated.GaussianCentral)(nil)
)

// unitRanges are the ranges of reports with vectors of two entries and of one.
func unitRanges() []simulated.Range {
	return []simulated.Range{
		{Lower: []float64{-1, 0}, Upper: []float64{0.5, 1}, Diameter: math.Sqrt2, Share: 3},
		{Lower: []float64{-1}, Upper: []float64{1}, Diameter: 2, Share: 1},
	}
}

func all(t fataler, epsilon, delta float64) map[string]simulated.Channel {
	local, err := simulated.NewGaussianLocal(unitRanges(), epsilon, delta)
	if err != nil {
		t.Fatalf("%v", err)
	}
	central, err := simulated.NewGaussianCentral(unitRanges(), epsilon, delta)
	if err != nil {
		t.Fatalf("%v", err)
	}
	return map[string]simulated.Channel{
		"exact":            simulated.Exact{},
		"integer":          simulated.Integer{Encodings: twoStatistics(), MinCohort: 1},
		"gaussian local":   local,
		"gaussian central": central,
	}
}

type fataler interface{ Fatalf(string, ...any) }

// Every channel refuses what does not fit, and returns nothing with the error.
func TestChannelsRefuseWhatDoesNotFit(t *testing.T) {
	good := simulated.Report{{0, 0}, {0}}
	for name, c := range all(t, 1, 1e-6) {
		for what, bad := range map[string]simulated.Report{
			"no vectors":        {},
			"a vector missing":  {{0, 0}},
			"a vector too many": {{0, 0}, {0}, {0}},
			"too long":          {{0, 0}, {0, 0}},
			"too short":         {{0}, {0}},
			"NaN":               {{0, math.NaN()}, {0}},
			"infinite":          {{0, 0}, {math.Inf(-1)}},
		} {
			got, err := c.Aggregate(slices.Values([]simulated.Report{good, bad, good}), newSource("refuse", 0))
			if !errors.Is(err, simulated.ErrReport) || got != nil {
				t.Errorf("%s, %s: %v, %v; want ErrReport", name, what, got, err)
			}
		}
		if got, err := c.Aggregate(slices.Values([]simulated.Report(nil)), newSource("refuse", 0)); !errors.Is(err,
			simulated.ErrCohort) || got != nil {
			t.Errorf("%s, no reports: %v, %v; want ErrCohort", name, got, err)
		}
	}
	integer := simulated.Integer{Encodings: twoStatistics(), MinCohort: 3}
	if got, err := integer.Aggregate(slices.Values([]simulated.Report{good, good}),
		newSource("refuse", 0)); !errors.Is(err, simulated.ErrCohort) || got != nil {
		t.Errorf("two reports of at least three: %v, %v; want ErrCohort", got, err)
	}
	if _, err := integer.Aggregate(slices.Values([]simulated.Report{good, good, good}),
		newSource("refuse", 0)); err != nil {
		t.Errorf("three reports of at least three: %v", err)
	}
	for _, c := range []simulated.Integer{{}, {MinCohort: 1}, {Encodings: twoStatistics()},
		{Encodings: make([]protocol.Encoding, 2), MinCohort: 1},
		{Encodings: twoStatistics(), MinCohort: 1, ServerNoise: []uint64{1}},
		{Encodings: []protocol.Encoding{{Scale: 1, Coordinates: twoStatistics()[1].Coordinates}}, MinCohort: 1,
			ServerNoise: []uint64{1}}} {
		if got, err := c.Aggregate(slices.Values([]simulated.Report{good}), newSource("refuse", 0)); !errors.Is(err,
			simulated.ErrChannel) {
			t.Errorf("%+v: %v, %v; want ErrChannel", c, got, err)
		}
	}
	change := func(f func(*simulated.Range)) []simulated.Range {
		statistics := unitRanges()
		f(&statistics[1])
		return statistics
	}
	for name, c := range map[string]struct {
		statistics     []simulated.Range
		epsilon, delta float64
	}{
		"none":         {nil, 1, 1e-6},
		"epsilon 0":    {unitRanges(), 0, 0},
		"epsilon NaN":  {unitRanges(), math.NaN(), 1e-6},
		"delta 1":      {unitRanges(), 1, 1},
		"no share":     {change(func(s *simulated.Range) { s.Share = 0 }), 1, 1e-6},
		"share NaN":    {change(func(s *simulated.Range) { s.Share = math.NaN() }), 1, 1e-6},
		"no diameter":  {change(func(s *simulated.Range) { s.Diameter = 0 }), 1, 1e-6},
		"diameter Inf": {change(func(s *simulated.Range) { s.Diameter = math.Inf(1) }), 1, 1e-6},
		"no range":     {change(func(s *simulated.Range) { s.Lower, s.Upper = nil, nil }), 1, 1e-6},
		"half a range": {change(func(s *simulated.Range) { s.Upper = nil }), 1, 1e-6},
		"empty range":  {change(func(s *simulated.Range) { s.Lower[0] = 2 }), 1, 1e-6},
		"range NaN":    {change(func(s *simulated.Range) { s.Lower[0] = math.NaN() }), 1, 1e-6},
	} {
		if got, err := simulated.NewGaussianLocal(c.statistics, c.epsilon, c.delta); !errors.Is(err,
			simulated.ErrChannel) ||
			got != nil {
			t.Errorf("gaussian local, %s: %v, %v; want ErrChannel", name, got, err)
		}
		if got, err := simulated.NewGaussianCentral(c.statistics, c.epsilon, c.delta); !errors.Is(err,
			simulated.ErrChannel) ||
			got != nil {
			t.Errorf("gaussian central, %s: %v, %v; want ErrChannel", name, got, err)
		}
	}
}

// The generator's memory may be reused between reports, and is never written to; taking stops at the first bad report.
func TestReportsAreReadOnceAndLeftAlone(t *testing.T) {
	for name, c := range all(t, 1, 1e-6) {
		memory := simulated.Report{{0, 0}, {0}}
		taken := 0
		reused := iter.Seq[simulated.Report](func(yield func(simulated.Report) bool) {
			for i := range 10 {
				memory[0][0], memory[1][0] = -float64(i)/10, float64(i)/10
				taken++
				if !yield(memory) {
					return
				}
				if memory[0][0] != -float64(i)/10 || memory[1][0] != float64(i)/10 {
					t.Errorf("%s wrote into a report", name)
				}
			}
		})
		var copies []simulated.Report
		for report := range reused {
			copies = append(copies, simulated.Report{slices.Clone(report[0]), slices.Clone(report[1])})
		}
		a, err := c.Aggregate(reused, newSource("memory", 0))
		b, err2 := c.Aggregate(slices.Values(copies), newSource("memory", 0))
		if err != nil || err2 != nil {
			t.Fatal(name, err, err2)
		}
		for s := range a {
			if !slices.Equal(a[s].Sum, b[s].Sum) || a[s].Reports != 10 {
				t.Errorf("%s: %+v from reused memory, %+v from copies", name, a[s], b[s])
			}
		}
		taken = 0
		copies[4][1][0] = math.NaN()
		if _, err := c.Aggregate(func(yield func(simulated.Report) bool) {
			for _, report := range copies {
				taken++
				if !yield(report) {
					return
				}
			}
		}, newSource("memory", 0)); !errors.Is(err, simulated.ErrReport) || taken != 5 {
			t.Errorf("%s: %v after %d reports, want ErrReport after 5", name, err, taken)
		}
	}
}

// With no noise and a fine scale, Integer is Exact up to rounding; all channels return shapes that fit the reports.
func TestIntegerWithAFineScaleIsExact(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 30).Draw(t, "reports")
		reports := make([]simulated.Report, n)
		for i := range reports {
			reports[i] = simulated.Report{
				{rapid.Float64Range(-1, 0.5).Draw(t, "a"), rapid.Float64Range(0, 1).Draw(t, "b")},
				{rapid.Float64Range(-1, 1).Draw(t, "c")},
			}
		}
		channels := all(t, 1, 1e-6)
		exact, err := channels["exact"].Aggregate(slices.Values(reports), nil)
		if err != nil {
			t.Fatal(err)
		}
		for name, c := range channels {
			got, err := c.Aggregate(slices.Values(reports), newSource("shapes", n))
			if err != nil {
				t.Fatal(name, err)
			}
			for s := range exact {
				if len(got) != len(exact) || len(got[s].Sum) != len(exact[s].Sum) ||
					len(got[s].Variance) != len(exact[s].Sum) || got[s].Reports != n {
					t.Fatalf("%s: %+v", name, got)
				}
			}
		}
		fine := simulated.Integer{Encodings: twoStatistics(), MinCohort: 1}
		for s := range fine.Encodings {
			e := &fine.Encodings[s]
			e.NoiseBits, e.Scale = 0, 1<<20
			for j := range e.Coordinates {
				e.Coordinates[j] = protocol.Coordinate{Offset: -1, Levels: 1 << 21}
			}
		}
		got, err := fine.Aggregate(slices.Values(reports), newSource("fine", n))
		if err != nil {
			t.Fatal(err)
		}
		for s := range exact {
			for j := range exact[s].Sum {
				if gap := math.Abs(got[s].Sum[j] - exact[s].Sum[j]); gap > float64(n)*0x1p-20 {
					t.Fatalf("statistic %d, entry %d: off by %v", s, j, gap)
				}
			}
		}
	})
}

// statistical skips a test of distributions under the race detector: it draws millions of numbers in one goroutine,
// where there is nothing to find and everything takes ten times as long. The plain test run has it.
func statistical(t *testing.T) {
	t.Helper()
	if raceDetector {
		t.Skip("one goroutine, millions of draws: left to the run without the race detector")
	}
}

package simulated_test

import (
	"math"
	"slices"
	"testing"

	"gonum.org/v1/gonum/stat/distuv"

	"github.com/riffle-dp/riffle/pkg/channel/simulated"
	"github.com/riffle-dp/riffle/pkg/protocol"
)

// twoStatistics are encodings of a vector of two coordinates with 3 and 2 levels, and of one with a single coordinate.
func twoStatistics() []protocol.Encoding {
	return []protocol.Encoding{
		{Scale: 2, NoiseBits: 2, Bias: protocol.BiasHalf,
			Coordinates: []protocol.Coordinate{{Offset: -1, Levels: 3}, {Offset: 0, Levels: 2}}},
		{Scale: 1.5, NoiseBits: 3, Bias: protocol.BiasQuarter,
			Coordinates: []protocol.Coordinate{{Offset: -1, Levels: 3}}},
	}
}

func fiveReports() []simulated.Report {
	return []simulated.Report{
		{{0.2, 0.35}, {0.9}},
		{{-1, 1}, {-0.5}},
		{{0, 0}, {0}}, // a null record
		{{0.49, 0.8}, {1}},
		{{-7, 0.25}, {0.1}}, // clamped
	}
}

// literally runs the protocol as three processes would: every device encodes and writes out its bits, all bits of a
// release are permuted, counted and decoded.
func literally(t *testing.T, encodings []protocol.Encoding, reports []simulated.Report,
	src protocol.Source) [][]float64 {
	t.Helper()
	var sums [][]float64
	for s, e := range encodings {
		var bits []protocol.Bit
		for _, report := range reports {
			ones, err := e.Encode(nil, report[s], src)
			if err != nil {
				t.Fatal(err)
			}
			if bits, err = e.AppendBits(bits, ones); err != nil {
				t.Fatal(err)
			}
		}
		protocol.Permute(bits, src)
		counts := make([]uint64, len(e.Coordinates))
		if err := protocol.Count(counts, bits); err != nil {
			t.Fatal(err)
		}
		sum, err := e.Decode(counts, uint64(len(reports)))
		if err != nil {
			t.Fatal(err)
		}
		sums = append(sums, sum)
	}
	return sums
}

func aggregated(t *testing.T, encodings []protocol.Encoding, reports []simulated.Report,
	src protocol.Source) [][]float64 {
	t.Helper()
	aggregates, err := simulated.Shuffle{Encodings: encodings,
		MinCohort: len(reports)}.Aggregate(slices.Values(reports), src)
	if err != nil {
		t.Fatal(err)
	}
	var sums [][]float64
	for _, a := range aggregates {
		sums = append(sums, a.Sum)
	}
	return sums
}

// outcomes counts what came up over many runs: jointly for all coordinates, and for each coordinate by itself.
type outcomes struct {
	joint    map[[3]int]int
	marginal [3]map[int]int
}

// sample runs a protocol the given number of times.
func sample(runs int, run func() [][]float64) outcomes {
	encodings := twoStatistics()
	seen := outcomes{joint: map[[3]int]int{}, marginal: [3]map[int]int{{}, {}, {}}}
	for range runs {
		var outcome [3]int
		i := 0
		for s, sum := range run() {
			for _, value := range sum {
				outcome[i] = int(math.Round(value * encodings[s].Scale * 4)) // the finest step is a quarter of a level
				seen.marginal[i][outcome[i]]++
				i++
			}
		}
		seen.joint[outcome]++
	}
	return seen
}

// difference is the p-value of "both samples, of equal size, come from one law": the joint law and the three marginal
// ones, by Bonferroni. The joint law alone spreads a shift of one coordinate over more than a thousand cells and hardly
// sees it; the marginal laws alone do not see dependence.
func difference(a, b outcomes) float64 {
	least := homogeneity(a.joint, b.joint)
	for i := range a.marginal {
		least = min(least, homogeneity(a.marginal[i], b.marginal[i]))
	}
	return 4 * least
}

// homogeneity is the p-value of "both samples, of equal size, come from one law": chi-square over outcomes seen at
// least 40 times in all, the others pooled.
func homogeneity[K comparable](a, b map[K]int) float64 {
	var statistic, rareA, rareB float64
	cells := 0
	add := func(x, y float64) {
		if x+y > 0 {
			statistic += (x - y) * (x - y) / (x + y)
			cells++
		}
	}
	union := map[K]bool{}
	for _, counts := range []map[K]int{a, b} {
		for outcome := range counts {
			union[outcome] = true
		}
	}
	for outcome := range union {
		if x, y := float64(a[outcome]), float64(b[outcome]); x+y >= 40 {
			add(x, y)
		} else {
			rareA, rareB = rareA+x, rareB+y
		}
	}
	add(rareA, rareB)
	return distuv.ChiSquared{K: float64(cells - 1)}.Survival(statistic)
}

// The channel and a literal run, bit by bit, have one joint distribution of all coordinates of both statistics:
// two-sample chi-square, false alarm 1e-6 (100000 runs each, seeds fixed). Power: the weakest planted difference below,
// a bias 3 % too large on one coordinate, moves its mean by 13.4 standard errors of the difference: noncentrality about
// 180 on 15 cells against a threshold of about 60, missed less than once in 10^5. All must be rejected by the same test
// at the same threshold.
func TestShuffleIsTheProtocol(t *testing.T) {
	statistical(t)
	const runs, falseAlarm = 100_000, 1e-6
	encodings, reports := twoStatistics(), fiveReports()
	src := seeded("two samples", 0)
	literal := sample(runs, func() [][]float64 { return literally(t, encodings, reports, src) })
	same := sample(runs, func() [][]float64 { return aggregated(t, encodings, reports, src) })
	if p := difference(literal, same); p < falseAlarm {
		t.Errorf("the channel differs from the protocol: p = %.3g", p)
	} else {
		t.Logf("p = %.3g over %d joint outcomes", p, len(literal.joint))
	}
	if len(literal.joint) < 500 {
		t.Errorf("only %d outcomes: the test would see little", len(literal.joint))
	}
	for name, run := range map[string]func() [][]float64{
		"a noise bit more": func() [][]float64 {
			changed := twoStatistics()
			changed[0].NoiseBits++
			return aggregated(t, changed, reports, src)
		},
		"bias 3 % larger": func() [][]float64 {
			changed := twoStatistics()
			changed[1].Bias += changed[1].Bias / 33
			sums := aggregated(t, changed, reports, src)
			shift := 5 * 3 * (changed[1].Bias.Float() - 0.25) / changed[1].Scale // decoded as if the bias were 1/4
			sums[1][0] += shift
			return sums
		},
		"rounded to the nearest level": func() [][]float64 {
			var changed []simulated.Report
			for _, report := range reports {
				var rounded simulated.Report
				for s, x := range report {
					y := slices.Clone(x)
					for j := range y {
						c := encodings[s].Coordinates[j]
						y[j] = math.Round((x[j]-c.Offset)*encodings[s].Scale)/encodings[s].Scale + c.Offset
					}
					rounded = append(rounded, y)
				}
				changed = append(changed, rounded)
			}
			return aggregated(t, encodings, changed, src)
		},
		"every random word used three times": func() [][]float64 {
			return aggregated(t, encodings, reports, &echo{src: src, times: 3})
		},
		"one report counted twice": func() [][]float64 {
			return aggregated(t, encodings, append(slices.Clone(reports), reports[3]), src)
		},
	} {
		if p := difference(literal, sample(runs, run)); p >= falseAlarm {
			t.Errorf("%s: not rejected, p = %.3g", name, p)
		} else {
			t.Logf("%s: p = %.3g", name, p)
		}
	}
}

// echo hands out each word the given number of times.
type echo struct {
	src         protocol.Source
	word        uint64
	times, left int
}

func (e *echo) Uint64() uint64 {
	if e.left == 0 {
		e.word, e.left = e.src.Uint64(), e.times
	}
	e.left--
	return e.word
}

// The shuffle channel is unbiased within 5 standard errors of 40000 releases (false alarm 6e-7 per coordinate, seed
// fixed; power: a noise bit too many would be more than 100 standard errors), variance as computed within 5 % (seven
// standard errors) and below the bound it reports.
func TestShuffleIsUnbiasedWithTheVarianceItReports(t *testing.T) {
	statistical(t)
	const releases = 40_000
	encodings, reports := twoStatistics(), fiveReports()
	reports = reports[:4] // the last one is clamped, and so does not keep its sum
	shuffle := simulated.Shuffle{Encodings: encodings, MinCohort: 1}
	src := seeded("unbiased", 0)
	exact, err := simulated.Exact{}.Aggregate(slices.Values(reports), nil)
	if err != nil {
		t.Fatal(err)
	}
	for s, e := range encodings {
		p := e.Bias.Float()
		for j, c := range e.Coordinates {
			want := 0.0
			for _, report := range reports {
				level := (report[s][j] - c.Offset) * e.Scale
				fraction := level - math.Floor(level)
				want += fraction*(1-fraction) + float64(e.NoiseBits)*p*(1-p)
			}
			want /= e.Scale * e.Scale
			var first, second, bound float64
			for range releases {
				aggregates, err := shuffle.Aggregate(slices.Values(reports), src)
				if err != nil {
					t.Fatal(err)
				}
				gap := aggregates[s].Sum[j] - exact[s].Sum[j]
				first += gap
				second += gap * gap
				bound = aggregates[s].Variance[j]
				if aggregates[s].Reports != len(reports) {
					t.Fatalf("%d reports, want %d", aggregates[s].Reports, len(reports))
				}
			}
			if z := first / math.Sqrt(releases*want); math.Abs(z) > 5 {
				t.Errorf("statistic %d, entry %d: biased by %v, %v standard errors", s, j, first/releases, z)
			}
			if got := second / releases; math.Abs(got/want-1) > 0.05 || want > bound {
				t.Errorf("statistic %d, entry %d: variance %v, want %v; bound %v", s, j, got, want, bound)
			}
		}
	}
}

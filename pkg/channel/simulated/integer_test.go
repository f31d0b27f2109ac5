package simulated_test

import (
	"maps"
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

// literally runs the protocol as the processes of the channel shuffle would: every device encodes and writes out its
// bits, the shuffler adds its own, all bits of a release are permuted, counted and decoded.
func literally(t *testing.T, c simulated.Integer, reports []simulated.Report, src protocol.Source) [][]float64 {
	t.Helper()
	var sums [][]float64
	for s, e := range c.Encodings {
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
		if c.ServerNoise != nil {
			for j := range e.Coordinates {
				for range c.ServerNoise[s] {
					bits = append(bits, protocol.Bit{Coordinate: uint32(j), One: coin(e.Bias, src)})
				}
			}
		}
		protocol.Permute(bits, src)
		counts := make([]uint64, len(e.Coordinates))
		if err := protocol.Count(counts, bits); err != nil {
			t.Fatal(err)
		}
		sums = append(sums, decode(t, c, s, counts, len(reports)))
	}
	return sums
}

// inIntegers runs the protocol as the processes of the channels shares, local and central would, without
// cryptography: every device encodes to integers; they are cut into two shares that are uniform modulo 2^64 and added
// up apart, as two servers do, or not cut, which comes to the same; each server adds its part of the servers' noise,
// coin by coin; the sums are joined and decoded.
func inIntegers(t *testing.T, c simulated.Integer, reports []simulated.Report, src protocol.Source) [][]float64 {
	t.Helper()
	var sums [][]float64
	for s, e := range c.Encodings {
		shares := [2][]uint64{make([]uint64, len(e.Coordinates)), make([]uint64, len(e.Coordinates))}
		for _, report := range reports {
			values, err := e.Encode(nil, report[s], src)
			if err != nil {
				t.Fatal(err)
			}
			for j, value := range values {
				mask := src.Uint64()
				shares[0][j] += mask
				shares[1][j] += uint64(value) - mask
			}
		}
		joined := make([]uint64, len(e.Coordinates))
		for j := range joined {
			if c.ServerNoise != nil {
				for k := range c.ServerNoise[s] {
					if coin(e.Bias, src) {
						shares[k%2][j]++
					}
				}
			}
			joined[j] = shares[0][j] + shares[1][j]
		}
		sums = append(sums, decode(t, c, s, joined, len(reports)))
	}
	return sums
}

// coin is one noise bit: a uniform number of 32 digits is below the bias.
func coin(p protocol.Bias, src protocol.Source) bool { return uint32(src.Uint64()>>32) < uint32(p) }

func decode(t *testing.T, c simulated.Integer, s int, counts []uint64, reports int) []float64 {
	t.Helper()
	var servers uint64
	if c.ServerNoise != nil {
		servers = c.ServerNoise[s]
	}
	sum, err := c.Encodings[s].Decode(counts, uint64(reports), servers)
	if err != nil {
		t.Fatal(err)
	}
	return sum
}

// theFour are the channels of the roles, with noise of the kind that each of them has, and a literal run of each.
func theFour() map[string]struct {
	channel simulated.Integer
	run     func(*testing.T, simulated.Integer, []simulated.Report, protocol.Source) [][]float64
} {
	type channel = struct {
		channel simulated.Integer
		run     func(*testing.T, simulated.Integer, []simulated.Report, protocol.Source) [][]float64
	}
	with := func(b uint32, servers ...uint64) simulated.Integer {
		encodings := twoStatistics()
		for s := range encodings {
			encodings[s].NoiseBits = b
		}
		return simulated.Integer{Encodings: encodings, ServerNoise: servers, MinCohort: 5}
	}
	return map[string]channel{
		"shuffle":                   {simulated.Integer{Encodings: twoStatistics(), MinCohort: 5}, literally},
		"shuffle with server noise": {with(2, 9, 7), literally},
		"shares":                    {with(3), inIntegers},
		"shares with server noise":  {with(1, 7, 12), inIntegers},
		"local":                     {with(17), inIntegers},
		"central":                   {with(0, 21, 30), inIntegers},
	}
}

func aggregate(t *testing.T, c simulated.Integer, reports []simulated.Report, src protocol.Source) [][]float64 {
	t.Helper()
	aggregates, err := c.Aggregate(slices.Values(reports), src)
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
	if cells < 2 { // every outcome is rare, and nothing is seen
		return 1
	}
	return distuv.ChiSquared{K: float64(cells - 1)}.Survival(statistic)
}

// Each channel and a literal run of it have one joint distribution of all coordinates of both statistics: two-sample
// chi-square, false alarm 1e-6 for each channel (100000 runs each, seeds fixed). Power: of the differences planted
// below, the weakest of every channel is a bias 3 % too large on one coordinate. In shuffle it moves the mean by 13.4
// standard errors of the difference: noncentrality about 180 on 15 cells against a threshold of about 60, missed less
// than once in 10^5; in the others there are more noise bits, and it moves the mean by more. All must be rejected by
// the same test at the same threshold, the others in a fifth of the runs.
func TestChannelsAreTheProtocol(t *testing.T) {
	statistical(t)
	for name, c := range theFour() {
		t.Run(name, func(t *testing.T) { checkLaw(t, name, c.channel, c.run) })
	}
}

func checkLaw(t *testing.T, name string, c simulated.Integer,
	run func(*testing.T, simulated.Integer, []simulated.Report, protocol.Source) [][]float64,
) {
	const runs, falseAlarm, weakest = 100_000, 1e-6, "bias 3 % larger"
	encodings, reports := twoStatistics(), fiveReports()
	src := newSource(name, 0)
	literal := sample(runs, func() [][]float64 { return run(t, c, reports, src) })
	same := sample(runs, func() [][]float64 { return aggregate(t, c, reports, src) })
	if p := difference(literal, same); p < falseAlarm {
		t.Errorf("the channel differs from the protocol: p = %.3g", p)
	} else {
		t.Logf("p = %.3g over %d joint outcomes", p, len(literal.joint))
	}
	if len(literal.joint) < 500 {
		t.Errorf("only %d outcomes: the test would see little", len(literal.joint))
	}
	planted := map[string]func() [][]float64{
		"a noise bit more": func() [][]float64 {
			// Not decoded as such: the bit belongs to nobody's plan.
			changed := copyOf(c)
			changed.ServerNoise = []uint64{1, 0}
			if c.ServerNoise != nil {
				changed.ServerNoise = []uint64{c.ServerNoise[0] + 1, c.ServerNoise[1]}
			}
			return aggregate(t, changed, reports, src)
		},
		weakest: func() [][]float64 {
			changed := copyOf(c)
			e := &changed.Encodings[1]
			before := e.Bias.Float()
			e.Bias += e.Bias / 33
			sums := aggregate(t, changed, reports, src)
			bits := 5 * float64(e.NoiseBits)
			if c.ServerNoise != nil {
				bits += float64(c.ServerNoise[1])
			}
			sums[1][0] += bits * (e.Bias.Float() - before) / e.Scale // decoded as if the bias were the planned one
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
			return aggregate(t, c, changed, src)
		},
		"every random word used three times": func() [][]float64 {
			return aggregate(t, c, reports, &echo{src: src, times: 3})
		},
		"one report counted twice": func() [][]float64 {
			return aggregate(t, c, append(slices.Clone(reports), reports[3]), src)
		},
	}
	if c.ServerNoise != nil {
		planted["no server noise"] = func() [][]float64 {
			changed := copyOf(c)
			changed.ServerNoise = nil
			return aggregate(t, changed, reports, src)
		}
	}
	few := sample(runs/5, func() [][]float64 { return run(t, c, reports, src) })
	for _, what := range slices.Sorted(maps.Keys(planted)) {
		like, n := few, runs/5
		if what == weakest {
			like, n = literal, runs
		}
		if p := difference(like, sample(n, planted[what])); p >= falseAlarm {
			t.Errorf("%s: not rejected, p = %.3g", what, p)
		} else {
			t.Logf("%s: p = %.3g", what, p)
		}
	}
}

// copyOf is a channel that can be changed.
func copyOf(c simulated.Integer) simulated.Integer {
	c.Encodings = slices.Clone(c.Encodings)
	return c
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

// Each channel is unbiased within 5 standard errors of 20000 releases (false alarm 6e-7 per coordinate, seeds fixed;
// power: a noise bit too many would be more than 70 standard errors), variance as computed within 5 % (five standard
// errors) and below the bound it reports.
func TestChannelsAreUnbiased(t *testing.T) {
	statistical(t)
	const releases = 20_000
	for name, four := range theFour() {
		c := four.channel
		c.MinCohort = 1
		reports := fiveReports()[:4] // the last one is clamped, and so does not keep its sum
		src := newSource(name, 1)
		exact, err := simulated.Exact{}.Aggregate(slices.Values(reports), nil)
		if err != nil {
			t.Fatal(err)
		}
		var first, second, bound [2][2]float64
		for range releases {
			aggregates, err := c.Aggregate(slices.Values(reports), src)
			if err != nil {
				t.Fatal(err)
			}
			for s, a := range aggregates {
				if a.Reports != len(reports) {
					t.Fatalf("%s: %d reports, want %d", name, a.Reports, len(reports))
				}
				for j, sum := range a.Sum {
					gap := sum - exact[s].Sum[j]
					first[s][j] += gap
					second[s][j] += gap * gap
					bound[s][j] = a.Variance[j]
				}
			}
		}
		for s, e := range c.Encodings {
			p, noise := e.Bias.Float(), float64(len(reports))*float64(e.NoiseBits)
			if c.ServerNoise != nil {
				noise += float64(c.ServerNoise[s])
			}
			for j, coordinate := range e.Coordinates {
				want := noise * p * (1 - p)
				for _, report := range reports {
					level := (report[s][j] - coordinate.Offset) * e.Scale
					fraction := level - math.Floor(level)
					want += fraction * (1 - fraction)
				}
				want /= e.Scale * e.Scale
				if z := first[s][j] / math.Sqrt(releases*want); math.Abs(z) > 5 {
					t.Errorf("%s, statistic %d, entry %d: biased by %v, %v standard errors", name, s, j,
						first[s][j]/releases, z)
				}
				if got := second[s][j] / releases; math.Abs(got/want-1) > 0.05 || want > bound[s][j] {
					t.Errorf("%s, statistic %d, entry %d: variance %v, want %v; bound %v", name, s, j, got, want,
						bound[s][j])
				}
			}
		}
	}
}

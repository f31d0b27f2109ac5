package uniform

import (
	"cmp"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"testing"

	"github.com/riffle-dp/riffle/pkg/protocol"
)

func long() bool { return os.Getenv("RIFFLE_LONG") != "" }

// Uniformly random orders are rejected no more often than stated, at rates at which that can be counted: the whole
// verdict at 1 %, and each test at p below 1 %, in 2500 sets of releases of several sizes (20 000 where RIFFLE_LONG is
// set). The limits are five standard deviations above the rates, so the test itself fails with probability below 1e-5.
// With a chi-square in place of the proof it would tell nothing of rates of 1e-6; here it only confirms what is proved
// (TestWealthIsAMartingale).
func TestFalseAlarmsAreRare(t *testing.T) {
	if testing.Short() {
		t.Skip("nothing of it runs at the same time as anything else")
	}
	sets, rate := 2500, 0.01
	if long() {
		sets = 20_000
	}
	src := rand.NewChaCha8([32]byte{3})
	rng := rand.New(src)
	good, err := Plant("", src)
	if err != nil {
		t.Fatal(err)
	}
	rejected, below := 0, map[string]int{}
	for range sets {
		j := New(rate)
		first, second := 2+rng.IntN(5), 7+rng.IntN(20)
		for i := range 1 + rng.IntN(24) {
			shape := Shape{Items: first, Report: 1 + rng.IntN(3), Chunk: 1 + rng.IntN(4)}
			if i%2 == 1 {
				shape.Items = second
			}
			if err := j.Add(good.Shuffle(shape)); err != nil {
				t.Fatal(err)
			}
		}
		for _, f := range j.Findings() {
			if f.P < rate {
				below[f.Test]++
			}
		}
		if j.Rejects() {
			rejected++
		}
	}
	limit := rate*float64(sets) + 5*math.Sqrt(rate*float64(sets))
	if float64(rejected) > limit {
		t.Errorf("%d of %d sets are rejected at %v", rejected, sets, rate)
	}
	for _, test := range tests {
		if float64(below[test]) > limit {
			t.Errorf("%s: p is below %v in %d of %d sets", test, rate, below[test], sets)
		}
	}
	t.Logf("%d of %d sets are rejected at %v; p below it: %v", rejected, sets, rate, below)
}

// Each test finds the fault that it is for, at the full verdict's rate of false alarms: so none can be left out or
// broken unnoticed. The numbers of releases are about twice those that the test needs; the seeds are fixed.
func TestEachTestFindsItsFault(t *testing.T) {
	if testing.Short() {
		t.Skip("nothing of it runs at the same time as anything else")
	}
	src := rand.NewChaCha8([32]byte{4})
	rng := rand.New(src)
	plant := func(f Fault) func(Shape) *Release {
		p, err := Plant(f, src)
		if err != nil {
			t.Fatal(err)
		}
		return p.Shuffle
	}
	good := plant("")
	changed := func(change func(r *Release)) func(Shape) *Release {
		return func(s Shape) *Release {
			r := good(s)
			change(r)
			return r
		}
	}
	mirrored := func(shuffle func(Shape) *Release) func(Shape) *Release {
		return func(s Shape) *Release {
			r := shuffle(s)
			slices.Reverse(r.Order)
			for i, item := range r.Order {
				r.Order[i] = s.Items - 1 - item
			}
			return r
		}
	}
	inverted := func(shuffle func(Shape) *Release) func(Shape) *Release {
		return func(s Shape) *Release {
			r := shuffle(s)
			order := make([]int, s.Items)
			for place, item := range r.Order {
				order[item] = place
			}
			r.Order = order
			return r
		}
	}
	for name, c := range map[string]struct {
		test     string
		shape    Shape
		releases int
		shuffle  func(Shape) *Release
	}{
		"one order is left out": {TestOrders, Shape{Items: 4}, 1200, func(s Shape) *Release {
			for {
				if r := good(s); !slices.Equal(r.Order, []int{2, 0, 3, 1}) {
					return r
				}
			}
		}},
		"orders of six":    {TestOrders, Shape{Items: 6}, 7000, plant(AnyPlace)},
		"two halves":       {TestPlaces, Shape{Items: 500}, 1, plant(Batches)},
		"a little earlier": {TestPlaces, Shape{Items: 400}, 1100, plant(Early3)},
		"one part of fifty comes to its place": {TestPlaces, Shape{Items: 96}, 400, changed(func(r *Release) {
			i := slices.Index(r.Order, 40)
			if rng.IntN(4) == 0 {
				r.Order[i], r.Order[13] = r.Order[13], r.Order[i]
				j := slices.Index(r.Order, 80)
				r.Order[j], r.Order[91] = r.Order[91], r.Order[j]
			}
		})},
		"neighbours stay":      {TestNeighbours, Shape{Items: 60}, 4, plant(Together)},
		"rotated":              {TestNeighbours, Shape{Items: 60}, 2, plant(Rotation)},
		"backwards":            {TestNeighbours, Shape{Items: 60}, 2, mirroredItems(plant(Rotation))},
		"some stay":            {TestShifts, Shape{Items: 60}, 100, plant(Stays3)},
		"none stays":           {TestShifts, Shape{Items: 60}, 60, plant(OneCycle)},
		"nearly sorted":        {TestRanks, Shape{Items: 60}, 60, noisy(rng, false)},
		"nearly sorted places": {TestRanks, Shape{Items: 60}, 60, noisy(rng, true)},
		"rising": {TestRanks, Shape{Items: 60}, 100, changed(func(r *Release) {
			for i := 0; i < len(r.Order); i += 2 {
				if r.Order[i] > r.Order[i+1] && rng.IntN(2) == 0 {
					r.Order[i], r.Order[i+1] = r.Order[i+1], r.Order[i]
				}
			}
		})},
		"remainders":                     {TestDraws, Shape{Items: 60}, 3000, plant(Modulo)},
		"remainders, upwards":            {TestDraws, Shape{Items: 60}, 3000, mirrored(plant(Modulo))},
		"remainders, inside out":         {TestDraws, Shape{Items: 60}, 3000, inverted(plant(Modulo))},
		"remainders, upwards inside out": {TestDraws, Shape{Items: 60}, 3000, mirrored(inverted(plant(Modulo)))},
		"remainders of many":             {TestDraws, Shape{Items: 200}, 60, plant(Modulo)},
		"reports stay together": {TestReports, Shape{Items: 60, Report: 4}, 2, func(s Shape) *Release {
			return scatter(plant(Together)(s), s, rng)
		}},
		"reports in one chunk": {TestReports, Shape{Items: 120, Report: 4, Chunk: 30}, 6, func(s Shape) *Release {
			r := scatter(plant(Together)(s), s, rng)
			for chunk := range slices.Chunk(r.Order, s.Chunk) {
				protocol.Permute(chunk, src)
			}
			return r
		}},
		"coordinate by coordinate": {TestReports, Shape{Items: 120, Report: 4}, 3, func(s Shape) *Release {
			r := good(s)
			slices.SortStableFunc(r.Order, func(a, b int) int { return a%4 - b%4 })
			return r
		}},
		"one order again": {TestRepeats, Shape{Items: 60}, 3, plant(Repeated)},
		"parts of the last order again": {TestRepeats, Shape{Items: 60}, 8, func() func(Shape) *Release {
			var last []int
			return func(s Shape) *Release {
				r := good(s)
				if last != nil && rng.IntN(2) == 0 { // rotated, so that nothing is in its place
					by := 1 + rng.IntN(s.Items-1)
					r.Order = append(slices.Clone(last[by:]), last[:by]...)
				}
				last = r.Order
				return r
			}
		}()},
		"one item early": {TestCells, Shape{Items: 100}, 2200, changed(func(r *Release) {
			if i := slices.Index(r.Order, 37); i >= 50 && rng.IntN(5) == 0 {
				r.Order[i], r.Order[7] = r.Order[7], r.Order[i]
			}
		})},
		"one item at one place": {TestCells, Shape{Items: 30}, 1500, changed(func(r *Release) {
			if i := slices.Index(r.Order, 11); rng.IntN(12) == 0 {
				r.Order[i], r.Order[20] = r.Order[20], r.Order[i]
			}
		})},
		"one item behind another": {TestCells, Shape{Items: 30}, 1500, changed(func(r *Release) {
			if i := slices.Index(r.Order, 11); i < 29 && rng.IntN(12) == 0 {
				j := slices.Index(r.Order, 20)
				r.Order[i+1], r.Order[j] = r.Order[j], r.Order[i+1]
			}
		})},
		"one item before another": {TestCells, Shape{Items: 30}, 2000, changed(func(r *Release) {
			i, j := slices.Index(r.Order, 11), slices.Index(r.Order, 20)
			if i > j && rng.IntN(4) == 0 {
				r.Order[i], r.Order[j] = r.Order[j], r.Order[i]
			}
		})},
		"one release of many": {TestAlone, Shape{Items: 60}, 200, func() func(Shape) *Release {
			count := 0
			return func(s Shape) *Release {
				if count++; count == 150 {
					return plant(Identity)(s)
				}
				return good(s)
			}
		}()},
	} {
		t.Run(name, func(t *testing.T) {
			src.Seed([32]byte{4}) // the same draws, whichever was before
			j := New(0)
			for range c.releases {
				if err := j.Add(c.shuffle(c.shape)); err != nil {
					t.Fatal(err)
				}
			}
			for _, f := range j.Findings() {
				if f.Test == c.test {
					if f.OK {
						t.Errorf("%s does not reject: %+v", c.test, j.Findings())
					}
					t.Logf("%s: %.1f", f.Test, f.Evidence)
				}
			}
			if !j.Rejects() {
				t.Error("the verdict does not reject")
			}
		})
	}
}

// noisy sorts items by a number that has only a little to do with them, as both have.
func noisy(rng *rand.Rand, inverse bool) func(Shape) *Release {
	return func(s Shape) *Release {
		order, keys := rng.Perm(s.Items), make([]float64, s.Items)
		for i := range keys {
			keys[i] = float64(i)/float64(s.Items) + 4*rng.Float64()
		}
		slices.SortFunc(order, func(a, b int) int { return cmp.Compare(keys[a], keys[b]) })
		if inverse {
			out := make([]int, s.Items)
			for place, item := range order {
				out[item] = place
			}
			order = out
		}
		return &Release{Order: order}
	}
}

// mirroredItems numbers the items from the other end.
func mirroredItems(shuffle func(Shape) *Release) func(Shape) *Release {
	return func(s Shape) *Release {
		r := shuffle(s)
		for i, item := range r.Order {
			r.Order[i] = s.Items - 1 - item
		}
		return r
	}
}

// scatter has the items of reports that came together come apart: in a random order that the tests know.
func scatter(r *Release, s Shape, rng *rand.Rand) *Release {
	at := rng.Perm(s.Items)
	reports := make([]int, s.Items)
	for place, item := range r.Order {
		r.Order[place] = at[item]
		reports[at[item]] = item / s.Report
	}
	r.Reports = reports
	return r
}

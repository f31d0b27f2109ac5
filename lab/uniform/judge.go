package uniform

import (
	"fmt"
	"math"
)

// FalseAlarm is the probability with which uniformly random orders are rejected, at most, unless Options say otherwise.
const FalseAlarm = 1e-6

// The names of the tests, each of which is about one kind of fault.
const (
	TestOrders     = "orders"         // of few items: all of them
	TestPlaces     = "places"         // which items come to which places
	TestNeighbours = "neighbours"     // what stood together stays together
	TestShifts     = "shifts"         // how far from its place an item comes
	TestRanks      = "ranks"          // which of two items is first; orders that rise or fall
	TestDraws      = "draws"          // the draws of a Fisher-Yates shuffle
	TestReports    = "reports"        // items of one report leave together
	TestRepeats    = "repeats"        // a release follows the order of the one before
	TestCells      = "single events"  // one item at one place, behind another one, before another one, or early
	TestAlone      = "single release" // one release in itself, however many others there are
)

// tests are the names in the order of results.
var tests = [...]string{
	TestOrders, TestPlaces, TestNeighbours, TestShifts, TestRanks, TestDraws, TestReports, TestRepeats, TestCells,
	TestAlone,
}

// halfGroups, coarseGroups and fineGroups are how many groups the test of places cuts a release into.
const (
	halfGroups   = 2
	coarseGroups = 8
	fineGroups   = 48
)

// leastAlone is how many items a release must have to be judged in itself: orders of fewer show nothing.
const leastAlone = 7

// Judge judges release after release. It is not safe for concurrent use.
type Judge struct {
	falseAlarm      float64
	releases, items int

	orders      orders
	places      [3]places
	neighbours  neighbours
	shifts      shifts
	ranks, back ranks
	rises       rises
	draws       [4]draws
	reports     reports
	repeats     repeats
	cells       cells
	alone       alone

	left, other       left
	inverse, reversed []int

	most [len(tests)]float64 // logarithm of the greatest wealth of each test
	next int                 // releases at which the single events are looked at again
	logs []float64
}

// New begins. falseAlarm is the probability with which uniformly random orders are rejected, at most; 0: FalseAlarm.
func New(falseAlarm float64) *Judge {
	if falseAlarm == 0 {
		falseAlarm = FalseAlarm
	}
	return &Judge{
		falseAlarm: falseAlarm, alone: newAlone(),
		places: [3]places{{groups: halfGroups}, {groups: coarseGroups}, {groups: fineGroups}},
	}
}

// Add looks at one more release. It keeps nothing of it. The error is that of Release.Check.
func (j *Judge) Add(r *Release) error {
	if err := r.Check(); err != nil {
		return fmt.Errorf("release %d: %w", j.releases+1, err)
	}
	j.releases++
	j.items += len(r.Order)
	if len(r.Order) > 1 {
		j.add(r)
	}
	j.grow()
	return nil
}

func (j *Judge) add(r *Release) {
	n := len(r.Order)
	j.inverse, j.reversed = zeros(j.inverse, n), zeros(j.reversed, n)
	for place, item := range r.Order {
		j.inverse[item] = place
	}
	j.orders.add(r.Order)
	for i := range j.places {
		j.places[i].add(r.Order)
	}
	j.alone.begin(n)
	j.left.fill(n)
	j.other.fill(n)
	before := -1
	for place, item := range r.Order {
		if before >= 0 {
			j.neighbours.at(&j.left, before, item)
			j.rises.at(&j.left, before, item)
			j.alone.neighbours.step(0, j.neighbours.counts[:], n-place, distance((item-before+n)%n, n))
		}
		j.shifts.at(&j.left, place, item)
		j.alone.shifts.step(0, j.shifts.counts[:], n-place, distance((item-place+n)%n, n))
		j.ranks.at(j.left.below(item), n-place, place, n)
		j.back.at(j.other.below(j.inverse[place]), n-place, place, n)
		j.left.remove(item)
		j.other.remove(j.inverse[place])
		before = item
	}
	j.alone.places.add(r.Order)
	j.alone.end(n)
	j.draws[0].add(r.Order)
	j.draws[1].add(j.inverse)
	for side, order := range [2][]int{r.Order, j.inverse} {
		for place, item := range order {
			j.reversed[n-1-place] = n - 1 - item
		}
		j.draws[2+side].add(j.reversed)
	}
	j.reports.add(r)
	j.repeats.add(r.Order)
	j.cells.add(r.Order)
}

// checkAgain is by which factor the releases grow from one look at single events to the next.
const checkAgain = 1.1

// grow takes note of what the tests have. Single events are looked at now and then, and at the end.
func (j *Judge) grow() {
	for i, name := range tests {
		if name != TestCells {
			j.most[i] = max(j.most[i], j.log(name))
		}
	}
	if j.releases >= j.next {
		j.next = int(checkAgain*float64(j.releases)) + 1
		j.look()
	}
}

// look takes note of what the test of single events has.
func (j *Judge) look() {
	for i, name := range tests {
		if name == TestCells {
			j.most[i] = max(j.most[i], j.cells.log())
		}
	}
}

// log is the logarithm of a test's wealth: the mean of that of its bets.
func (j *Judge) log(test string) float64 {
	all := j.logs[:0]
	switch test {
	case TestOrders:
		all = j.orders.logs(all)
	case TestPlaces:
		for i := range j.places {
			all = j.places[i].logs(all)
		}
	case TestNeighbours:
		all = j.neighbours.logs(all)
	case TestShifts:
		all = j.shifts.logs(all)
	case TestRanks:
		all = j.rises.logs(j.back.logs(j.ranks.logs(all)))
	case TestDraws:
		for i := range j.draws {
			all = j.draws[i].own.logs(j.draws[i].shared.logs(all))
		}
	case TestReports:
		all = j.reports.within.logs(j.reports.chunk.logs(j.reports.next.logs(all)))
	case TestRepeats:
		all = j.repeats.stays.logs(j.repeats.follows.logs(all))
	case TestAlone:
		return j.alone.log()
	}
	j.logs = all
	return logMean(all)
}

// limit is the p-value below which a test rejects.
func (j *Judge) limit() float64 { return j.falseAlarm / float64(len(tests)) }

// Rejects reports whether some test has rejected.
func (j *Judge) Rejects() bool {
	for _, most := range j.most {
		if -most < math.Log(j.limit()) {
			return true
		}
	}
	return false
}

// Finding is what one test says.
type Finding struct {
	Test string `json:"name"`
	// Evidence is the decimal logarithm of the test's greatest wealth: P is 10^-Evidence, but not below what a float
	// holds.
	Evidence float64 `json:"statistic"`
	P        float64 `json:"p"`     // an upper bound
	Limit    float64 `json:"limit"` // below which the test rejects
	OK       bool    `json:"ok"`
}

// Findings are those of all tests, always in the same order. More releases may follow.
func (j *Judge) Findings() []Finding {
	j.look()
	all := make([]Finding, len(tests))
	for i, name := range tests {
		f := Finding{Test: name, Evidence: j.most[i] / math.Ln10, P: math.Exp(-j.most[i]), Limit: j.limit()}
		f.OK = -j.most[i] >= math.Log(f.Limit)
		all[i] = f
	}
	return all
}

// Releases and items that were judged.
func (j *Judge) Releases() int { return j.releases }

// Items is how many items they had, all together.
func (j *Judge) Items() int { return j.items }

// alone bets on each release anew, so that one order that is no shuffle is found among any number that are. Release r
// has a share of the wealth of 1/r(r+1), which it bets in itself.
type alone struct {
	neighbours, shifts bet
	places             places
	releases           int
	gained             float64 // logarithm of what the shares have together
	logs               []float64
}

func newAlone() alone {
	return alone{places: places{groups: coarseGroups}, gained: math.Inf(-1)}
}

// begin begins a release.
func (a *alone) begin(int) {
	a.neighbours.reset()
	a.shifts.reset()
	a.places.reset()
}

// end ends one of n items.
func (a *alone) end(n int) {
	a.releases++
	log := 0.0
	if n >= leastAlone {
		a.logs = a.places.logs(a.shifts.logs(a.neighbours.logs(a.logs[:0])))
		log = logMean(a.logs)
	}
	r := float64(a.releases)
	a.gained = logSum([]float64{a.gained, log - math.Log(r*(r+1))})
}

// log is the logarithm of all wealth: that of the shares that were bet, and those that are left.
func (a *alone) log() float64 {
	return logSum([]float64{a.gained, -math.Log(float64(a.releases + 1))})
}

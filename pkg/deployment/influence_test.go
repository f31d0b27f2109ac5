package deployment_test

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/riffle-dp/riffle/pkg/deployment"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// closeTo reports whether two numbers agree but for the last rounding.
func closeTo(a, b float64) bool { return math.Abs(a-b) <= 1e-9*(1+math.Abs(a)+math.Abs(b)) }

// The sums of real reports, sealed, opened, counted and decoded, move by exactly what Influence says when dishonest
// devices do the most or the least that passes, on every coordinate of every channel: one device, and several, more
// than the plan expects among them.
func TestInfluenceIsReachedOnEveryCoordinate(t *testing.T) {
	for _, c := range plan.Channels() {
		for _, x := range []struct{ devices, expected int }{{1, 1}, {3, 1}, {2, 2}, {2, 0}} {
			s := newScene(t, c, honestPeople+x.devices, x.expected)
			influence := made(s.a.Influence(x.devices, uint32(honestPeople+x.devices)))
			without := s.sums(honestPeople, nil)
			none := s.sums(honestPeople, s.strongest(x.devices, false))
			all := s.sums(honestPeople, s.strongest(x.devices, true))
			for r, of := range influence {
				if of.Statistic != s.a.Releases()[r].Statistic || of.Devices != x.devices {
					t.Errorf("%s: release %d is called %s, of %d devices", c, r, of.Statistic, of.Devices)
				}
				for j := range of.Most {
					if got := none[r][j] - without[r][j]; !closeTo(got, of.Least[j]) {
						t.Errorf("%s, %+v, release %d, coordinate %d: the least adds %v, stated is %v", c, x, r, j, got,
							of.Least[j])
					}
					if got := all[r][j] - without[r][j]; !closeTo(got, of.Most[j]) {
						t.Errorf("%s, %+v, release %d, coordinate %d: the most adds %v, stated is %v", c, x, r, j, got,
							of.Most[j])
					}
					if got := all[r][j] - none[r][j]; !closeTo(got, of.Moves()[j]) {
						t.Errorf("%s, %+v, release %d, coordinate %d: moved by %v, stated is %v", c, x, r, j, got,
							of.Moves()[j])
					}
				}
			}
		}
	}
}

// distance is the Euclidean one.
func distance(a, b []float64) float64 {
	square := 0.0
	for j := range a {
		square += (a[j] - b[j]) * (a[j] - b[j])
	}
	return math.Sqrt(square)
}

// Whatever dishonest devices report, 300 times at random and in each corner, no sum leaves the stated range and no two
// sums are farther apart than Distance. It is reached.
func TestNoReportMovesASumFurtherThanItsInfluence(t *testing.T) {
	const attackers = 2
	for _, c := range plan.Channels() {
		for _, expected := range []int{0, 1, attackers} {
			s := newScene(t, c, honestPeople+attackers, expected)
			influence := made(s.a.Influence(attackers, honestPeople+attackers))
			own, src := s.own(), rand.New(rand.NewChaCha8([32]byte{byte(expected), 3}))
			farthest := make([]float64, len(influence))
			var seen [][][]float64
			for n := range 300 {
				total := make([]int, len(own))
				for range attackers {
					for j := range own {
						bits := own[j]
						if c == plan.Shares {
							bits = 1<<s.a.EntryBits() - 1
						}
						total[j] += []int{0, bits, src.IntN(bits + 1)}[src.IntN(3)]
					}
				}
				if n < 2 { // a corner: none, or the most on every coordinate
					clear(total)
					for _, of := range s.strongest(attackers, n == 1) {
						for j := range own {
							total[j] += of[j]
						}
					}
				}
				seen = append(seen, s.decoded(total, attackers))
			}
			for n, sums := range seen {
				for r, of := range influence {
					for j, v := range sums[r] {
						if slack := 1e-9; v < of.Least[j]-slack || v > of.Most[j]+slack {
							t.Fatalf("%s, m = %d: attack %d adds %v to coordinate %d, stated are %v to %v", c, expected,
								n, v, j,
								of.Least[j], of.Most[j])
						}
					}
					for _, other := range seen[:n] {
						farthest[r] = max(farthest[r], distance(sums[r], other[r]))
					}
				}
			}
			for r, of := range influence {
				if farthest[r] > of.Distance*(1+1e-9) {
					t.Errorf("%s, m = %d, release %d: two sums are %v apart, stated is %v", c, expected, r, farthest[r],
						of.Distance)
				}
				if farthest[r] < of.Distance*(1-1e-9) {
					t.Errorf("%s, m = %d, release %d: no two sums are more than %v apart, stated is %v", c, expected, r,
						farthest[r], of.Distance)
				}
			}
		}
	}
}

// decoded is what so many devices add to the sums with these ones together, by the decoder alone: a difference of two
// decodings.
func (s *scene) decoded(ones []int, devices int) (sums [][]float64) {
	j := 0
	for r, e := range s.a.Encodings {
		noise := s.a.Releases()[r].ServerNoise()
		base, with := make([]uint64, len(e.Coordinates)), make([]uint64, len(e.Coordinates))
		for c := range e.Coordinates {
			with[c] = uint64(ones[j])
			j++
		}
		// The honest people are of the kind that leaves most room below the cut.
		before := made(e.Decode(base, honestPeople, noise))
		after := made(e.Decode(with, uint64(honestPeople+devices), noise))
		for c := range after {
			after[c] = float64(s.a.Plan.PerReport()) * (after[c] - before[c])
		}
		sums = append(sums, after)
	}
	return sums
}

// What is stated beside it of honest devices is the difference between the two ends of what they can report with the
// same noise, and the deviation is that of the sums that the analyzer publishes.
func TestInfluenceStandsBesideHonestDevicesAndNoise(t *testing.T) {
	for _, c := range plan.Channels() {
		s := newScene(t, c, honestPeople, 1)
		counts := &wire.Counts{Reports: honestPeople}
		for _, e := range s.a.Encodings {
			counts.Releases = append(counts.Releases, wire.ReleaseCounts{Ones: make([]uint64, len(e.Coordinates))})
		}
		published := made(deployment.Sums(s.a, counts))
		for r, of := range made(s.a.Influence(1, honestPeople)) {
			e := s.a.Encodings[r]
			var low, high []float64
			for _, x := range e.Coordinates {
				low, high = append(low, x.Offset), append(high, x.Offset+float64(x.Levels)/e.Scale)
			}
			least := made(e.Encode(nil, low, rand.NewChaCha8([32]byte{8})))
			most := made(e.Encode(nil, high, rand.NewChaCha8([32]byte{8})))
			for j := range least {
				if got := 3 * float64(most[j]-least[j]) / e.Scale; !closeTo(got, of.Honest[j]) {
					t.Errorf("%s: an honest device moves coordinate %d of release %d by %v, stated is %v", c, j, r, got,
						of.Honest[j])
				}
				if of.Honest[j] > of.Moves()[j] {
					t.Errorf("%s: an honest device does more than a dishonest one", c)
				}
				if want := math.Sqrt(published[r].Variance[j]); !closeTo(want, of.Deviation) {
					t.Errorf("%s: the deviation of release %d is %v, stated is %v", c, r, want, of.Deviation)
				}
			}
			if want := slices.Max(of.Moves()) / of.Deviation; !closeTo(of.Worst(), want) {
				t.Errorf("%s: the worst is %v deviations, stated is %v", c, want, of.Worst())
			}
		}
	}
}

// No devices move nothing, nobody is stated where nothing is summed, and more devices than reports are an error.
func TestInfluenceOfNobody(t *testing.T) {
	s := newScene(t, plan.Shuffle, honestPeople, 1)
	for _, of := range made(s.a.Influence(0, honestPeople)) {
		if of.Distance != 0 || slices.Max(of.Moves()) != 0 || slices.Max(of.Honest) != 0 {
			t.Errorf("no devices: %+v", of)
		}
	}
	for _, n := range []int{-1, honestPeople + 1} {
		if _, err := s.a.Influence(n, honestPeople); !errors.Is(err, plan.ErrPlan) {
			t.Errorf("%d devices of %d: %v, want ErrPlan", n, honestPeople, err)
		}
	}
	s.a.Plan.Curator = new(plan.Curator)
	if of, err := s.a.Influence(1, honestPeople); of != nil || err != nil {
		t.Errorf("of a curator: %v, %v", of, err)
	}
	s.a.Plan.Curator, s.a.Final = nil, true
	if of, err := s.a.Influence(1, honestPeople); of != nil || err != nil {
		t.Errorf("after the last round: %v, %v", of, err)
	}
}

// A count that reports and servers cannot make is cut, so that a cohort of dishonest devices alone moves a sum by no
// more than honest entries at their largest and all noise of servers: less than the proofs of shares let each of them
// say.
func TestInfluenceEndsWhereCountsAreCut(t *testing.T) {
	const devices = 12
	s := newScene(t, plan.Shares, devices, 1)
	of := made(s.a.Influence(devices, devices))[0]
	all := s.sums(0, s.strongest(devices, true))
	none := s.sums(0, s.strongest(devices, false))
	e := s.a.Encodings[0]
	noise := 3 * float64(s.a.Releases()[0].ServerNoise()) / e.Scale // at most, and it is in both sums
	for j, most := range of.Moves() {
		if got := all[0][j] - none[0][j]; got > most+1e-9 || got < most-noise-1e-9 {
			t.Errorf("coordinate %d moved by %v, stated is %v, with up to %v of noise", j, got, most, noise)
		}
		if want := 3 * float64(devices*e.MessagesAt(j)) / e.Scale; !closeTo(most, want+noise) {
			t.Errorf("coordinate %d: %v is stated, what can be counted is %v and %v of noise", j, most, want, noise)
		}
	}
}

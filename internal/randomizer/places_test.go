package randomizer

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/riffle-dp/riffle/internal/randomizer/store"
	"github.com/riffle-dp/riffle/internal/testing/testbed"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// next announces the epoch behind an announcement, or the final policy.
func (s *scene) next(a *plan.Announcement, digest [32]byte, final bool) (*plan.Announcement, [32]byte) {
	s.t.Helper()
	b := *a
	b.Epoch, b.Round, b.Previous = a.Epoch+1, 0, digest[:]
	if final {
		b = plan.Announcement{Deployment: a.Deployment, Epoch: b.Epoch, Previous: digest[:], Policy: a.Policy,
			Final: true}
	}
	s.mu.Lock()
	s.slots = map[uint32]uint32{}
	s.mu.Unlock()
	return &b, s.open(&b)
}

// refusing has the shuffler refuse everybody, or nobody any more.
func (s *scene) refusing(r wire.Refusal) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.answer = nil; r != wire.NoRefusal {
		s.answer = func(wire.Enrolment) *wire.EnrolReply { return &wire.EnrolReply{Refusal: r} }
	}
}

// serve has the shuffler answer again after unserve.
func (s *scene) serve() {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = s.shuffler.Enrolment.ServeEnrol(ctx, 4, s.enrol)
	}()
	s.t.Cleanup(func() { cancel(); <-done })
}

// expectAll asks for decisions for p<from> to p<to-1>, each of which must come with an arm and that reason.
func (s *scene) expectAll(from, to int, reason string) {
	s.t.Helper()
	for i := from; i < to; i++ {
		d := s.decide(fmt.Sprint("p", i), twoArms)
		if d["reason"] != reason || (d["sampled"] == true) != (reason == "sampled") ||
			!(d["propensity"].(float64) > 0) {
			s.t.Errorf("p%d: %v, want reason %s", i, d, reason)
		}
	}
}

// keys are what the store calls devices, in order.
func (s *scene) keys(names ...string) (all []string) {
	for _, name := range names {
		all = append(all, s.host.store.Key(name))
	}
	slices.Sort(all)
	return all
}

// storedNames are what the store calls its devices, by number. No number may be under two.
func (s *scene) storedNames() (names []string) {
	s.t.Helper()
	numbers := map[uint32]string{}
	s.must(s.host.store.Load(func(d store.Device) error {
		if other, twice := numbers[d.Number]; twice {
			s.t.Errorf("%s and %s have the same number", d.Name, other)
		}
		numbers[d.Number], names = d.Name, append(names, d.Name)
		return nil
	}))
	slices.Sort(names)
	return names
}

// places is how many the status says are taken.
func (s *scene) places(want int) {
	s.t.Helper()
	testbed.Eventually(s.t, fmt.Sprintf("%d places taken", want),
		func() bool { return s.host.Status().Devices == want })
}

// Everybody gets an arm by the public policy. A host whose places are all taken goes on to decide, and says for what
// reason it samples nobody; so it does under the final policy. Those who have a place keep it.
func TestAFullHostDecidesForEverybody(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.config.Devices = 2
	s.start()
	a := s.unhurried(12)
	digest := s.open(a)
	s.expectAll(0, 2, "sampled")
	s.expectAll(2, 9, "host_full")
	s.expectAll(0, 2, "record_used")
	s.places(2)
	s.due(a)
	s.reports(2)
	s.next(a, digest, true)
	s.expectAll(0, 20, "final_policy")
	s.places(2)
	if names := s.storedNames(); !slices.Equal(names, s.keys("p0", "p1")) {
		t.Errorf("the store has %v", names)
	}
}

// Whoever is not sampled takes none of the host's places, for whatever reason: many times as many people as the host
// has places come before the epochs in which all places are given to people who are sampled. However many names come,
// the host knows of no more than it has places, in memory and on disk.
func TestWhoIsNotSampledTakesNoPlace(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.config.Devices = 3
	s.start()
	a := s.unhurried(12)
	digest := s.open(a)
	for i, r := range []wire.Refusal{wire.RefusalSponsorShare, wire.RefusalCapacity, wire.RefusalNoCredential} {
		s.refusing(r)
		s.expectAll(100*i, 100*i+7, "not_admitted")
	}
	s.expectAll(0, 1, "not_admitted") // one who came before
	s.refusing(wire.RefusalCohortFull)
	s.expectAll(900, 904, "cohort_full")
	s.places(0)
	if names := s.storedNames(); len(names) != 3 {
		t.Errorf("the store has %v", names)
	}
	s.refusing(wire.NoRefusal)
	a, digest = s.next(a, digest, false)
	s.expectAll(0, 1, "sampled")
	s.places(1)
	s.must(s.stop())
	s.start() // another process knows whose place is whose
	s.awaitRound(a)
	s.places(1)
	s.expectAll(0, 1, "record_used")
	s.expectAll(1000, 1002, "sampled")
	s.expectAll(1002, 1005, "host_full")
	s.places(3)
	if names := s.storedNames(); !slices.Equal(names, s.keys("p0", "p1000", "p1001")) {
		t.Errorf("the store has %v", names)
	}
	s.due(a)
	s.reports(3)
	s.next(a, digest, false)
	s.expectAll(0, 1, "record_used") // who was sampled keeps their place and their ledger
	s.expectAll(1005, 1008, "host_full")
}

// While no shuffler can be asked nobody takes a place for good.
func TestAnAbsentShufflerCostsNoPlace(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.config.Devices = 2
	s.start()
	a := s.unhurried(12)
	s.open(a)
	s.unserve()
	for i := range 6 {
		if d := s.decideUnheard(fmt.Sprint("early", i)); d.Sampled || d.Reason != Unreachable && d.Reason != HostFull {
			t.Errorf("%+v", d)
		}
	}
	s.places(0)
	s.serve()
	s.expectAll(0, 2, "sampled")
	// the broker alone says that nobody heard of the question before: what the shuffler says proves less
	for i := range 2 {
		if !s.device(fmt.Sprint("p", i)).Request.Unsure {
			t.Error("that the number was asked for before is forgotten")
		}
	}
	s.due(a)
	s.reports(2)
}

// A number that the shuffler has enrolled before goes to nobody else, so that it is not tried again and again.
func TestASpentNumberIsNotGivenAgain(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.config.Devices = 3
	s.start()
	a := s.unhurried(12)
	s.open(a)
	s.unserve()
	for i := range 3 {
		_ = s.decideUnheard(fmt.Sprint("early", i))
	}
	s.places(0)
	s.serve()
	refused := map[uint32]int{}
	s.mu.Lock()
	s.answer = func(e wire.Enrolment) *wire.EnrolReply {
		if len(refused) > 0 && refused[e.Request.Device] == 0 {
			return nil
		}
		refused[e.Request.Device]++
		return &wire.EnrolReply{Refusal: wire.RefusalAlreadyEnrolled}
	}
	s.mu.Unlock()
	s.expectAll(0, 1, "not_admitted")
	s.expectAll(1, 3, "sampled")
	s.expectAll(3, 5, "host_full")
	for number, n := range refused {
		if n != 1 {
			t.Errorf("number %d is tried %d times", number, n)
		}
	}
	s.due(a)
	s.reports(2)
}

// People come at the same time, more than there are places, and some of them again: no number is ever two people's, and
// all that there are places for are sampled.
func TestPlacesAreGivenOnceWhoeverComesAtOnce(t *testing.T) {
	t.Parallel()
	const places, people = 8, 60
	s := newScene(t)
	s.config.Devices = places
	s.start()
	a := s.unhurried(12)
	digest := s.open(a)
	all := func() (sampled int) {
		var wg sync.WaitGroup
		var mu sync.Mutex
		for i := range 2 * people {
			wg.Go(func() {
				d, err := s.host.Decide(t.Context(), fmt.Sprint("p", i%people), func(int) ([][]float64, error) {
					return [][]float64{{0.6, 0.2}, {-0.3, 0.5}}, nil
				})
				if err != nil {
					t.Error(err)
				}
				mu.Lock()
				defer mu.Unlock()
				if d.Sampled {
					sampled++
				}
			})
		}
		wg.Wait()
		return sampled
	}
	s.refusing(wire.RefusalSponsorShare)
	if n := all(); n != 0 {
		t.Errorf("%d are sampled though all are refused", n)
	}
	s.places(0)
	s.refusing(wire.NoRefusal)
	a, _ = s.next(a, digest, false)
	if n := all(); n != places {
		t.Errorf("%d are sampled, there are %d places", n, places)
	}
	s.places(places)
	if n := len(s.storedNames()); n != places {
		t.Errorf("the store has %d", n)
	}
	if n := len(s.enrolments()); n != places {
		t.Errorf("%d slots were given", n)
	}
	s.due(a)
	s.reports(places)
}

// An older copy of the state gives a vacant place the number that it gave before: the shuffler then knows the device.
func TestVacantPlacesAreGivenInOneOrder(t *testing.T) {
	t.Parallel()
	numbers := func() (order []uint32) {
		all := &places{devices: map[string]*localDevice{}, numbers: newNumbers(host(t, 1), 0)}
		for _, i := range []uint32{5, 3, 9, 1, 7} {
			s := &localDevice{name: fmt.Sprint(i, len(order))}
			s.state.Number = i
			all.vacate(s)
		}
		for s := all.popVacant(); s != nil; s = all.popVacant() {
			order = append(order, s.state.Number)
		}
		return order
	}
	first := numbers()
	if len(first) != 5 || slices.IsSorted(first) || !slices.Equal(first, numbers()) {
		t.Errorf("%v, and then %v", first, numbers())
	}
}

// Where panels are drawn a device takes its place when it registers. Without one it gets its arm all the same, and is
// told why it is not registered.
func TestPanelsOfAFullHost(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.config.Devices = 2
	p := ofPanels(s)
	s.start()
	a := p.next(testbed.Long)
	in := p.name("in")
	p.name("other")
	if status, answer := s.post("/v1/devices/late", ""); status != 200 || answer["registered"] != false ||
		answer["reason"] != "host_full" || answer["detail"] == "" {
		t.Errorf("%d %v", status, answer)
	}
	p.drawNow(a, in)
	p.awaitDraw(1)
	s.expectAll(0, 5, "host_full")
	if d := s.decide("in", twoArms); d["sampled"] != true {
		t.Errorf("%v", d)
	}
	s.places(2)
	s.due(a)
	s.reports(1)
	final := *a
	_, digest := s.Sign(a, s.Analyzer)
	s.next(&final, digest, true)
	s.expectAll(0, 5, "final_policy")
	if _, answer := s.post("/v1/devices/late", ""); answer["reason"] != "final_policy" {
		t.Errorf("%v", answer)
	}
	if names := s.storedNames(); !slices.Equal(names, s.keys("in", "other")) {
		t.Errorf("the store has %v", names)
	}
}

// A credential that covers fewer devices than one that the host ran with is an earlier one, and the host does not start
// with it, whoever took part.
func TestAHostRefusesAnEarlierCredential(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.start()
	s.must(s.stop())
	later := s.config.Devices
	s.config.Devices = later - 1
	if _, err := New(s.config); err == nil || !strings.Contains(err.Error(), "it is an earlier one") {
		t.Errorf("with a credential for %d devices, after one for %d: %v", later-1, later, err)
	}
	s.config.Devices = later
	s.start()
}

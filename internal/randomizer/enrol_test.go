package randomizer

import (
	"context"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/riffle-dp/riffle/internal/role"
	"github.com/riffle-dp/riffle/internal/testing/testbed"
	"github.com/riffle-dp/riffle/pkg/device"
	"github.com/riffle-dp/riffle/pkg/glm"
	"github.com/riffle-dp/riffle/pkg/privacy"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// losing lets answers get lost until the returned function is called.
func (s *scene) losing() (found func()) {
	s.mu.Lock()
	s.lost = func(*wire.EnrolReply) bool { return true }
	s.mu.Unlock()
	return func() {
		s.mu.Lock()
		s.lost = nil
		s.mu.Unlock()
	}
}

// impatient is a decision for a device that does not wait for long.
func (s *scene) impatient(name string) Decision {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond)
	defer cancel()
	d, err := s.host.Decide(ctx, name, func(int) ([][]float64, error) {
		return [][]float64{{0.6, 0.2}, {-0.3, 0.5}},
			nil
	})
	s.must(err)
	return d
}

// A place that was given to a device whose decision did not wait for the answer is filled: the host asks until it
// knows, and the device reports the null record when it promised to. Nobody is asked for twice meanwhile, and the
// ledger never says that nothing was promised.
func TestNoPlaceStaysEmpty(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.start()
	a := s.Announcement(glm.Practical, 12)
	a.Timing.RewardWindow = 1500 * time.Millisecond
	s.open(a)
	found := s.losing()
	for i := range 6 {
		name := fmt.Sprint("p", i)
		for range 2 {
			if d := s.impatient(name); d.Sampled || d.Reason != Unreachable {
				t.Fatalf("%+v", d)
			}
		}
		if l := s.host.Ledger(name); l.State(1) != privacy.Asked ||
			strings.Contains(l.Explain(), "Nothing was spent") || !strings.Contains(l.Explain(), "no answer has come") {
			t.Errorf("while no answer has come the ledger says %s", l.Explain())
		}
	}
	if d := s.decide("p6", twoArms); d["reason"] != "shuffler_unreachable" { // after as long as any decision waits
		t.Errorf("%v", d)
	}
	if n := s.host.Pending(); n != 0 {
		t.Errorf("%d reports are pending", n)
	}
	found()
	for i := range 7 {
		testbed.Eventually(t, "promised", func() bool { return s.device(fmt.Sprint("p", i)).Enrolment != nil })
	}
	s.host.mu.Lock()
	open := slices.Collect(maps.Values(s.host.open))
	s.host.mu.Unlock()
	for _, held := range open {
		held.seat.mu.Lock()
		if !held.record.Remember([]float64{1, 0}, 1) {
			t.Error("something of a decision that was told to be not sampled is in the record")
		}
		held.seat.mu.Unlock()
	}
	if d := s.decide("p0", twoArms); d["reason"] != "record_used" {
		t.Errorf("a later decision: %v", d)
	}
	s.reports(7)
	if l := s.host.Ledger("p0"); l.State(1) != privacy.Spent {
		t.Errorf("ledger %+v", l)
	}
	if len(s.enrolments()) != 7 {
		t.Errorf("%d places are taken", len(s.enrolments()))
	}
}

// The same over a restart, however early the first process dies: its wish is durable before anybody hears of it.
func TestARestartFillsThePlace(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.start()
	s.open(s.Announcement(glm.Practical, 12))
	durable := make(chan privacy.EntryState, 1)
	s.mu.Lock()
	s.lost = func(*wire.EnrolReply) bool {
		if len(durable) == 0 && s.asked == 1 { // at the time of the first request
			durable <- kept(t, s.host, "x").Ledger.State(1)
		}
		return true
	}
	s.mu.Unlock()
	s.impatient("x")
	if state := <-durable; state != privacy.Asked {
		t.Errorf("when the shuffler heard of the device the store had %q of it", state)
	}
	s.must(s.stop())
	s.mu.Lock()
	s.lost = nil
	s.mu.Unlock()
	s.start() // nobody decides for x again
	s.reports(1)
	if l := s.host.Ledger("x"); l.State(1) != privacy.Spent {
		t.Errorf("ledger %+v", l)
	}
	if n := len(s.enrolments()); n != 1 {
		t.Errorf("%d places are taken", n)
	}
}

// kept is what the store has of a device.
func kept(t *testing.T, h *Host, name string) (found Device) {
	t.Helper()
	if err := h.store.Load(func(d Device) error {
		if d.Name == name {
			found = d
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
	return found
}

// A definite no gives the record back, at once or late: nothing was promised, and the ledger says so. So does a
// question that nobody can have heard.
func TestARefusalCostsNothing(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.start()
	s.open(s.Announcement(glm.Practical, 12))
	found := s.losing()
	no := wire.RefusalWrongEpoch
	s.mu.Lock()
	s.answer = func(wire.Enrolment) *wire.EnrolReply { return &wire.EnrolReply{Refusal: no} }
	s.mu.Unlock()
	s.impatient("late")
	found()
	time.Sleep(300 * time.Millisecond)
	if l := s.host.Ledger("late"); l.State(1) != privacy.Asked { // an answer got lost, and "another epoch" is none
		t.Errorf("ledger %+v", l)
	}
	s.mu.Lock()
	no = wire.RefusalHostShare
	s.mu.Unlock()
	nothing := func(name string) {
		t.Helper()
		testbed.Eventually(t, "settled", func() bool {
			return strings.Contains(s.host.Ledger(name).Explain(),
				"Nothing was spent or promised")
		})
		if d := kept(t, s.host, name); len(d.Ledger.Entries) != 0 {
			t.Errorf("the store has %+v", d)
		}
	}
	nothing("late")
	if d := s.decide("refused", twoArms); d["reason"] != "not_admitted" {
		t.Errorf("%v", d)
	}
	nothing("refused")
	s.unserve()
	testbed.Eventually(t, "unserved", func() bool {
		before := s.count()
		_ = s.impatient("unheard")
		return s.count() == before
	})
	nothing("unheard")
	s.reports(0)
}

func (s *scene) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked
}

// An epoch that ends without an answer leaves the question open for ever: the person may have been enrolled, so the
// record counts as used and the ledger says why, and that the shuffler knows the device is no surprise in a later
// epoch.
func TestAnEpochOverWithoutAnAnswer(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.config.Limits.Records, s.config.Limits.Epsilon = 2, 10
	s.start()
	a := s.Announcement(glm.Practical, 12)
	digest := s.open(a)
	found := s.losing()
	s.impatient("x")
	next := s.Announcement(glm.Practical, 12)
	next.Epoch, next.Previous = 2, digest[:]
	s.open(next)
	found()
	for range 2 {
		l := s.host.Ledger("x")
		if l.State(1) != privacy.Asked || !strings.Contains(l.Explain(), "Epoch 1: epsilon") ||
			!strings.Contains(l.Explain(), "may not be kept") {
			t.Errorf("ledger: %s", l.Explain())
		}
		s.must(s.stop())
		s.start()
		s.judged(next)
	}
	s.mu.Lock()
	s.answer = func(wire.Enrolment) *wire.EnrolReply {
		return &wire.EnrolReply{Refusal: wire.RefusalAlreadyEnrolled}
	}
	s.mu.Unlock()
	if d := s.decide("x", twoArms); d["reason"] != "not_admitted" {
		t.Errorf("%v", d)
	}
	if l := s.host.Ledger("x"); l.State(1) != privacy.Asked || l.State(2) != "" || s.host.Status().Refused != "" {
		t.Errorf("ledger %+v, status %+v", l, s.host.Status())
	}
	s.reports(0)
}

// The store of a host is set back to an older copy. What the shuffler knows of the host's next numbers proves it: the
// host enrols nobody and sends nothing from then on, also after a restart, and says so everywhere; with its newest
// store it goes on.
func TestARolledBackStoreStopsTheHost(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	a := s.Announcement(glm.Practical, 20)
	a.Timing.RewardWindow = time.Minute
	s.start()
	s.open(a)
	path := filepath.Join(s.config.StateDir, "devices")
	copyTo := func(from, to string) {
		t.Helper()
		b, err := os.ReadFile(from)
		s.must(err)
		s.must(os.WriteFile(to, b, 0o600))
	}
	for i := range 3 {
		s.decide(fmt.Sprint("p", i), twoArms)
	}
	s.must(s.stop())
	copyTo(path, path+".old")
	s.start()
	s.judged(a)
	for i := range 5 {
		if d := s.decide(fmt.Sprint("twice", i), twoArms); d["sampled"] != true {
			t.Fatalf("%v", d)
		}
	}
	s.must(s.stop())
	copyTo(path, path+".new")
	copyTo(path+".old", path)

	env, err := role.NewEnv("randomizer", role.DefaultSettings("127.0.0.1:0"), io.Discard)
	s.must(err)
	s.config.State = env.Health.Condition("state")
	stopped := func(when string) {
		t.Helper()
		for i := range 5 { // in another order than before, after which the same people would have new numbers
			d := s.decide(fmt.Sprint("twice", 4-i), twoArms)
			if d["reason"] != "state_rolled_back" || d["sampled"] != false {
				t.Errorf("%s: %v", when, d)
			}
		}
		if n := len(s.enrolments()); n != 8 {
			t.Errorf("%s: %d devices are enrolled", when, n)
		}
		if st := s.host.Status(); st.Enrolling || !strings.Contains(st.Refused, "older than what it has done") {
			t.Errorf("%s: status %+v", when, st)
		}
		if err := env.Health.Ready(); err == nil ||
			!strings.Contains(err.Error(), "state: the state of this host is older") {
			t.Errorf("%s: ready: %v", when, err)
		}
		if !strings.Contains(s.logged.String(), "restore the newest copy") ||
			!strings.Contains(s.logged.String(), `"reason":"state_rolled_back"`) {
			t.Errorf("%s: the log does not say what to do", when)
		}
		s.reports(0) // nor is anything pending
	}
	s.start()
	s.judged(a)
	if env.Health.Ready() != nil {
		t.Errorf("not ready before anything is proved: %v", env.Health.Ready())
	}
	stopped("proved")
	if n := s.refused(StateRolledBack); n != 3 { // what the older store had promised
		t.Errorf("%d reports were withheld", n)
	}
	s.must(s.stop())
	s.start()
	s.judged(a)
	stopped("after a restart")
	s.must(s.stop())

	copyTo(path+".new", path)
	s.start()
	s.judged(a)
	if n := s.host.Pending(); n != 8 || env.Health.Ready() != nil {
		t.Errorf("with the newest store %d reports are promised, ready: %v", n, env.Health.Ready())
	}
	if d := s.decide("somebody", twoArms); d["sampled"] != true {
		t.Errorf("with the newest store: %v", d)
	}
}

// The next epoch proves it as well, and reports that were sealed since the older copy was restored are withheld: their
// people may have reported before.
func TestARolledBackStoreIsProvedByALaterEpoch(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.start()
	a := s.Announcement(glm.Practical, 12)
	a.Timing.RewardWindow = time.Minute
	s.open(a)
	s.decide("x", twoArms)
	s.mu.Lock()
	s.answer = func(wire.Enrolment) *wire.EnrolReply {
		return &wire.EnrolReply{Refusal: wire.RefusalAlreadyEnrolled}
	}
	s.mu.Unlock()
	if d := s.decide("y", twoArms); d["reason"] != "state_rolled_back" {
		t.Errorf("%v", d)
	}
	if n := s.refused(StateRolledBack); n != 1 || s.host.Pending() != 0 {
		t.Errorf("%d reports were withheld, %d are pending", n, s.host.Pending())
	}
	// A sealed one that waits for a sender.
	s.host.c.Reports.Received(1)
	s.host.mu.Lock()
	s.host.pending++
	s.host.mu.Unlock()
	s.host.outbox <- Outgoing{Epoch: 1, Number: 7, Envelope: []byte("sealed")}
	testbed.Eventually(t, "withheld", func() bool { return s.refused(StateRolledBack) == 2 })
	s.reports(0)
}

// A disk that takes nothing any more is no reason to go on with a store that is proved old.
func TestARolledBackStoreThatCannotBeMarkedStopsTheHost(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.start()
	a := s.Announcement(glm.Practical, 12)
	a.Timing.RewardWindow = time.Minute
	s.open(a)
	s.decide("x", twoArms)
	s.mu.Lock()
	s.answer = func(wire.Enrolment) *wire.EnrolReply {
		if err := s.host.store.Close(); err != nil { // what is written from here on fails
			t.Error(err)
		}
		return &wire.EnrolReply{Refusal: wire.RefusalAlreadyEnrolled}
	}
	s.mu.Unlock()
	if status, answer := s.post("/v1/devices/y/decisions", twoArms); status != http.StatusInternalServerError {
		t.Errorf("%d %v", status, answer)
	}
	if n := s.refused(StateRolledBack); n != 1 || s.host.Pending() != 0 {
		t.Errorf("%d reports were withheld, %d are pending", n, s.host.Pending())
	}
	if d := s.decide("z", twoArms); d["reason"] != "state_rolled_back" {
		t.Errorf("%v", d)
	}
	s.reports(0)
}

// A promise that becomes durable while another device's answer proves the store old is not kept.
func TestAPromiseBesideTheProofIsWithheld(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.start()
	s.open(s.Announcement(glm.Practical, 12))
	seat, err := s.host.seat("x")
	s.must(err)
	s.host.mu.Lock()
	a := s.host.current
	s.host.rolledBack = device.ErrRolledBack
	s.host.mu.Unlock()
	seat.mu.Lock()
	seat.state, err = seat.state.Ask(a)
	seat.mu.Unlock()
	s.must(err)
	promised, err := s.host.promise(a, seat, &wire.EnrolReply{Enrolled: true, ReportAfter: 100 * time.Millisecond})
	s.must(err)
	seat.mu.Lock()
	over := promised.record.Over()
	seat.mu.Unlock()
	if n := s.refused(StateRolledBack); !over || n != 1 || s.host.Pending() != 0 {
		t.Errorf("over %v; %d reports were withheld, %d are pending", over, n, s.host.Pending())
	}
	s.reports(0)
}

// No false alarm: answers get lost (seven in ten, over a seed), processes stop at any moment, the shuffler is away and
// comes back, epochs end meanwhile. Whatever the shuffler says of the places that it gave then, the host never takes
// its store for an old one, every place of the epoch in force is filled, and nothing is unaccounted for.
func TestLossesAndRestartsAreNoRollback(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.config.Limits.Records, s.config.Limits.Epsilon = 3, 20
	coins := rand.New(rand.NewPCG(8, 2))
	var held, lost int
	s.lost = func(reply *wire.EnrolReply) bool {
		no := coins.IntN(10) < 7
		if no {
			lost++
		} else if reply.Held {
			held++
		}
		return no
	}
	a := s.Announcement(glm.Practical, 40)
	s.start()
	digest := s.open(a)
	people := 0
	epoch := func() {
		for range 3 {
			for range 6 {
				s.impatient(fmt.Sprint("p", people))
				people++
				s.impatient(fmt.Sprint("p", people/2))
			}
			s.must(s.stop())
			s.start()
			s.judged(a)
		}
	}
	epoch()
	s.mu.Lock()
	earlier := s.slots
	s.slots = map[uint32]uint32{}
	s.answer = func(e wire.Enrolment) *wire.EnrolReply {
		switch _, before := earlier[e.Request.Device]; {
		case e.Request.Epoch != 2:
			return &wire.EnrolReply{Refusal: wire.RefusalWrongEpoch}
		case before:
			return &wire.EnrolReply{Refusal: wire.RefusalAlreadyEnrolled}
		}
		return nil
	}
	s.mu.Unlock()
	a = s.Announcement(glm.Practical, 40)
	a.Epoch, a.Previous = 2, digest[:]
	s.open(a)
	epoch()
	testbed.Eventually(t, "settled", func() bool {
		for _, seat := range s.host.seats() {
			if seat.now().Asked(2) {
				return false
			}
		}
		return true
	})
	if refused := s.host.Status().Refused; refused != "" || strings.Contains(s.logged.String(), "no further part") {
		t.Fatalf("a false alarm: %q", refused)
	}
	testbed.Eventually(t, "quiet", func() bool { return s.host.Pending() == 0 })
	s.mu.Lock()
	defer s.mu.Unlock()
	reported := map[uint32]bool{}
	for _, r := range s.arrived {
		if r.epoch == a.Epoch {
			reported[s.Open(r.envelope, a).Slot] = true
		}
	}
	for number, slot := range s.slots {
		if !reported[slot] {
			t.Errorf("slot %d of device %d stays empty", slot, number)
		}
	}
	if lost < 20 || held < 10 || len(s.slots) < 10 {
		t.Errorf("no power: %d answers were lost, %d answers spoke of a place that was given before, %d places", lost,
			held, len(s.slots))
	}
}

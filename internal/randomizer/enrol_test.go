package randomizer

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/riffle-dp/riffle/internal/randomizer/api"
	"github.com/riffle-dp/riffle/internal/randomizer/store"
	"github.com/riffle-dp/riffle/internal/testing/testbed"
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

// decideWithoutWaiting is a decision for a device that waits until the shuffler was asked for the device, and not for
// the answer.
func (s *scene) decideWithoutWaiting(name string) api.Decision {
	s.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		for ctx.Err() == nil {
			dev := s.host.places.get(name)
			if dev != nil && s.heardOf(dev.now().Number) {
				cancel()
			}
			time.Sleep(5 * time.Millisecond)
		}
	}()
	return s.decideWithin(ctx, name)
}

// heardOf reports whether the shuffler was asked for a device.
func (s *scene) heardOf(number uint32) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.heard[number]
}

// decideUnheard is a decision for a device of which no shuffler hears.
func (s *scene) decideUnheard(name string) api.Decision {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond)
	defer cancel()
	return s.decideWithin(ctx, name)
}

// decideWithin is a decision for a device that waits no longer than ctx.
func (s *scene) decideWithin(ctx context.Context, name string) api.Decision {
	s.t.Helper()
	d, err := s.host.Decide(ctx, name, func(int) ([][]float64, error) {
		return [][]float64{{0.6, 0.2}, {-0.3, 0.5}}, nil
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
	s.clock.Strict = true
	s.start()
	a := s.Announcement(glm.Practical, 12)
	a.Timing.RewardWindow = 1500 * time.Millisecond
	s.open(a)
	found := s.losing()
	for i := range 6 {
		name := fmt.Sprint("p", i)
		for range 2 {
			if d := s.decideWithoutWaiting(name); d.Sampled || d.Reason != Unreachable {
				t.Fatalf("%+v", d)
			}
		}
		if l := s.host.State(name).Ledger; l.State(1) != privacy.Asked ||
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
	open := s.host.promises.sessions()
	for _, held := range open {
		held.dev.mu.Lock()
		if _, kept := held.record.Remember([]float64{1, 0}, glm.Decision{Weight: 1}); !kept {
			t.Error("something of a decision that was told to be not sampled is in the record")
		}
		held.dev.mu.Unlock()
	}
	if d := s.decide("p0", twoArms); d["reason"] != "record_used" {
		t.Errorf("a later decision: %v", d)
	}
	s.reports(7)
	if l := s.host.State("p0").Ledger; l.State(1) != privacy.Spent {
		t.Errorf("ledger %+v", l)
	}
	if len(s.enrolments()) != 7 {
		t.Errorf("%d places are taken", len(s.enrolments()))
	}
}

// The same over a restart, however early the first process dies: its question is durable before anybody hears of it.
func TestARestartFillsThePlace(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.start()
	s.open(s.Announcement(glm.Practical, 12))
	durable := make(chan privacy.EntryState, 1)
	s.mu.Lock()
	s.lost = func(*wire.EnrolReply) bool {
		if len(durable) == 0 && s.asked == 1 { // at the time of the first request
			durable <- load(t, s.host, "x").Ledger.State(1)
		}
		return true
	}
	s.mu.Unlock()
	s.decideWithoutWaiting("x")
	if state := <-durable; state != privacy.Asked {
		t.Errorf("when the shuffler heard of the device the store had %q of it", state)
	}
	s.must(s.stop())
	s.mu.Lock()
	s.lost = nil
	s.mu.Unlock()
	s.start() // nobody decides for x again
	s.reports(1)
	if l := s.host.State("x").Ledger; l.State(1) != privacy.Spent {
		t.Errorf("ledger %+v", l)
	}
	if n := len(s.enrolments()); n != 1 {
		t.Errorf("%d places are taken", n)
	}
}

// load is what the store has of a device.
func load(t *testing.T, h *Host, name string) (found store.Device) {
	t.Helper()
	if err := h.store.Load(func(d store.Device) error {
		if d.Name == h.store.Key(name) {
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
	s.decideWithoutWaiting("late")
	found()
	asked := func() int { s.mu.Lock(); defer s.mu.Unlock(); return s.asked }
	soFar := asked()
	testbed.Eventually(t, "asked again", func() bool { return asked() >= soFar+3 })
	// an answer got lost, and "another epoch" is none
	if l := s.host.State("late").Ledger; l.State(1) != privacy.Asked {
		t.Errorf("ledger %+v", l)
	}
	s.mu.Lock()
	no = wire.RefusalSponsorShare
	s.mu.Unlock()
	nothing := func(name string) {
		t.Helper()
		testbed.Eventually(t, "resolved", func() bool {
			return strings.Contains(s.host.State(name).Ledger.Explain(),
				"Nothing was spent or promised")
		})
		if d := load(t, s.host, name); len(d.Ledger.Entries) != 0 {
			t.Errorf("the store has %+v", d)
		}
	}
	nothing("late")
	if d := s.decide("refused", twoArms); d["reason"] != "not_admitted" {
		t.Errorf("%v", d)
	}
	nothing("refused")
	s.unserve()
	before := s.count()
	_ = s.decideUnheard("unheard")
	if s.count() != before {
		t.Error("a request is heard after the service has ended")
	}
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
	s.decideWithoutWaiting("x")
	next := s.Announcement(glm.Practical, 12)
	next.Epoch, next.Previous = 2, digest[:]
	s.open(next)
	for range 2 {
		l := s.host.State("x").Ledger
		if l.State(1) != privacy.Asked || !strings.Contains(l.Explain(), "Epoch 1: epsilon") ||
			!strings.Contains(l.Explain(), "may not be kept") {
			t.Errorf("ledger: %s", l.Explain())
		}
		s.must(s.stop())
		s.start()
		s.awaitRound(next)
	}
	found() // no question of the first epoch is under way: the host that asked has stopped
	s.mu.Lock()
	s.answer = func(wire.Enrolment) *wire.EnrolReply {
		return &wire.EnrolReply{Refusal: wire.RefusalAlreadyEnrolled}
	}
	s.mu.Unlock()
	if d := s.decide("x", twoArms); d["reason"] != "not_admitted" {
		t.Errorf("%v", d)
	}
	if l := s.host.State("x").Ledger; l.State(1) != privacy.Asked || l.State(2) != "" || s.host.Status().Refused != "" {
		t.Errorf("ledger %+v, status %+v", l, s.host.Status())
	}
	s.reports(0)
}

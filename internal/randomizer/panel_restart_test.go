package randomizer

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/riffle-dp/riffle/internal/testing/testbed"
	"github.com/riffle-dp/riffle/pkg/device"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/privacy"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// A host that dies after the shuffler registered a device and before it heard so registers it again, and takes the
// answer that it was registered for what it is.
func TestARestartWhileADeviceRegisters(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	p := ofPanels(s)
	s.lost = func(r *wire.EnrolReply) bool { return true }
	s.start()
	a := p.next(time.Second)
	s.post("/v1/devices/x", "")
	testbed.Eventually(t, "asked", func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return len(p.registered) == 1
	})
	s.must(s.stop())
	s.mu.Lock()
	s.lost = nil
	s.mu.Unlock()
	s.start()
	s.awaitRound(a)
	p.knows("x", "registered", true) // by itself: no app names it again
	p.drawNow(a, s.device("x").Number)
	p.awaitDraw(1)
	s.reports(1)
}

// A device that an app named before anything was announced is registered by the next process, whose apps do not name it
// again: nobody is forgotten who was told that the name was taken.
func TestADeviceNamedBeforeARestartIsRegistered(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	p := ofPanels(s)
	s.start()
	if status, answer := s.post("/v1/devices/x", ""); status != 200 || answer["registered"] != false {
		t.Fatalf("%d %v", status, answer)
	}
	s.must(s.stop())
	s.start()
	p.next(time.Second)
	p.knows("x", "registered", true)
}

// A device whose registration was refused asks again in the same epoch:
// the epoch waits for registrations, so that none may come after it.
func TestARefusedRegistrationIsTriedAgain(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	p := ofPanels(s)
	times := 0
	p.lie = func(e wire.Enrolment, r *wire.EnrolReply) {
		if e.Request.Epoch != 0 {
			return
		}
		if times++; times == 1 {
			delete(p.registered, e.Request.Device)
			*r = wire.EnrolReply{Refusal: wire.RefusalMalformed}
		}
	}
	s.start()
	p.next(30 * time.Second)
	p.name("x")
	s.mu.Lock()
	defer s.mu.Unlock()
	if times != 2 {
		t.Errorf("asked %d times to be registered", times)
	}
}

// A host dies with a question that has no answer, with a promise and decisions, and after a report. The next process
// asks again, keeps the promise with what is decided from then on, and reports once.
func TestRestartsInAnEpochOfPanels(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	p := ofPanels(s)
	s.start()
	a := p.next(testbed.Long)
	x, y := p.name("x"), p.name("y")
	testbed.Eventually(t, "asked", func() bool {
		s.clock.Pass(time.Minute) // no host waits for longer until it asks again
		s.mu.Lock()
		defer s.mu.Unlock()
		return p.asks[[2]uint64{uint64(x), 1}] > 0 && p.asks[[2]uint64{uint64(y), 1}] > 0
	})
	s.must(s.stop())
	s.start()
	s.awaitRound(a)
	p.drawNow(a, x)
	p.awaitDraw(1)
	if l := s.device("y").Ledger; len(l.Entries) != 0 {
		t.Errorf("the ledger of a device that is not in the panel: %+v", l)
	}
	lost := s.decide("x", twoArms)
	s.must(s.stop())
	s.start()
	s.awaitRound(a)
	if status, _ := s.post("/v1/rewards", fmt.Sprintf(`{"token": %q, "reward": 1}`,
		lost["token"])); status != http.StatusGone {
		t.Errorf("the reward of a decision that is lost: %d", status)
	}
	for i := range panelDecisions {
		if d := s.decide("x", twoArms); d["sampled"] != true {
			t.Errorf("decision %d after the restart: %v", i, d)
		}
	}
	s.due(a)
	s.reports(1)
	s.must(s.stop())
	s.start()
	s.awaitRound(a)
	p.awaitDraw(1)
	if d := s.decide("x", twoArms); d["reason"] != "window_over" {
		t.Errorf("after the report: %v", d)
	}
	if l := s.device("x").Ledger; len(l.Entries) != 1 || l.Entries[0].State != privacy.Spent {
		t.Errorf("the ledger after the report: %+v", l)
	}
	s.reports(1)
}

// A decision that begins before the host knows that panels are drawn asks for no place in one once it does: the request
// would leave when the person acts.
func TestADecisionThatOvertakesTheFirstAnnouncementAsksNothing(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	p := ofPanels(s)
	s.start()
	p.next(testbed.Long) // it asks by itself once a minute
	x := p.name("x")
	asked := func() int {
		s.mu.Lock()
		defer s.mu.Unlock()
		return p.asks[[2]uint64{uint64(x), 1}]
	}
	testbed.Eventually(t, "asked", func() bool { return asked() > 0 })
	dev, _, err := s.host.take("x", nil, nil)
	s.must(err)
	dev.mu.Lock()
	// as if it had not asked yet
	dev.state = dev.state.Expire(&device.Announced{Announcement: &plan.Announcement{Epoch: 2}})
	dev.mu.Unlock()
	before := len(dev.now().Ledger.Entries)
	_, session, why, err := s.host.enrolments.enrol(t.Context(), "x")
	if err != nil || session != nil || reasonOf(why) != NotDrawn {
		t.Errorf("the decision enrols: %v, %v, %v", session, why, err)
	}
	if got := len(dev.now().Ledger.Entries); got != before {
		t.Errorf("the decision set %d entries aside, there were %d", got, before)
	}
}

// A host that was away for three epochs, with a promise and a question of the first, goes on with the one in force: it
// sends nothing of the others, and what it had set aside for them is taken back.
func TestAHostThatWasAway(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	p := ofPanels(s)
	s.start()
	a := p.next(time.Minute)
	begun := time.Now()
	in, asks := p.name("in"), p.name("asks")
	s.mu.Lock()
	p.lie = func(e wire.Enrolment, r *wire.EnrolReply) { // one of them hears nothing
		if e.Request.Device == asks && e.Request.Epoch > 0 {
			*r = wire.EnrolReply{Refusal: wire.RefusalWrongEpoch}
		}
	}
	s.mu.Unlock()
	p.drawNow(a, in)
	testbed.Eventually(t, "promised and asked", func() bool {
		return s.host.Status().Panel.Members == 1 && s.device("asks").Asked(1)
	})
	s.decide("in", twoArms)
	time.Sleep(200 * time.Millisecond)
	s.must(s.stop())
	s.mu.Lock()
	// Pauses double from 50 ms (firstPause), so that five requests fit into the first second, and there are those
	// before the other device had its answer. A device that does not wait asks hundreds of times.
	n, most := p.asks[[2]uint64{uint64(asks), 1}], int(time.Since(begun)/hostAsks)+8
	s.mu.Unlock()
	if n > most {
		t.Errorf("a device that hears nothing while another one does asked %d times in %v, at most %d", n,
			time.Since(begun), most)
	}
	s.host = nil
	for range 2 {
		p.next(time.Minute)
	}
	b := p.next(time.Minute)
	s.mu.Lock()
	p.lie = nil
	s.mu.Unlock()
	s.start()
	s.awaitRound(b)
	p.drawNow(b, in, asks)
	p.awaitDraw(2)
	s.due(b)
	for _, r := range s.reports(2) {
		if r.epoch != 4 {
			t.Errorf("a report of epoch %d", r.epoch)
		}
	}
	for _, name := range []string{"in", "asks"} {
		if l := s.device(name).Ledger; len(l.Entries) != 1 || l.Entries[0].Epoch != 4 {
			t.Errorf("%s: %+v", name, l)
		}
	}
}

// The next epoch begins while a promise of the last one is open: the promise is dropped, what was set aside for it is
// taken back, and the device takes part in the new one.
func TestAnEpochThatEndsEarly(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	p := ofPanels(s)
	s.start()
	a := p.next(testbed.Long)
	in := p.name("in")
	p.drawNow(a, in)
	p.awaitDraw(1)
	s.decide("in", twoArms)
	b := p.next(testbed.Long)
	p.drawNow(b, in)
	p.awaitDraw(1)
	if d := s.decide("in", twoArms); d["sampled"] != true || d["epoch"] != 2.0 {
		t.Errorf("%v", d)
	}
	s.due(b)
	if got := s.reports(1); got[0].epoch != 2 {
		t.Errorf("a report of epoch %d", got[0].epoch)
	}
	if n := s.countRefused(EpochOver); n != 1 {
		t.Errorf("%d promises ended with their epoch", n)
	}
	if l := s.device("in").Ledger; len(l.Entries) != 1 || l.Entries[0].Epoch != 2 {
		t.Errorf("%+v", l)
	}
}

// A device that comes back between the panel's report time and its deadline reports at once, the null record.
func TestADeviceThatComesBackLateReportsAtOnce(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	p := ofPanels(s)
	s.start()
	a := p.next(testbed.Long)
	in := p.name("in")
	s.must(s.stop())
	p.drawNow(a, in)
	s.due(a)
	s.start()
	s.awaitRound(a)
	begin := s.clock.Now()
	if r := s.reports(1); r[0].at.Sub(begin) > patience {
		t.Error("the report waits")
	}
}

// The store of a host is set back to before a device registered, or before it reported. The shuffler's word proves it,
// and the host stops for good.
func TestARolledBackStoreOfPanels(t *testing.T) {
	t.Parallel()
	for _, registered := range []bool{false, true} {
		s := newScene(t)
		p := ofPanels(s)
		path := filepath.Join(s.config.StateDir, "devices")
		s.start()
		a := p.next(500 * time.Millisecond)
		if registered {
			p.name("x")
		}
		s.must(s.stop())
		old, err := os.ReadFile(path)
		s.must(err)
		s.start()
		s.awaitRound(a)
		x := p.name("x")
		if registered {
			p.drawNow(a, x)
			s.reports(1)
			s.mu.Lock()
			p.lie = func(e wire.Enrolment, r *wire.EnrolReply) { // as an honest shuffler says once it has the report
				r.Held = r.Enrolled
			}
			s.mu.Unlock()
		}
		s.must(s.stop())
		s.must(os.WriteFile(path, old, 0o600))
		for range 2 { // and after another restart
			s.start()
			s.awaitRound(a)
			s.post("/v1/devices/x", "")
			testbed.Eventually(t, "stopped", func() bool {
				return strings.Contains(s.host.Status().Refused, device.ErrRolledBack.Error())
			})
			if d := s.decide("x", twoArms); d["sampled"] != false || d["reason"] != "state_rolled_back" {
				t.Errorf("registered %v: %v", registered, d)
			}
			s.must(s.stop())
		}
	}
}

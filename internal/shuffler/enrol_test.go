package shuffler

import (
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/riffle-dp/riffle/internal/shuffler/cohort"
	"github.com/riffle-dp/riffle/internal/testing/testbed"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// Who may enrol: devices that the registrar admitted, once each, under the one announcement that is open (conditions 10
// and 18).
func TestOnlyAdmittedDevicesEnrol(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.start()
	s.opened = s.announcement()
	if r := s.ask(0); r.Refusal != wire.RefusalWrongEpoch {
		t.Errorf("before any announcement: %v", r)
	}
	a := s.announcement()
	a.Timing.RewardWindow = testbed.Long // of which a busy machine takes a little before it answers
	s.open(a)
	first := s.ask(0)
	low, high := a.Timing.RewardWindow-testbed.Patience, a.Timing.RewardWindow+a.Timing.Jitter
	if !first.Enrolled || first.Held || first.Slot != 0 || first.ReportAfter < low || first.ReportAfter > high {
		t.Errorf("first: %v, the window is %v", first, a.Timing)
	}
	if again := s.ask(0); !again.Enrolled || !again.Held || again.Slot != 0 || again.ReportAfter > first.ReportAfter {
		t.Errorf("asked again: %v after %v", again, first)
	}
	stranger, _ := s.Host(capacity)
	refuse := func(what string, want wire.Refusal, reply *wire.EnrolReply) {
		t.Helper()
		if reply.Enrolled || reply.Refusal != want {
			t.Errorf("%s: %v", what, reply)
		}
	}
	refuse("two digests", wire.RefusalWrongAnnouncement, s.ask(1, func(r *wire.EnrolRequest) {
		r.Announcement = make([]byte, 32)
	}))
	refuse("another epoch", wire.RefusalWrongEpoch, s.ask(1, func(r *wire.EnrolRequest) { r.Epoch = 2 }))
	refuse("a device beyond the credential", wire.RefusalNoCredential, s.ask(capacity))
	refuse("another deployment", wire.RefusalWrongDeployment, s.ask(1, func(r *wire.EnrolRequest) {
		r.Deployment = "elsewhere"
	}))
	request := s.request(1)
	stolen, _ := s.Sign(request, stranger)
	refuse("another host's credential", wire.RefusalNoCredential, s.askRaw(stolen))
	own := &wire.Credential{Deployment: testbed.Deployment, HostKey: stranger.Public(), Devices: 9}
	forged, _ := s.Sign(own, stranger)
	request.Credential = forged
	selfMade, _ := s.Sign(request, stranger)
	refuse("a credential of one's own making", wire.RefusalNoCredential, s.askRaw(selfMade))
	refuse("junk", wire.RefusalMalformed, s.askRaw([]byte("junk")))
	if f, _ := s.shuffler.Filling(); f.Enrolled != 1 {
		t.Errorf("%d are enrolled", f.Enrolled)
	}
}

// A host with its share of a cohort is refused more, and people are told where one host holds most of it.
func TestAHostHoldsNoMoreThanItsShare(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.config.SponsorShare = 0.6
	s.start()
	s.open(s.announcement())
	warned := func() bool {
		return strings.Contains(strings.Join(s.shuffler.Snapshot().Warnings, "\n"), "admission.sponsor_share")
	}
	s.enrol(6)
	if warned() || *s.shuffler.Snapshot().Cohort.Largest != 6 {
		t.Error("warned of a host with half of the slots")
	}
	if r := s.ask(6); !r.Enrolled || !warned() { // the seventh of twelve is the last within 0.6
		t.Errorf("%v, warned %v", r, warned())
	}
	if r := s.ask(7); r.Enrolled || r.Refusal != wire.RefusalSponsorShare {
		t.Errorf("the eighth: %v", r)
	}
	s.host, s.credential = s.Host(capacity)
	if r := s.ask(0); !r.Enrolled || r.Slot != 7 {
		t.Errorf("another host's: %v", r)
	}
}

// The next cohort takes no device that was in an earlier one: one person is one record (condition 15).
func TestNoDeviceIsInTwoCohorts(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.start()
	s.open(s.announcement())
	s.enrol(12)
	s.sendAll(12)
	s.manifest(1, 0)
	s.finished()
	next := s.announcement()
	next.Epoch, next.Previous = 2, s.digest[:]
	old := s.report(3)
	s.open(next)
	if r := s.ask(3); r.Refusal != wire.RefusalAlreadyEnrolled {
		t.Errorf("in the second cohort: %v", r)
	}
	if r := s.ask(30); !r.Enrolled || r.Slot != 0 {
		t.Errorf("a new device: %v", r)
	}
	s.sendTo(1, 0, old)
	s.account(12, 0, map[wire.Refusal]int{wire.RefusalLate: 1})
	s.must(s.stop())
	s.start()
	if r := s.ask(3); r.Refusal != wire.RefusalAlreadyEnrolled {
		t.Errorf("after a restart: %v", r)
	}
}

// Devices are enrolled under the longest times that an announcement can have: a report may be due after more than one
// of them allows.
func TestEnrolmentUnderTheLongestTimes(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.start()
	a := s.announcement()
	a.Timing.RewardWindow, a.Timing.Jitter = wire.MaxTiming*time.Millisecond, wire.MaxTiming*time.Millisecond
	s.open(a)
	for device := range uint32(3) {
		if r := s.ask(device); !r.Enrolled || r.ReportAfter < a.Timing.RewardWindow-time.Minute {
			t.Errorf("device %d: %+v", device, r)
		}
	}
}

// One request enrols several devices of a host. Each is answered as if it had asked alone, in the order of the request,
// and a repetition gives the same.
func TestDevicesEnrolTogether(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.config.SponsorShare = 0.6
	s.start()
	a := s.announcement()
	a.Timing.RewardWindow = testbed.Long // not over when a busy machine asks again
	s.open(a)
	s.enrol(2)
	several := further(3, 4, 5, 8, 9, 10)
	for _, asked := range []bool{false, true} {
		before := s.devices.Traffic().Repeats
		all := s.ask(1, several)
		repeated := s.devices.Traffic().Repeats != before // the machine was busy: the first answer came too late
		if len(all.Further) != 6 {
			t.Fatalf("%d further answers", len(all.Further))
		}
		for place, slot := range []uint32{1, 2, 3, 4, 5, 6} { // the seventh of twelve is the last within 0.6
			r := all.Of(place)
			held := r.Held == (asked || place == 0) || r.Held && repeated
			if !r.Enrolled || r.Slot != slot || !held || r.ReportAfter == 0 {
				t.Errorf("place %d: %+v", place, r)
			}
		}
		if r := all.Of(6); r.Enrolled || r.Refusal != wire.RefusalSponsorShare {
			t.Errorf("above the host's share: %+v", r)
		}
	}
	if r := s.ask(0, further(capacity)); r.Enrolled ||
		r.Refusal != wire.RefusalNoCredential || len(r.Further) != 0 {
		t.Errorf("one of them is beyond the credential: %+v", r)
	}
	// Five requests were heard, and more where a busy machine repeated one: each counts for all of its devices.
	account, repeats := s.shuffler.c.Enrolments, int(s.devices.Traffic().Repeats)
	s.eventually("in the account with each device", func() bool {
		b := account.Balance()
		together := testbed.Refused(account, cohort.Reason(wire.RefusalSponsorShare)) // once in each
		beyond := testbed.Refused(account, cohort.Reason(wire.RefusalNoCredential))
		alone := int(b.Released) - 6*together
		return int(b.Received) == alone+7*together+beyond && alone >= 2 && together >= 2 && beyond >= 1 &&
			alone+together+beyond <= 5+repeats
	})
}

// Where panels are drawn a reply proves what it says of one device: there is none for several.
func TestPanelsAnswerDevicesSingly(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.start()
	s.opened = s.announcement()
	s.open(panelled(s.opened))
	s.register(0, 3)
	if r := s.ask(0, further(1)); r.Refusal != wire.RefusalMalformed {
		t.Errorf("two at once: %+v", r)
	}
}

// Nobody registers between the description of a pool and its being fixed: whoever asks is told to ask again, and
// whoever is registered is told so.
func TestNobodyRegistersWhileAPoolIsFixed(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.start()
	s.opened = s.announcement()
	s.open(panelled(s.opened))
	s.register(0, 3)
	p := s.shuffler.panels.holdPool(true)
	if p == nil || p.Devices != 3 {
		t.Fatalf("pool %+v", p)
	}
	if r := s.ask(7, toRegister); r.Refusal != wire.RefusalWrongEpoch {
		t.Errorf("meanwhile: %+v", r)
	}
	if r := s.ask(1, toRegister); !r.Enrolled || !r.Held {
		t.Errorf("registered before: %+v", r)
	}
	s.shuffler.mu.Lock()
	same := p.Still(s.shuffler.state)
	s.shuffler.mu.Unlock()
	s.shuffler.panels.holdPool(false)
	s.register(7, 8)
	s.shuffler.mu.Lock()
	defer s.shuffler.mu.Unlock()
	if !same || p.Still(s.shuffler.state) {
		t.Error("a pool is taken for the same with one device more, or for another with none")
	}
}

// However many devices ask at the same time, a cohort has its slots, and each is one device's. The race detector sees
// here what verifies the credential that all of them show.
func TestNoSlotIsGivenTwice(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.start()
	s.open(s.announcement())
	slots := make(chan uint32, 100)
	var all sync.WaitGroup
	for n := range uint32(cap(slots)) {
		signed, _ := s.Sign(s.request(n), s.host)
		r, err := wire.SealRequest(signed, s.ShufflerKey.Public(), testbed.Deployment)
		s.must(err)
		all.Go(func() {
			b, err := s.shuffler.enrolments.asked(r.Sealed)
			if err != nil {
				t.Error(err)
				return
			}
			opened, err := r.OpenReply(b, s.Shuffler.Public())
			if err != nil {
				t.Error(err)
				return
			}
			reply, err := wire.OpenEnrolReply(opened, s.Shuffler.Public(), wire.RequestDigest(signed))
			if err != nil {
				t.Error(err)
			} else if reply.Enrolled {
				slots <- reply.Slot
			}
		})
	}
	all.Wait()
	close(slots)
	given := map[uint32]bool{}
	for slot := range slots {
		if given[slot] {
			t.Errorf("slot %d is given twice", slot)
		}
		given[slot] = true
	}
	if f, _ := s.shuffler.Filling(); len(given) != 12 || f.Enrolled != 12 {
		t.Errorf("%d slots of 12 are given, %d devices enrolled", len(given), f.Enrolled)
	}
}

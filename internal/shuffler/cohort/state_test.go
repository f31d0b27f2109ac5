package cohort

import (
	"errors"
	"reflect"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/riffle-dp/riffle/internal/channel"
	"github.com/riffle-dp/riffle/pkg/wire"
)

func TestTheLifeOfACohort(t *testing.T) {
	s := newScript(t, 2)
	s.apply(&Event{Keys: &Keys{Number: 3, Digest: []byte{1}}})
	one := digest(1)
	s.must(s.open(announcement(1, 0, 3, 2, 1), one))
	for n := range 3 {
		slot, at, err := s.enrol(n, 1, one)
		s.must(err)
		if slot != uint32(n) {
			t.Fatalf("device %d has slot %d", n, slot)
		}
		if d := at.Sub(s.now); d < time.Second || d > 1200*time.Millisecond {
			t.Fatalf("report time is %v after enrolment, outside window and jitter", d)
		}
	}
	// Asking again changes nothing.
	slot, _, err := s.enrol(1, 1, one)
	s.must(err)
	if slot != 1 {
		t.Fatalf("second enrolment gave slot %d", slot)
	}
	_, _, err = s.enrol(7, 1, one)
	s.refused(err, wire.RefusalCohortFull)

	s.must(s.report(0, 1, 0, 0, one, 10))
	s.refused(s.report(0, 1, 0, 0, one, 10), wire.RefusalDuplicate)
	s.refused(s.report(0, 1, 0, 0, one, 11), wire.RefusalAlreadyReported)
	s.refused(s.report(0, 1, 0, 1, one, 12), wire.RefusalNotEnrolled)
	s.refused(s.report(9, 1, 0, 0, one, 12), wire.RefusalNotEnrolled)
	s.refused(s.report(1, 1, 0, 1, digest(2), 12), wire.RefusalWrongAnnouncement)
	s.refused(s.report(1, 2, 0, 1, one, 12), wire.RefusalWrongEpoch)
	if s.commit() != nil {
		t.Fatal("committed with one of three reports and time left")
	}
	s.must(s.report(1, 1, 0, 1, one, 13))
	s.now = s.now.Add(1200*time.Millisecond + 500*time.Millisecond)
	if c := s.commit(); c == nil || c.Outcome != wire.Released {
		t.Fatalf("at the deadline with the minimum: %+v", c)
	}
	s.refused(s.report(2, 1, 0, 2, one, 14), wire.RefusalLate)
	r, ok := s.state.Unfinished()
	if !ok || len(r.Members) != 2 || r.Enrolled != 3 {
		t.Fatalf("release %+v", r)
	}
	if err := s.open(announcement(2, 0, 3, 2, 1), digest(2)); !errors.Is(err, ErrBusy) { // the manifest is not out yet
		t.Fatalf("announced before the manifest is out: %v", err)
	}
	s.finish(0)
	s.must(s.open(announcement(2, 0, 3, 2, 1), digest(2)))
	_, _, err = s.enrol(0, 2, digest(2))
	s.refused(err, wire.RefusalAlreadyEnrolled) // one person is one record per deployment
	s.refused(s.report(2, 1, 0, 2, one, 14), wire.RefusalLate)
	s.reopened()
}

// A complete round need not wait for its deadline: who reports and when does not depend on any record.
func TestCompleteRoundIsReleasedAtOnce(t *testing.T) {
	s := newScript(t, 2)
	d := digest(1)
	s.must(s.open(announcement(1, 0, 2, 2, 1), d))
	for n := range 2 {
		slot, _, err := s.enrol(n, 1, d)
		s.must(err)
		s.must(s.report(n, 1, 0, slot, d, byte(n)))
	}
	if c := s.commit(); c == nil || c.Outcome != wire.Released {
		t.Fatalf("complete cohort: %+v", c)
	}
}

func TestBelowTheMinimumIsDestroyed(t *testing.T) {
	for name, floors := range map[string]struct{ own, announced uint32 }{"announced": {1, 3}, "own": {3, 3}} {
		t.Run(name, func(t *testing.T) {
			s := newScript(t, floors.own)
			d := digest(1)
			s.must(s.open(announcement(1, 0, 3, floors.announced, 1), d))
			for n := range 3 {
				_, _, err := s.enrol(n, 1, d)
				s.must(err)
			}
			for n := range 2 {
				s.must(s.report(n, 1, 0, uint32(n), d, byte(n)))
			}
			s.now = s.now.Add(time.Hour)
			if c := s.commit(); c == nil || c.Outcome != wire.Destroyed {
				t.Fatalf("two of a minimum of three: %+v", c)
			}
			s.finish(0)
			s.must(s.open(announcement(2, 0, 3, 3, 1), digest(2)))
			s.reopened()
		})
	}
}

func TestAnnouncementsOutOfRangeOrOrderAreRefused(t *testing.T) {
	s := newScript(t, 100)
	s.refused(s.open(announcement(1, 0, 200, 99, 1), digest(1)), wire.RefusalWeakPlan)
	s.refused(s.open(announcement(1, 0, 99, 100, 1), digest(1)), wire.RefusalMalformed)
	s.refused(s.open(announcement(1, 1, 200, 100, 2), digest(1)), wire.RefusalWrongEpoch)
	s.must(s.open(announcement(1, 0, 200, 100, 2), digest(1)))
	s.must(s.open(announcement(1, 0, 200, 100, 2), digest(1))) // seen again
	s.refused(s.open(announcement(1, 0, 200, 100, 2), digest(9)), wire.RefusalWrongAnnouncement)
	s.refused(s.open(announcement(1, 1, 200, 100, 2), digest(2)), wire.RefusalWrongEpoch) // round 0 not released
	s.refused(s.open(announcement(2, 0, 200, 100, 2), digest(2)), wire.RefusalWrongEpoch) // epoch 1 is running
}

// In the paper's profile a device that misses a round stays out, and no round beyond the plan is opened.
func TestADeviceThatMissesARoundStaysOut(t *testing.T) {
	s := newScript(t, 2)
	s.must(s.open(announcement(1, 0, 3, 2, 2), digest(1)))
	for n := range 3 {
		_, _, err := s.enrol(n, 1, digest(1))
		s.must(err)
	}
	s.must(s.report(0, 1, 0, 0, digest(1), 1))
	s.must(s.report(1, 1, 0, 1, digest(1), 2))
	s.now = s.now.Add(time.Hour)
	s.commit()
	s.finish(0)
	s.must(s.open(announcement(1, 1, 3, 2, 2), digest(2)))
	s.refused(s.report(2, 1, 1, 2, digest(2), 3), wire.RefusalNotEnrolled)
	s.refused(s.report(0, 1, 1, 0, digest(1), 3), wire.RefusalWrongAnnouncement)
	s.must(s.report(0, 1, 1, 0, digest(2), 3))
	if s.commit() != nil {
		t.Fatal("round 1 committed early")
	}
	s.must(s.report(1, 1, 1, 1, digest(2), 4))
	if c := s.commit(); c == nil || c.Round != 1 {
		t.Fatalf("complete round 1: %+v", c)
	}
	s.finish(1)
	s.refused(s.open(announcement(1, 2, 3, 2, 2), digest(3)), wire.RefusalWrongEpoch)
	s.must(s.open(announcement(2, 0, 3, 2, 2), digest(3)))
	s.reopened()
}

// A round that is due is not committed with other members than it was due with.
func TestCommitTakesWhatWasDue(t *testing.T) {
	s := newScript(t, 1)
	s.must(s.open(announcement(1, 0, 3, 1, 1), digest(1)))
	for n := range 3 {
		_, _, err := s.enrol(n, 1, digest(1))
		s.must(err)
	}
	s.must(s.report(0, 1, 0, 0, digest(1), 1))
	s.now = s.now.Add(time.Hour)
	before := s.state.Due(Moment{Now: s.now, TakenIn: true})
	s.must(s.report(1, 1, 0, 1, digest(1), 2))
	if ev := s.state.Commit(before); ev != nil {
		t.Fatalf("committed %d members of two: %+v", len(before.Members), ev)
	}
	s.commit()
	if ev := s.state.Commit(before); ev != nil {
		t.Fatalf("committed twice: %+v", ev)
	}
}

// An incomplete round waits until what had come by its deadline is taken in, and has the announced grace from when an
// outage ended. A complete one waits for neither.
func TestIncompleteRoundsWaitForWhatAnOutageHeldBack(t *testing.T) {
	s := newScript(t, 2)
	s.must(s.open(announcement(1, 0, 3, 2, 1), digest(1)))
	for n := range 3 {
		_, _, err := s.enrol(n, 1, digest(1))
		s.must(err)
	}
	for n := range 2 {
		s.must(s.report(n, 1, 0, uint32(n), digest(1), byte(n)))
	}
	s.now = s.now.Add(time.Hour)
	grace := 500 * time.Millisecond
	for what, m := range map[string]Moment{
		"reports wait at the broker":  {Now: s.now},
		"an outage has just ended":    {Now: s.now, Resumed: s.now, TakenIn: true},
		"within the grace of one":     {Now: s.now, Resumed: s.now.Add(time.Millisecond - grace), TakenIn: true},
		"after the grace, not all in": {Now: s.now, Resumed: s.now.Add(-grace)},
	} {
		if s.state.Due(m) != nil {
			t.Errorf("%s: due", what)
		}
	}
	r := s.state.Due(Moment{Now: s.now, Resumed: s.now.Add(-grace), TakenIn: true})
	if r == nil || len(r.Members) != 2 {
		t.Errorf("after the grace, and all is taken in: %+v", r)
	}
	s.must(s.report(2, 1, 0, 2, digest(1), 3))
	if r := s.state.Due(Moment{Now: s.now, Resumed: s.now}); r == nil || len(r.Members) != 3 {
		t.Errorf("complete: %+v", r)
	}
}

// No device can make a round that is open wait for its reports by sending one of the round after it.
func TestNoReportIsAheadOfAnOpenRound(t *testing.T) {
	s := newScript(t, 1)
	s.must(s.open(announcement(1, 0, 1, 1, 2), digest(1)))
	_, _, err := s.enrol(0, 1, digest(1))
	s.must(err)
	if _, ahead := s.state.Expects(1, 1); ahead {
		t.Error("round 1 is ahead while round 0 is open")
	}
	s.must(s.report(0, 1, 0, 0, digest(1), 1))
	s.commit()
	if _, ahead := s.state.Expects(1, 1); !ahead {
		t.Error("round 1 is not ahead although its announcement may be out")
	}
}

// One host holds no more of a cohort's slots than its share, in whole slots, and what it holds of them is known.
func TestSlotsOfOneHost(t *testing.T) {
	for _, c := range []struct {
		share float64
		size  uint32
		most  int
	}{
		{0.5, 101, 50}, {0.5, 100, 50}, {1, 7, 7}, {0, 7, 7}, {0.29, 100, 29}, {0.1, 5, 1}, {0.7, 10, 7},
		{1.0 / 3, 9, 3},
	} {
		s := newScript(t, 1)
		s.state = NewState(Admission{Minimum: 1, SponsorShare: c.share})
		s.must(s.open(announcement(1, 0, c.size, 1, 1), digest(1)))
		for n := range c.most {
			_, _, err := s.enrol(n, 1, digest(1))
			s.must(err)
			if f, _ := s.state.Filling(); f.Largest != n+1 || f.Dominated() != (2*(n+1) > int(c.size)) {
				t.Errorf("after %d of %d slots: %+v", n+1, c.size, f)
			}
		}
		if c.most < int(c.size) {
			_, _, err := s.enrol(c.most, 1, digest(1))
			s.refused(err, wire.RefusalSponsorShare)
			if _, _, err := s.enrol(0, 1, digest(1)); err != nil {
				t.Errorf("a device that holds a slot asks again: %v", err)
			}
			_, _, ev, err := s.state.Enrol(DeviceID{Host: [32]byte{2}}, nil, 1, digest(1), s.now)
			s.must(err)
			s.apply(ev)
		}
		s.reopened()
	}
}

// A host that holds few of a large cohort's slots holds most of it where hardly any other device came until enrolment
// closed.
func TestAHostDominatesACohortThatDidNotFill(t *testing.T) {
	s := newScript(t, 2)
	a := announcement(1, 0, 10, 2, 1)
	a.Timing.Enrolment = 5000 * time.Millisecond
	s.must(s.open(a, digest(1)))
	for n := range 2 {
		_, _, err := s.enrol(n, 1, digest(1))
		s.must(err)
		s.must(s.report(n, 1, 0, uint32(n), digest(1), byte(n)))
	}
	_, _, ev, err := s.state.Enrol(DeviceID{Host: [32]byte{2}}, nil, 1, digest(1), s.now)
	s.must(err)
	s.apply(ev)
	if f, _ := s.state.Filling(); f.Dominated() {
		t.Errorf("while eight more may come: %+v", f)
	}
	s.now = s.now.Add(time.Hour)
	if s.commit() == nil {
		t.Fatal("nothing is due")
	}
	if f, _ := s.state.Filling(); !f.Dominated() || f.Largest != 2 || f.Slots != 3 {
		t.Errorf("two of three: %+v", f)
	}
}

// An enrolment limit closes a cohort that does not fill.
func TestEnrolmentClosesAtItsLimit(t *testing.T) {
	s := newScript(t, 2)
	a := announcement(1, 0, 10, 2, 1)
	a.Timing.Enrolment = 5000 * time.Millisecond
	s.must(s.open(a, digest(1)))
	for n := range 2 {
		_, _, err := s.enrol(n, 1, digest(1))
		s.must(err)
		s.must(s.report(n, 1, 0, uint32(n), digest(1), byte(n)))
	}
	if s.commit() != nil {
		t.Fatal("committed while more may enrol")
	}
	s.now = s.now.Add(5 * time.Second)
	_, _, err := s.enrol(5, 1, digest(1))
	s.refused(err, wire.RefusalEnrolmentClosed)
	if c := s.commit(); c == nil || c.Outcome != wire.Released {
		t.Fatalf("after the limit: %+v", c)
	}
	// A clock that is set back opens no committed cohort again.
	s.now = s.now.Add(-4 * time.Second)
	_, _, err = s.enrol(6, 1, digest(1))
	s.refused(err, wire.RefusalEnrolmentClosed)
}

// Whatever devices, networks and analyzers do: nothing below the minimum is released, membership never changes after
// the commit, a device is in one cohort and has one report per round, and a replayed journal gives the same state.
func TestMembershipHoldsWhateverHappens(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		own := rapid.Uint32Range(1, 4).Draw(rt, "own minimum")
		s := newScript(t, own)
		committed := map[[2]uint64][]channel.Member{}
		epochs := map[DeviceID]uint64{}
		var epoch uint64
		ops := rapid.IntRange(1, 120).Draw(rt, "operations")
		for range ops {
			switch rapid.IntRange(0, 6).Draw(rt, "operation") {
			case 0:
				a := announcement(
					rapid.Uint64Range(epoch, epoch+2).Draw(rt, "epoch"), rapid.Uint32Range(0, 2).Draw(rt, "round"),
					rapid.Uint32Range(0, 6).Draw(rt, "size"), rapid.Uint32Range(0, 6).Draw(rt, "minimum"), 2)
				if err := s.open(a, digest(byte(a.Epoch), byte(a.Round))); err == nil {
					epoch = max(epoch, a.Epoch)
				}
			case 1, 2:
				n := rapid.IntRange(0, 12).Draw(rt, "device")
				if _, _, err := s.enrol(n, epoch, digest(byte(epoch), 0)); err == nil {
					if in, ok := epochs[device(n)]; ok && in != epoch {
						rt.Fatalf("device %d is in the cohorts of epochs %d and %d", n, in, epoch)
					}
					epochs[device(n)] = epoch
				}
			case 3, 4:
				n := rapid.IntRange(0, 12).Draw(rt, "device")
				round := rapid.Uint32Range(0, 1).Draw(rt, "round")
				slot := rapid.Uint32Range(0, 6).Draw(rt, "slot")
				if e := s.state.epoch; e != nil && rapid.Bool().Draw(rt, "honest") {
					slot, _ = s.state.slotOf(device(n))
				}
				_ = s.report(n, epoch, round, slot, digest(byte(epoch), byte(round)), rapid.Byte().Draw(rt, "body"))
			case 5:
				s.now = s.now.Add(time.Duration(rapid.IntRange(0, 3000).Draw(rt, "ms")) * time.Millisecond)
				s.commit()
			case 6:
				if r, ok := s.state.Unfinished(); ok {
					s.finish(r.Round)
				}
			}
			if r, ok := s.state.Unfinished(); ok {
				if r.Outcome == wire.Released && len(r.Members) < int(max(own, r.Minimum)) {
					rt.Fatalf("released %d reports below a minimum of %d", len(r.Members), max(own, r.Minimum))
				}
				key := [2]uint64{r.Epoch, uint64(r.Round)}
				if known, ok := committed[key]; ok && !reflect.DeepEqual(known, r.Members) {
					rt.Fatalf("membership of %v changed from %v to %v", key, known, r.Members)
				}
				committed[key] = r.Members
				seen := map[uint32]bool{}
				for _, m := range r.Members {
					if seen[m.Slot] {
						rt.Fatalf("slot %d is twice in %v", m.Slot, key)
					}
					seen[m.Slot] = true
				}
			}
		}
		s.reopened()
	})
}

// Slot, report time and cohort of everyone are the same whatever the record of any one device: none of the shuffler's
// decisions takes anything from inside a report but its size, its sender and its digest. Here one device's report
// differs in every way it can, and everything else that the shuffler says stays equal.
func TestNothingDependsOnAReportsContent(t *testing.T) {
	run := func(body byte) any {
		s := newScript(t, 2)
		d := digest(1)
		s.must(s.open(announcement(1, 0, 5, 2, 1), d))
		var said []any
		for n := range 5 {
			slot, at, err := s.enrol(n, 1, d)
			said = append(said, slot, at, err)
			b := byte(100 + n)
			if n == 2 {
				b = body
			}
			said = append(said, s.report(n, 1, 0, slot, d, b))
		}
		said = append(said, s.commit())
		r, _ := s.state.Unfinished()
		said = append(said, r.Enrolled, len(r.Members))
		return said
	}
	if a, b := run(1), run(2); !reflect.DeepEqual(a, b) {
		t.Fatalf("decisions differ with one report's content:\n%v\n%v", a, b)
	}
}

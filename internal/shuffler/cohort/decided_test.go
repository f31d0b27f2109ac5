package cohort

import (
	"testing"
	"time"

	"github.com/riffle-dp/riffle/pkg/wire"
)

// twoOfThree is a cohort of three under a minimum of two, of which two have reported.
func twoOfThree(t *testing.T) *script {
	s := newScript(t, 2)
	s.must(s.open(announcement(1, 0, 3, 2, 2), digest(1)))
	for n := range 3 {
		_, _, err := s.enrol(n, 1, digest(1))
		s.must(err)
	}
	for n := range 2 {
		s.must(s.report(n, 1, 0, uint32(n), digest(1), byte(n)))
	}
	return s
}

// A journal in which a decision was undone, made twice, or made too late is not replayed.
func TestNoEventUndoesADecision(t *testing.T) {
	t.Parallel()
	opened := func(epoch uint64, round uint32) *Event {
		d := digest(9)
		return &Event{Opened: &Opened{Epoch: epoch, Round: round, Digest: d[:], Size: 3, Minimum: 2, Rounds: 2}}
	}
	admitted := func(slot uint32) *Event {
		d := digest(9)
		return &Event{Admitted: &Admitted{Slot: slot, Digest: d[:], Sequence: 90}}
	}
	committed := &Event{Committed: &Committed{Outcome: wire.Released}}
	for name, c := range map[string]struct {
		before func(*script)
		then   *Event
	}{
		"a second report of a device":      {nil, admitted(0)},
		"a report of a committed round":    {func(s *script) { s.due() }, admitted(2)},
		"a report of a round that is over": {func(s *script) { s.due(); s.finish(0) }, admitted(2)},
		"a destroyed round that is to leave": {func(s *script) {
			s.apply(&Event{Committed: &Committed{Outcome: wire.Destroyed}})
		}, committed},
		"a second commitment":            {func(s *script) { s.due() }, committed},
		"a round that is open":           {nil, opened(1, 0)},
		"a round that skips one":         {nil, opened(1, 2)},
		"an epoch before the latest":     {nil, opened(0, 0)},
		"a snapshot behind other events": {nil, newScript(t, 1).state.Snapshot()},
	} {
		t.Run(name, func(t *testing.T) {
			s := twoOfThree(t)
			if c.before != nil {
				c.before(s)
			}
			if err := s.state.Apply(c.then); err == nil {
				t.Errorf("%s is applied", c.then.Encode())
			}
		})
	}
}

// due lets the time of the open round come, and commits it.
func (s *script) due() *Committed {
	s.t.Helper()
	s.now = s.now.Add(time.Hour)
	c := s.commit()
	if c == nil {
		s.t.Fatal("nothing is due an hour later")
	}
	return c
}

// An event that the state cannot take is not kept as if it had.
func TestADecisionThatCannotBeAppliedIsBroken(t *testing.T) {
	t.Parallel()
	s := twoOfThree(t)
	ev, refused, broken := s.state.Make(func(*State) (*Event, error) {
		return &Event{Finished: &Finished{Round: 0}}, nil // of a round that is not committed
	})
	if broken == nil || refused != nil {
		t.Errorf("%s: refused %v, broken %v", ev.Encode(), refused, broken)
	}
}

// The announcement of an epoch that is over opens nothing, however late it is shown again.
func TestAnEarlierEpochIsNotOpenedAgain(t *testing.T) {
	t.Parallel()
	s := newScript(t, 1)
	for epoch := uint64(1); epoch <= 2; epoch++ {
		d := digest(byte(epoch))
		s.must(s.open(announcement(epoch, 0, 1, 1, 1), d))
		_, _, err := s.enrol(int(epoch), epoch, d)
		s.must(err)
		s.must(s.report(int(epoch), epoch, 0, 0, d, byte(epoch)))
		s.commit()
		s.finish(0)
	}
	for _, d := range []Digest{digest(1), digest(8)} {
		s.must(s.open(announcement(1, 0, 1, 1, 1), d))
		if last, _ := s.state.Last(); last.Epoch != 2 {
			t.Fatalf("epoch %d is open under digest %x", last.Epoch, d[:2])
		}
	}
}

// A shuffler that is started again with a larger minimum releases no cohort below it, though it opened the cohort, or
// even committed it, under a smaller one.
func TestALargerMinimumCountsFromTheRestartOn(t *testing.T) {
	t.Parallel()
	restart := func(s *script) *State {
		again := NewState(Admission{Minimum: 3})
		for _, b := range s.journal {
			ev, err := DecodeEvent(b)
			s.must(err)
			s.must(again.Apply(ev))
		}
		return again
	}
	s := twoOfThree(t)
	r := restart(s).Due(Moment{Now: s.now.Add(time.Hour), TakenIn: true})
	if r == nil || r.Outcome != wire.Destroyed {
		t.Errorf("two reports, and a minimum of three now: %+v", r)
	}
	s.due()
	if r, ok := restart(s).Unfinished(); !ok || r.Minimum != 3 {
		t.Errorf("committed before, and a minimum of three now: %+v", r)
	}
}

// A destroyed round ends its epoch: no later round of it opens, and the next epoch does.
func TestADestroyedRoundEndsItsEpoch(t *testing.T) {
	t.Parallel()
	s := newScript(t, 2)
	s.must(s.open(announcement(1, 0, 3, 2, 2), digest(1)))
	for n := range 3 {
		_, _, err := s.enrol(n, 1, digest(1))
		s.must(err)
	}
	s.must(s.report(0, 1, 0, 0, digest(1), 1))
	if c := s.due(); c.Outcome != wire.Destroyed {
		t.Fatalf("one report of a minimum of two: %+v", c)
	}
	s.finish(0)
	if f, _ := s.state.Filling(); !f.Destroyed {
		t.Errorf("%+v", f)
	}
	s.refused(s.open(announcement(1, 1, 3, 2, 2), digest(2)), wire.RefusalWrongEpoch)
	s.must(s.open(announcement(2, 0, 3, 2, 2), digest(3)))
	s.reopened()
}

// A committed release is committed once, and a release whose reports are not those that were admitted never is.
func TestOnlyWhatWasAdmittedIsCommittedAndOnce(t *testing.T) {
	t.Parallel()
	s := twoOfThree(t)
	s.now = s.now.Add(time.Hour)
	m := Moment{Now: s.now, TakenIn: true}
	other := s.state.Due(m)
	other.Members[1].Digest = digest(77)
	if ev := s.state.Commit(other); ev != nil {
		t.Errorf("another report in a slot is committed: %s", ev.Encode())
	}
	r := s.state.Due(m)
	s.apply(s.state.Commit(r))
	if ev := s.state.Commit(r); ev != nil {
		t.Errorf("committed twice: %s", ev.Encode())
	}
}

// Of a round that was adopted from a manifest only its members go on to the next one. Where they are not those of the
// journal, nobody does.
func TestAnAdoptedRoundKnowsItsMembersOrNone(t *testing.T) {
	t.Parallel()
	for name, known := range map[string]bool{"those of the journal": true, "others": false} {
		t.Run(name, func(t *testing.T) {
			s := twoOfThree(t)
			members := [][32]byte{digest(0), digest(1)}
			if !known {
				members[1] = digest(77)
			}
			sum := wire.ReportsDigest(members)
			s.apply(s.state.Adopt(&wire.Manifest{
				Epoch: 1, Outcome: wire.Released, Enrolled: 3, Reports: 2, ReportsDigest: sum[:],
			}))
			if s.state.Adopt(&wire.Manifest{Epoch: 1, Outcome: wire.Destroyed}) != nil {
				t.Error("a second manifest of a round is adopted")
			}
			s.must(s.open(announcement(1, 1, 3, 2, 2), digest(2)))
			err := s.report(0, 1, 1, 0, digest(2), 5)
			if known {
				s.must(err)
			} else {
				s.refused(err, wire.RefusalNotEnrolled)
			}
			s.refused(s.report(2, 1, 1, 2, digest(2), 6), wire.RefusalNotEnrolled)
			s.reopened()
		})
	}
}

// The journal tells how late it is, and which set of keys was the last, before and behind a snapshot.
func TestTheJournalTellsTimeAndKeys(t *testing.T) {
	t.Parallel()
	s := newScript(t, 1)
	s.apply(&Event{Keys: &Keys{Number: 3}})
	if n := s.state.Keys().Number; n != 3 {
		t.Errorf("the last set of keys has number %d", n)
	}
	s.must(s.open(announcement(1, 0, 1, 1, 1), digest(1)))
	if !s.state.Clock().Equal(start) {
		t.Errorf("an epoch was opened at %v, and it is %v", start, s.state.Clock())
	}
	later := start.Add(time.Hour)
	s.apply(&Event{Passed: &Passed{At: later.UnixMilli()}})
	if !s.state.Clock().Equal(later) {
		t.Errorf("the clock came to %v, and it is %v", later, s.state.Clock())
	}
	_, _, err := s.enrol(0, 1, digest(1)) // at an earlier time than the clock came to
	s.must(err)
	s.must(s.report(0, 1, 0, 0, digest(1), 1))
	s.commit()
	s.finish(0)
	s.must(s.open(announcement(2, 0, 1, 1, 1), digest(2)))
	again := NewState(Admission{Minimum: 1})
	for _, b := range s.short {
		ev, err := DecodeEvent(b)
		s.must(err)
		s.must(again.Apply(ev))
	}
	if !again.Clock().Equal(later) || again.Keys().Number != 3 {
		t.Errorf("behind a snapshot it is %v, and the keys have number %d", again.Clock(), again.Keys().Number)
	}
}

// A round needs its reports, from the first in the stream on, until its manifest is out.
func TestARoundNeedsItsReportsUntilItIsOver(t *testing.T) {
	t.Parallel()
	s := newScript(t, 2)
	s.must(s.open(announcement(1, 0, 2, 2, 1), digest(1)))
	for n, sequence := range []uint64{9, 4} {
		slot, _, err := s.enrol(n, 1, digest(1))
		s.must(err)
		ev, err := s.state.Admit(device(n), 1, 0, slot, digest(1), digest(byte(n)), sequence)
		s.must(err)
		s.apply(ev)
	}
	needs := func(when string) {
		t.Helper()
		if first, ok := s.state.First(nil); !ok || first != 4 {
			t.Errorf("%s: needed from %d on, %v", when, first, ok)
		}
	}
	needs("admitted")
	s.commit()
	needs("committed")
	r, _ := s.state.Unfinished()
	if first, ok := s.state.First(r); ok {
		t.Errorf("its manifest is out: needed from %d on", first)
	}
	s.finish(0)
	if first, ok := s.state.First(nil); ok {
		t.Errorf("finished: needed from %d on", first)
	}
}

// A host gets no more slots than the broker keeps reports of one host. Others do.
func TestAHostGetsNoMoreSlotsThanTheBrokerKeepsReports(t *testing.T) {
	t.Parallel()
	s := newScript(t, 1)
	s.state.Stores(Room{PerHost: 2})
	s.must(s.open(announcement(1, 0, 3, 1, 1), digest(1)))
	for n := range 2 {
		_, _, err := s.enrol(n, 1, digest(1))
		s.must(err)
	}
	_, _, err := s.enrol(2, 1, digest(1))
	s.refused(err, wire.RefusalSponsorShare)
	_, _, _, err = s.state.Enrol(DeviceID{Host: [32]byte{2}}, nil, 1, digest(1), s.now)
	s.must(err)
}

// A host's credential is not taken after one that covers more devices.
func TestAnEarlierCredentialIsRefused(t *testing.T) {
	t.Parallel()
	s := newScript(t, 1)
	c := Covered{}
	host := [32]byte{1}
	s.must(c.Refuse(wire.Enrolment{Admission: wire.Admission{HostKey: host, Covers: 20}}))
	s.must(c.Refuse(wire.Enrolment{Admission: wire.Admission{HostKey: host, Covers: 20}}))
	s.refused(c.Refuse(wire.Enrolment{Admission: wire.Admission{HostKey: host, Covers: 19}}), wire.RefusalNoCredential)
	s.must(c.Refuse(wire.Enrolment{Admission: wire.Admission{HostKey: [32]byte{2}, Covers: 19}}))
}

package cohort

import (
	"testing"

	"github.com/riffle-dp/riffle/internal/testing/testbed"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// What is refused counts once, for the round that it was sent for, and only until the round's membership is fixed. A
// flood takes one number for each reason.
func TestARefusalCountsOnceAndInItsRound(t *testing.T) {
	t.Parallel()
	s := newScript(t, 1)
	var of Refusals
	first := digest(1)
	s.must(s.open(announcement(1, 0, 2, 1, 2), first))
	for range 1000 {
		of.Count(s.state, 1, 0, false, wire.RefusalMalformed)
	}
	of.Count(s.state, 1, 0, false, wire.RefusalDuplicate)
	for _, d := range []struct {
		epoch       uint64
		round       uint32
		redelivered bool
	}{{epoch: 1, redelivered: true}, {epoch: 1, round: 1}, {epoch: 2}, {}} {
		of.Count(s.state, d.epoch, d.round, d.redelivered, wire.RefusalMalformed)
	}
	if by := of.Of(1, 0); len(by) != 2 || by[wire.RefusalMalformed] != 1000 || by[wire.RefusalDuplicate] != 1 {
		t.Errorf("%v", by)
	}
	if by := of.Of(1, 1); by != nil {
		t.Errorf("of another round: %v", by)
	}
	for i := range 2 {
		slot, _, err := s.enrol(i, 1, first)
		s.must(err)
		s.must(s.report(i, 1, 0, slot, first, byte(i)))
	}
	s.apply(&Event{Committed: &Committed{Outcome: wire.Released, Refused: of.Of(1, 0)}})
	of.Count(s.state, 1, 0, false, wire.RefusalLate)
	if by := of.Of(1, 0); by[wire.RefusalLate] != 0 {
		t.Errorf("after the commit: %v", by)
	}
	s.finish(0)
	next := announcement(1, 1, 2, 1, 2)
	s.must(s.open(next, digest(2)))
	of.Count(s.state, 1, 1, false, wire.RefusalMalformed)
	if by := of.Of(1, 1); len(by) != 1 || by[wire.RefusalMalformed] != 1 {
		t.Errorf("the next round begins with %v", by)
	}
}

// What a manifest says of refusals is a function of the journal, whatever a process counted later: also where the
// release turned out to be impossible, and where the channel rejected reports.
func TestRefusalsStandInTheJournal(t *testing.T) {
	t.Parallel()
	s := newScript(t, 1)
	s.must(s.open(announcement(1, 0, 4, 1, 1), digest(1)))
	for i := range 4 {
		slot, _, err := s.enrol(i, 1, digest(1))
		s.must(err)
		s.must(s.report(i, 1, 0, slot, digest(1), byte(i)))
	}
	s.apply(&Event{Excluded: Repeats(0, 3)})
	r := s.state.Due(Moment{Now: s.now, TakenIn: true})
	ev := s.state.Commit(r)
	ev.Committed.Refused = map[wire.Refusal]uint64{wire.RefusalMalformed: 5, wire.RefusalRepeatedMessage: 2}
	s.apply(ev)
	s.apply(&Event{Rejected: &Excluded{Slots: []uint32{0, 2},
		Reasons: []wire.Refusal{wire.RefusalBadProof, wire.RefusalMalformed}}})
	s.apply(&Event{Committed: &Committed{Outcome: wire.Destroyed}})
	s.reopened()
	all, ok := s.state.Unfinished()
	if !ok {
		t.Fatal("nothing is to be signed")
	}
	m := &wire.Manifest{Enrolled: all.Enrolled, Reports: uint32(len(all.Members)), Refused: all.Refused}
	testbed.RefusedIn(t, m,
		map[wire.Refusal]int{wire.RefusalMalformed: 6, wire.RefusalRepeatedMessage: 3, wire.RefusalBadProof: 1},
		map[wire.Refusal]int{wire.RefusalMalformed: 1, wire.RefusalRepeatedMessage: 1, wire.RefusalBadProof: 1})
}

// A report is taken out for a reason: an event without one for each slot is no journal's.
func TestAnExclusionHasAReasonForEachSlot(t *testing.T) {
	t.Parallel()
	s := newScript(t, 1)
	s.must(s.open(announcement(1, 0, 3, 1, 1), digest(1)))
	for i := range 3 {
		slot, _, err := s.enrol(i, 1, digest(1))
		s.must(err)
		s.must(s.report(i, 1, 0, slot, digest(1), byte(i)))
	}
	for _, line := range []string{
		`{"excluded":{"round":0,"slots":[2]}}`, `{"excluded":{"round":0,"slots":[0,2],"reasons":[18]}}`,
	} {
		ev, err := DecodeEvent([]byte(line))
		s.must(err)
		if err := s.state.Apply(ev); err == nil {
			t.Errorf("%s is taken", line)
		}
	}
}

package cohort

import (
	"testing"

	"github.com/riffle-dp/riffle/pkg/wire"
)

// An exclusion is part of the journal: the same members are due after a restart, and the slot is given up.
func TestExcludedSlotsStayExcluded(t *testing.T) {
	s := newScript(t, 1)
	d := digest(1)
	s.must(s.open(announcement(1, 0, 3, 1, 2), d))
	for n := range 3 {
		_, _, err := s.enrol(n, 1, d)
		s.must(err)
		s.must(s.report(n, 1, 0, uint32(n), d, byte(n)))
	}
	s.apply(&Event{Excluded: Repeats(0, 0, 2)})
	s.refused(s.report(0, 1, 0, 0, d, 7), wire.RefusalRepeatedMessage)
	s.reopened()
	if c := s.commit(); c == nil || c.Outcome != wire.Released { // complete: no other device can report
		t.Fatalf("committed %+v", c)
	}
	if r, _ := s.state.Unfinished(); len(r.Members) != 1 || r.Members[0].Slot != 1 {
		t.Errorf("members %+v", r.Members)
	}
	s.finish(0)
	s.must(s.open(announcement(1, 1, 3, 1, 2), digest(2)))
	s.refused(s.report(0, 1, 1, 0, digest(2), 9), wire.RefusalNotEnrolled)
	s.reopened()
	for _, slots := range [][]uint32{{0}, {2}} {
		if err := s.state.Apply(&Event{Excluded: Repeats(1, slots...)}); err == nil {
			t.Errorf("slots %v of a round in which they have no report were excluded", slots)
		}
	}
	if err := s.state.Apply(&Event{Excluded: Repeats(0, 1)}); err == nil {
		t.Error("a member of a committed round was excluded")
	}
}

package cohort

import (
	"testing"
	"time"
)

// The deadline that people are shown is the one at which the round is committed: not known while more may enrol, then
// fixed, and gone once the membership is.
func TestDueIsWhenTheRoundIsCommitted(t *testing.T) {
	s := newScript(t, 2)
	if _, fixed := s.state.Deadline(s.now, time.Time{}); fixed {
		t.Error("a deadline before the first announcement")
	}
	one := digest(1)
	s.must(s.open(announcement(1, 0, 3, 2, 1), one))
	for n := range 3 {
		if at, fixed := s.state.Deadline(s.now, time.Time{}); fixed {
			t.Errorf("deadline %v while the cohort has room", at)
		}
		_, _, err := s.enrol(n, 1, one)
		s.must(err)
	}
	for n := range 2 {
		s.must(s.report(n, 1, 0, uint32(n), one, byte(n)))
	}
	at, fixed := s.state.Deadline(s.now, time.Time{})
	// The window, a jitter of up to 200 ms, and the grace.
	if wait := at.Sub(start); !fixed || wait < 1500*time.Millisecond || wait > 1700*time.Millisecond {
		t.Fatalf("deadline %v after the enrolments, fixed %v", wait, fixed)
	}
	s.now = at.Add(-time.Millisecond)
	if s.commit() != nil {
		t.Error("committed before the deadline that is shown")
	}
	s.now = at
	if s.commit() == nil {
		t.Error("not committed at the deadline that is shown")
	}
	if _, fixed := s.state.Deadline(s.now, time.Time{}); fixed {
		t.Error("a deadline of a round that is committed")
	}
}

package shuffler

import (
	"testing"
	"time"

	rifflev1 "github.com/riffle-dp/riffle/messages/riffle/v1"
)

// A deadline that passes while no shuffler is here does not shut out the people whose reports lie at the broker since before.
func TestReportsThatCameWhileNobodyWasHere(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.start()
	a := s.announcement()
	a.Timing.RewardWindowMs, a.Timing.JitterMs, a.Timing.GraceMs = 100, 50, 1000
	s.open(a)
	s.enrol(12)
	s.must(s.stop())
	for i := range uint32(10) {
		s.send(s.report(i))
	}
	time.Sleep(1500 * time.Millisecond) // past the deadline
	s.start()
	if m := s.manifest(1, 0); m.Outcome != rifflev1.Outcome_OUTCOME_RELEASED || m.Reports != 10 {
		t.Errorf("manifest %v", m)
	}
	s.finished()
	s.account(10, 0, nil)
}

package shuffler

import (
	"strings"
	"testing"
	"time"

	"github.com/riffle-dp/riffle/internal/shuffler/cohort"
	"github.com/riffle-dp/riffle/internal/testing/testbed"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// A state folder from before the enrolments makes strangers of all who report: readiness says so, and the log once. The
// broker keeps their reports meanwhile, so with the newer folder the epoch goes on and loses nobody.
func TestReportsOfStrangersShowInReadiness(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.forgetEvery = time.Millisecond
	s.start()
	s.open(s.announcement())
	older := s.backup()
	s.enrol(12)
	s.sendAll(5)
	s.admitted(5)
	newer := s.backup()
	if why := s.why(enrolmentsCondition); why != "" {
		t.Errorf("readiness says %q of enrolled devices", why)
	}
	s.restore(older)
	s.eventually("told", func() bool { return strings.Contains(s.why(enrolmentsCondition), "restore the newest copy") })
	s.acknowledged()
	s.must(s.shuffler.forgetting.forget(s.Context(), nil))
	if n := len(s.stored(5)); n != 5 {
		t.Errorf("the broker holds %d of 5 reports of devices that a newer folder knows", n)
	}
	s.restore(newer)
	s.eventually("ready", func() bool { return s.unmetKnown(enrolmentsCondition) && s.why(enrolmentsCondition) == "" })
	for i := range uint32(7) {
		s.send(s.report(5 + i))
	}
	if m := s.manifest(1, 0); m.Outcome != wire.Released || m.Reports != 12 {
		t.Errorf("manifest %v", m)
	}
}

// Reports of strangers, and of devices for a slot that is not theirs, are kept until the membership of their round is
// fixed, and no longer.
func TestReportsOfStrangersAreForgottenWithTheirRound(t *testing.T) {
	t.Parallel()
	for name, foreign := range map[string]func(s *scene) []byte{
		"no slot": func(s *scene) []byte {
			own := s.host
			defer func() { s.host = own }()
			s.host, _ = s.Host(capacity)
			return s.report(1)
		},
		"another slot": func(s *scene) []byte { return s.report(1, at(2)) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newScene(t)
			s.forgetEvery = time.Millisecond
			s.start()
			s.open(s.announcement())
			s.enrol(12)
			s.send(foreign(s))
			s.refused(1)
			s.acknowledged()
			s.eventually("held against the broker", func() bool { // nothing is forgotten before
				s.shuffler.mu.Lock()
				defer s.shuffler.mu.Unlock()
				return s.shuffler.history.complete()
			})
			s.must(s.shuffler.forgetting.forget(s.Context(), nil))
			if n := len(s.stored(1)); n != 1 {
				t.Errorf("the broker holds %d reports while the round is open", n)
			}
			s.sendAll(12)
			if m := s.manifest(1, 0); m.Outcome != wire.Released || m.Reports != 12 {
				t.Errorf("manifest %v", m)
			}
			s.forgotten()
		})
	}
}

// refused waits until this many reports were refused as those of devices that do not hold their slot. It does not go
// by what the manifest will count, which leaves out a report that is delivered again, as to a machine that stood still.
func (s *scene) refused(n int) {
	s.t.Helper()
	s.eventually("refused", func() bool {
		return testbed.Refused(s.shuffler.c.Reports, cohort.Reason(wire.RefusalNotEnrolled)) >= n
	})
}

// Strangers are told of from a tenth of the slots on, each counted once, and not after their epoch. They stop nothing:
// the cohort is released meanwhile. Devices with a slot are no strangers, whatever slot their reports name.
func TestStrangersAreCountedAndStopNothing(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.start()
	s.open(s.announcement())
	s.enrol(12)
	own := s.host
	stranger, _ := s.Host(capacity)
	foreign := func(device uint32) {
		s.host = stranger
		s.send(s.report(device))
		s.host = own
	}
	foreign(1)
	foreign(1)
	s.send(s.report(1, at(2)))
	s.send(s.report(2, at(1)))
	s.refused(4)
	if err := s.shuffler.reports.enrolments(); err != nil { // a tenth of twelve slots is two
		t.Errorf("one stranger and two devices with other slots: %v", err)
	}
	foreign(2)
	s.eventually("told", func() bool { return s.why(enrolmentsCondition) != "" })
	s.sendAll(12)
	if m := s.manifest(1, 0); m.Outcome != wire.Released || m.Reports != 12 {
		t.Errorf("manifest %v", m)
	}
	s.finished()
	s.open(s.next())
	s.eventually("ready", func() bool { return s.why(enrolmentsCondition) == "" })
}

package shuffler

import (
	"testing"
	"time"

	"github.com/riffle-dp/riffle/internal/bus"
	"github.com/riffle-dp/riffle/internal/role"
	"github.com/riffle-dp/riffle/internal/testing/testbed"
	"github.com/riffle-dp/riffle/pkg/wire"
)

func (s *scene) eventually(what string, condition func() bool) {
	s.t.Helper()
	testbed.Eventually(s.t, what, condition)
}

// clockOf is the time that the shuffler's events tell.
func (s *scene) clockOf() time.Time {
	s.shuffler.mu.Lock()
	defer s.shuffler.mu.Unlock()
	return s.shuffler.state.Clock()
}

// released expects a release of this many reports, and nothing else to have happened to any report.
func (s *scene) released(reports int) {
	s.t.Helper()
	if m := s.manifest(1, 0); m.Outcome != wire.Released || int(m.Reports) != reports {
		s.t.Errorf("manifest %v", m)
	}
	s.finished()
	s.account(reports, 0, nil)
}

// A deadline that passes while no shuffler is here does not shut out the people whose reports lie at the broker since
// before. No grace helps them here: all that had come by the deadline is taken in first.
func TestReportsStoredWhileNoShufflerRanAreTakenIn(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.start()
	a := s.announcement()
	a.Timing.RewardWindow, a.Timing.Grace = 10*time.Minute, time.Millisecond
	s.open(a)
	s.enrol(12)
	s.must(s.stop())
	s.sendAll(10)
	s.prepare = func(sh *Shuffler) { sh.clock.skip(time.Hour) }
	s.start()
	s.released(10)
}

// A step of the time of day over a restart, in either direction, moves no deadline: the cohort waits as long as it
// would have.
func TestSettingTheClockOverARestartMovesNoDeadline(t *testing.T) {
	t.Parallel()
	for what, step := range map[string]time.Duration{"ahead": 20 * time.Minute, "back": -20 * time.Minute} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			s := newScene(t)
			s.start()
			a := s.announcement()
			a.Timing.RewardWindow, a.Timing.Grace = 10*time.Minute, time.Millisecond // ten minutes: the step is longer
			s.open(a)
			enrolling := time.Now()
			s.enrol(12)
			s.must(s.stop())
			clock := &shifted{Clock: role.SystemClock()}
			clock.by.Store(int64(step))
			s.config.Clock = clock
			s.start()
			time.Sleep(300 * time.Millisecond) // the mistake would take a tick
			if f, _ := s.shuffler.Filling(); f.Destroyed {
				t.Fatal("destroyed")
			}
			for i := range uint32(12) {
				left := s.ask(i).ReportAfter
				if least := 599*time.Second - time.Since(enrolling); left < least || left > 601*time.Second {
					t.Errorf("device %d is asked to report in %v, at least %v are left", i, left, least)
				}
				s.send(s.report(i))
			}
			s.released(12)
		})
	}
}

// cutOff is a shuffler with a full cohort that the broker cannot reach.
func cutOff(t *testing.T, grace time.Duration) (*scene, *testbed.Link) {
	s := newScene(t)
	var link *testbed.Link
	s.broker, link = s.ConnectOver(bus.Shuffler)
	s.start()
	a := s.announcement()
	a.Timing.RewardWindow, a.Timing.Jitter, a.Timing.Grace = 100*time.Millisecond, 50*time.Millisecond, grace
	s.open(a)
	s.enrol(12)
	link.Freeze()
	return s, link
}

// A deadline that passes while the broker is out of reach, without the connection being lost, commits nothing: what is
// stored by the time it is back is taken in, and those who were cut off as well have the grace.
func TestNothingIsCommittedWhileTheBrokerIsAway(t *testing.T) {
	t.Parallel()
	s, link := cutOff(t, 10*time.Minute)
	s.sendAll(8)
	s.shuffler.clock.skip(time.Hour)
	time.Sleep(maxGap + 500*time.Millisecond) // a question to the broker fails
	if f, _ := s.shuffler.Filling(); f.Destroyed {
		t.Fatal("destroyed while the broker was away")
	}
	link.Thaw()
	s.eventually("taken in", func() bool { return s.shuffler.Held() == 8 })
	for i := range uint32(4) {
		s.send(s.report(8 + i))
	}
	s.released(12)
}

// A connection that was lost and is back before the next question is an outage too.
func TestALostConnectionIsNoticed(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	var link *testbed.Link
	s.broker, link = s.ConnectOver(bus.Shuffler)
	sh, err := s.configured().open()
	s.must(err)
	defer sh.Close()
	_, err = sh.times.backlog(s.Context())
	s.must(err)
	_, before := sh.clock.now()
	link.Cut()
	s.eventually("connected again", func() bool { return s.broker.Connected() && s.broker.Traffic().Reconnects == 1 })
	if _, err := sh.times.backlog(s.Context()); err == nil {
		t.Error("what waits is taken for known although the connection was lost since it was asked last")
	}
	if _, resumed := sh.clock.now(); !resumed.After(before) {
		t.Error("no grace after a lost connection")
	}
	_, err = sh.times.backlog(s.Context())
	s.must(err)
}

// A shuffler that stood still, as in a paused container, finds its deadline passed and reports waiting: none of them is
// late, and those of whom nothing has come have the grace.
func TestAFrozenShufflerShutsNoReportOut(t *testing.T) {
	t.Parallel()
	s, machine := newScene(t), &shifted{Clock: role.SystemClock()}
	s.config.Clock = machine
	s.start()
	s.open(s.announcement())
	s.enrol(12)
	clock := s.shuffler.clock
	clock.mu.Lock() // all reports are long due by the time that it wakes up
	clock.at = clock.at.Add(time.Hour)
	machine.by.Store(int64(time.Hour))
	clock.mu.Unlock()
	time.Sleep(quiet)
	if f, _ := s.shuffler.Filling(); f.Destroyed {
		t.Fatal("destroyed when it woke up")
	}
	s.sendAll(12)
	s.released(12)
}

package shuffler

import (
	"context"
	"testing"
	"time"

	"github.com/riffle-dp/riffle/internal/bus"
	"github.com/riffle-dp/riffle/internal/role"
	"github.com/riffle-dp/riffle/internal/testing/testbed"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// interruptedOften is a shuffler that does not run, with ten of twelve reports and a grace of twenty seconds, for whom
// the broker hangs for a moment every eight seconds, so that each deadline is put off before it comes. It tells after
// how long the round was decided. hang is what happens besides; nil: the broker answers in between.
func interruptedOften(t *testing.T, hang func(*scene, *Shuffler)) (decided bool, after time.Duration, why string) {
	t.Helper()
	s := newScene(t)
	s.config.Clock = unlimited{role.SystemClock()} // a busy machine's late answer is no outage here
	s.start()
	a := s.announcement()
	a.Timing.RewardWindow, a.Timing.Grace = testbed.Long, 20*time.Second
	s.open(a)
	s.enrol(12)
	s.sendAll(10)
	s.acknowledged()
	s.must(s.stop())
	sh := s.idle()
	if clear, err := sh.history.consistent(s.Context(), &look{}); !clear || err != nil {
		t.Fatal(clear, err)
	}
	sh.clock.skip(a.Timing.RewardWindow)
	begin, _ := sh.clock.now()
	for range 50 {
		for range 4 {
			sh.clock.skip(2 * time.Second)
			if hang != nil {
				hang(s, sh)
			} else if _, err := sh.times.backlog(s.Context()); err != nil {
				t.Fatal(err)
			}
		}
		sh.clock.interrupted()
		s.must(sh.releases.commit(s.Context()))
		now, _ := sh.clock.now()
		if r, ok := sh.state.Unfinished(); ok {
			if r.Outcome != wire.Released {
				t.Errorf("decided on %v", r.Outcome)
			}
			s.must(sh.releases.commit(s.Context())) // the next look finds nothing late
			return true, now.Sub(begin), s.why(deadlineCondition)
		}
		after = now.Sub(begin)
	}
	return false, after, s.why(deadlineCondition)
}

// unlimited is a clock by which no call takes too long.
type unlimited struct{ role.Clock }

func (unlimited) WithTimeout(ctx context.Context, _ time.Duration) (context.Context, context.CancelFunc) {
	return context.WithCancel(ctx)
}

// Outages put off a deadline, and however many there are, not for ever: the people's reports would never be used.
func TestADeadlineIsNotPutOffForEver(t *testing.T) {
	t.Parallel()
	decided, after, why := interruptedOften(t, nil)
	if want := (1 + patience) * 20 * time.Second; !decided || after < want || after > want+20*time.Second {
		t.Errorf("decided: %v, after %v, expected some %v", decided, after, want)
	}
	if why != "" {
		t.Errorf("not ready: %s", why)
	}
}

// Time between outages in which the broker answers but once, or not at all, does not use up the patience; that nothing
// is decided shows in readiness.
func TestADeadlineIsPutOffWhileTheBrokerIsAway(t *testing.T) {
	t.Parallel()
	asked := 0
	decided, after, why := interruptedOften(t, func(s *scene, sh *Shuffler) {
		if asked++; asked%4 == 0 {
			if _, err := sh.times.backlog(s.Context()); err != nil {
				t.Error(err)
			}
			return
		}
		gone, stop := context.WithCancel(context.Background())
		stop()
		if _, err := sh.times.backlog(gone); err == nil {
			t.Error("an answer although the question was withdrawn")
		}
	})
	if decided {
		t.Errorf("decided after %v of outages", after)
	}
	if why == "" {
		t.Errorf("ready, although nothing was decided for %v", after)
	}
}

// A broker's consumer may not have heard yet of reports that the stream has stored: then none waits, and they are not
// taken in.
func TestWhatTheConsumerHasNotHeardOfIsNotTakenIn(t *testing.T) {
	t.Parallel()
	m := mark{sequence: 10}
	for name, c := range map[string]struct {
		b       bus.Backlog
		newest  uint64
		reached bool
	}{
		"all decided on":                      {bus.Backlog{Floor: 10, Sent: 12, Waiting: 2}, 12, true},
		"some wait":                           {bus.Backlog{Floor: 8, Sent: 10, Waiting: 2}, 10, false},
		"none waits, two unheard of":          {bus.Backlog{Floor: 8, Sent: 8}, 10, false},
		"none waits, the stream is a backup":  {bus.Backlog{Floor: 5, Sent: 6}, 6, true},
		"none waits, the stream is empty":     {bus.Backlog{}, 0, true},
		"none waits, the newest was sent":     {bus.Backlog{Floor: 8, Sent: 11}, 11, true},
		"none waits of a stream that goes on": {bus.Backlog{Floor: 8, Sent: 10}, 12, false},
	} {
		if got := m.reached(c.b, c.newest); got != c.reached {
			t.Errorf("%s: %v", name, got)
		}
	}
}

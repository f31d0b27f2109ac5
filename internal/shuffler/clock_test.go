package shuffler

import (
	"testing"
	"time"
)

var began = time.UnixMilli(1_700_000_000_000)

// machine is a machine's clocks as a test sets them.
type machine struct {
	wall time.Time
	run  time.Duration
}

func (m *machine) read() (time.Time, time.Duration) { return m.wall, m.run }

// awake lets time pass with looks at the clock, as the shuffler does.
func (m *machine) awake(c *clock, d time.Duration) {
	for ; d > 0; d -= tick {
		m.pass(tick)
		c.now()
	}
}

func (m *machine) pass(d time.Duration) { m.wall, m.run = m.wall.Add(d), m.run+d }

// Whatever is done to the machine's clock or to the process, the shuffler's time passes as long as it is awake, and
// what could have kept reports away is noticed.
func TestClockTellsWakingTime(t *testing.T) {
	t.Parallel()
	for what, c := range map[string]struct {
		happens func(*machine)
		passed  time.Duration // by the clock, of what happened
		noticed bool
	}{
		"nothing":                              {func(*machine) {}, 0, false},
		"the time of day is slewed":            {func(m *machine) { m.wall = m.wall.Add(time.Second) }, 0, false},
		"the time of day is set ahead":         {func(m *machine) { m.wall = m.wall.Add(20 * time.Minute) }, 0, true},
		"the time of day is set back":          {func(m *machine) { m.wall = m.wall.Add(-20 * time.Minute) }, 0, true},
		"the process is frozen":                {func(m *machine) { m.pass(time.Hour) }, maxGap, true},
		"the machine sleeps":                   {func(m *machine) { m.wall = m.wall.Add(8 * time.Hour) }, 0, true},
		"the process is frozen, the day set":   {func(m *machine) { m.run += time.Hour }, maxGap, true},
		"the process is slow for a good while": {func(m *machine) { m.pass(maxGap) }, maxGap, false},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			m := &machine{wall: began, run: 5 * time.Second}
			clock := newClock(m.read, time.Time{})
			m.awake(clock, time.Minute)
			c.happens(m)
			clock.now()
			at, resumed := clock.now()
			if passed := at.Sub(began) - time.Minute; passed != c.passed {
				t.Errorf("%v passed, expected %v", passed, c.passed)
			}
			if noticed := resumed.Equal(at); noticed != c.noticed || noticed != (clock.stops() > 0) {
				t.Errorf("noticed: %v, stopped %d times", noticed, clock.stops())
			}
			m.awake(clock, time.Minute)
			later, since := clock.now()
			if later.Sub(at) != time.Minute || !since.Equal(resumed) {
				t.Errorf("a minute later it is %v later, resumed %v after", later.Sub(at), since.Sub(resumed))
			}
		})
	}
}

// A new process goes on where the journal's time stopped, whatever the time of day is now.
func TestTheClockGoesOnFromTheJournal(t *testing.T) {
	t.Parallel()
	for _, step := range []time.Duration{0, 20 * time.Minute, -20 * time.Minute, 100 * time.Hour} {
		m := &machine{wall: began.Add(step)}
		if at, resumed := newClock(m.read, began).now(); !at.Equal(began) || !resumed.Equal(began) {
			t.Errorf("step %v: %v, resumed %v", step, at, resumed)
		}
	}
}

// The journal keeps how far the time has come, so that a shuffler which is restarted again and again reaches its
// deadline: every minute, while something waits for time to pass.
func TestTheJournalKeepsTheTime(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.start()
	a := s.announcement()
	s.open(a)
	s.enrol(12)
	before := s.clockOf()
	s.shuffler.clock.skip(2 * noteEvery)
	s.eventually("kept", func() bool { return s.clockOf().Sub(before) >= 2*noteEvery })
	s.must(s.stop())
	s.start()
	if at, _ := s.shuffler.clock.now(); at.Sub(before) < 2*noteEvery {
		t.Errorf("the new process begins %v after the enrolments", at.Sub(before))
	}
}

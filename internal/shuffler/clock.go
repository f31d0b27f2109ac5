package shuffler

import (
	"fmt"
	"sync"
	"time"

	"github.com/riffle-dp/riffle/internal/role"
)

// readings tells two times by a role's clock: the time of day, which people and time servers set, and for how long the
// process has run, which no one sets and which may stand still while the machine sleeps.
func readings(c role.Clock) func() (wall time.Time, run time.Duration) {
	begin := c.Now()
	return func() (time.Time, time.Duration) {
		t := c.Now()
		return t.Round(0), t.Sub(begin) // by the monotonic reading
	}
}

// maxGap is the longest time between two looks at the clock, and the longest wait for an answer of the broker, that
// counts as ordinary. It is far above tick and far below the grace of any real deployment.
const maxGap = 2 * time.Second

// clock is the time by which the shuffler sets its deadlines: milliseconds of the Unix epoch when its journal began,
// and from then on the time for which a shuffler was awake. It takes no account of any time of day, so setting this
// machine's or the broker's clock, over a restart or not, moves no deadline. Time for which the shuffler was stopped,
// frozen or asleep does not pass, and a deadline moves with it. How long a shuffler is away does not depend on any
// record.
type clock struct {
	read func() (wall time.Time, run time.Duration)

	mu      sync.Mutex
	at      time.Time
	wall    time.Time // at the last look
	run     time.Duration
	resumed time.Time
	gaps    int
}

// newClock returns a clock that shows at, or the time of day where at is zero.
func newClock(read func() (wall time.Time, run time.Duration), at time.Time) *clock {
	wall, run := read()
	if at.IsZero() {
		at = wall
	}
	return &clock{read: read, at: at, wall: wall, run: run, resumed: at}
}

// now is the time, and since when people's reports could come as far as this shuffler knows. It must be asked at least
// every maxGap.
func (c *clock) now() (at, resumed time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	wall, run := c.read()
	ran, passed := run-c.run, wall.Sub(c.wall)
	c.wall, c.run = wall, run
	c.at = c.at.Add(min(max(0, ran), maxGap))
	// A process that stood still finds that it ran for too long. On a machine that slept, the time of day is ahead of
	// the time that the process ran. So it is on a machine whose clock was set: the two cannot be told apart, and it
	// costs one grace.
	if ran > maxGap || (passed-ran).Abs() > maxGap {
		c.resumed = c.at
		c.gaps++
	}
	return c.at, c.resumed
}

// interrupted notes that until now something kept reports from coming in, like a broker that was away.
func (c *clock) interrupted() {
	c.now()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.resumed = c.at
}

// stops counts the times for which this process or its machine seems to have stood still.
func (c *clock) stops() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.gaps
}

// wait is since when something has been waiting.
type wait struct {
	mu      sync.Mutex
	waiting bool
	since   time.Time
}

func (w *wait) set(waiting bool, since time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.waiting, w.since = waiting, since
}

// tooLong is an error where a report has waited for more than stuckAfter.
func (w *wait) tooLong(now time.Time) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.waiting || now.Sub(w.since) < stuckAfter {
		return nil
	}
	return fmt.Errorf("all %d workers are busy and have decided on no report for %v; "+
		"restart the shuffler if the broker and the disk are well", workers, stuckAfter)
}

const (
	// workers is how many enrolments are answered, and how many reports opened, at the same time. Most of a worker's
	// time is waiting for the disk, and many share one write.
	workers = 64
	// stuckAfter is how long a report may wait for a worker. A worker takes milliseconds, or as long as one write to
	// the disk.
	stuckAfter = 30 * time.Second
	// workersCondition is the readiness condition that a report finds a worker.
	workersCondition = "workers"
)

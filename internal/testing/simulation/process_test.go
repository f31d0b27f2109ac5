package simulation

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/riffle-dp/riffle/internal/analyzer"
	"github.com/riffle-dp/riffle/internal/bus"
	"github.com/riffle-dp/riffle/internal/randomizer"
	"github.com/riffle-dp/riffle/internal/role"
	"github.com/riffle-dp/riffle/internal/role/outcome"
	"github.com/riffle-dp/riffle/internal/shuffler"
	"github.com/riffle-dp/riffle/internal/testing/fakebroker"
)

// process is one role's place in the deployment: what it keeps, and the process that runs there, if one does. Its
// fields are the schedule's own, but for those that the world's lock guards.
type process struct {
	w     *World
	name  string
	role  bus.Role
	disk  *disk   // guarded by the world's lock where a process reads it
	old   []*disk // copies, oldest first
	spare *disk   // the newest state, while the process runs on an older one
	clock *clock
	run   *incarnation // nil: stopped
	tries int          // starts
	again time.Time    // when a supervisor starts it again; zero: not by itself

	// Guarded by the world's lock.
	armed   []*trap  // where it is killed
	full    bool     // its disk has no room
	excuse  []string // what was done to it that may end it
	sources int      // seeded sources so far

	back    bool      // its state was set back
	slow    bool      // it stood still, or was cut off, at some time
	roomy   time.Time // until then its disk has no room
	cut     time.Time // partitioned from the broker until then
	stalled time.Time // does not run until then
}

// trap kills a process at one of its writes.
type trap struct {
	left  int    // writes until then
	of    string // that this is part of the name of
	after bool   // when it is done
}

// incarnation is a process that runs, or ran.
type incarnation struct {
	p        *process
	w        *World
	disk     *disk
	conn     *fakebroker.Conn
	ctx      context.Context
	cancel   context.CancelFunc
	done     chan struct{} // closed when its code has returned
	dead     bool          // killed; guarded by the world's lock
	err      error         // after done
	accounts []*outcome.Outcomes

	host     *randomizer.Host
	shuffler *shuffler.Shuffler
	analyzer *analyzer.Analyzer

	mu    sync.Mutex
	unmet map[string]error // conditions of readiness
}

// persist makes one change to the disk, unless the process is killed at it.
func (i *incarnation) persist(what string, write func(*disk)) error {
	w := i.w
	w.mu.Lock()
	defer w.mu.Unlock()
	if i.dead {
		return errKilled
	}
	if i.p.full {
		return errFull
	}
	killed, after := false, false
	i.p.armed = slices.DeleteFunc(i.p.armed, func(t *trap) bool {
		if killed || !strings.Contains(what, t.of) {
			return false
		}
		if t.left--; t.left > 0 {
			return false
		}
		killed, after = true, t.after
		return true
	})
	if !killed || after {
		i.disk.mu.Lock()
		write(i.disk)
		i.disk.mu.Unlock()
	}
	if killed {
		w.note("killed at %s", what)
		i.kill()
		return errKilled
	}
	return nil
}

// kill ends the process as the kernel would: what it does from now on is seen by nobody. The world's lock is held.
func (i *incarnation) kill() {
	i.dead = true
	i.cancel()
}

// killed reports whether the process was killed.
func (i *incarnation) killed() bool {
	i.w.mu.Lock()
	defer i.w.mu.Unlock()
	return i.dead
}

// notice keeps a condition of readiness.
func (i *incarnation) notice(condition string, err error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if err == nil {
		delete(i.unmet, condition)
	} else {
		i.unmet[condition] = err
	}
}

// unready lists the conditions that are not met.
func (i *incarnation) unready() (all []string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	for name, err := range i.unmet {
		all = append(all, fmt.Sprintf("%s: %s: %v", i.p.name, name, err))
	}
	return all
}

// account makes an account that the oracle looks at.
func (i *incarnation) account(item string, held func() int64, reasons []outcome.Reason) *outcome.Outcomes {
	o, err := outcome.New(prometheus.NewRegistry(), i.p.name, item, held, reasons...)
	if err != nil {
		panic(err) // reasons of the role itself
	}
	i.accounts = append(i.accounts, o)
	return o
}

// start begins a process on what its disk holds.
func (p *process) start() {
	w := p.w
	i := &incarnation{p: p, w: w, disk: p.disk, done: make(chan struct{}), unmet: map[string]error{}}
	i.ctx, i.cancel = context.WithCancel(context.Background())
	i.conn = w.broker.Connect(p.role, p.name)
	p.run, p.again = i, time.Time{}
	p.tries++
	w.all = append(w.all, i)
	run, err := w.build(i)
	if err != nil {
		i.err = err
		close(i.done)
		return
	}
	go func() {
		defer close(i.done)
		i.err = run(i.ctx)
	}()
}

// stop ends what runs, and waits for it.
func (p *process) stop() {
	i := p.run
	if i == nil {
		return
	}
	p.w.mu.Lock()
	i.kill()
	p.w.mu.Unlock()
	i.conn.Close()
	<-i.done
	p.run = nil
}

// finish ends a process as its operator does, and waits for it.
func (p *process) finish() {
	i := p.run
	i.cancel()
	<-i.done
	i.conn.Close()
	p.run = nil
}

// supervised is how long after its end a process is started again.
const supervised = time.Second

// reap notes that a process has ended. A supervisor starts it again, a second later.
func (p *process) reap() {
	i := p.run
	if i == nil {
		return
	}
	if i.killed() {
		p.stop()
		p.again = time.Now().Add(supervised)
		return
	}
	select {
	case <-i.done:
	default:
		return
	}
	p.w.mu.Lock()
	i.dead = true
	p.w.mu.Unlock()
	i.cancel()
	i.conn.Close()
	p.run, p.again = nil, time.Now().Add(supervised)
	p.w.ended(p, i.err)
}

// clock is the time of one machine: that of the simulation, and what was added. While the machine stands still nothing
// comes due.
type clock struct {
	mu      sync.Mutex
	by      time.Duration
	frozen  bool
	waiting []func()
}

var _ role.Clock = (*clock)(nil)

// Now implements role.Clock.
func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return time.Now().Add(c.by)
}

// After implements role.Clock.
func (c *clock) After(d time.Duration) <-chan time.Time {
	ch := make(chan time.Time, 1)
	time.AfterFunc(d, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		tell := func() { ch <- time.Now().Add(c.by) }
		if c.frozen {
			c.waiting = append(c.waiting, tell)
			return
		}
		tell()
	})
	return ch
}

// WithTimeout implements role.Clock.
func (c *clock) WithTimeout(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, d)
}

// jump adds to the time.
func (c *clock) jump(by time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.by += by
}

// freeze begins or ends that nothing comes due.
func (c *clock) freeze(frozen bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.frozen = frozen
	if !frozen {
		for _, tell := range c.waiting {
			tell()
		}
		c.waiting = nil
	}
}

// ended says of a process that it ended by itself. Nothing but what was done to it may be the reason.
func (w *World) ended(p *process, err error) {
	w.mu.Lock()
	excused := len(p.excuse) > 0
	w.mu.Unlock()
	w.noted("%s ended by itself: %v", p.name, err)
	if !excused && !errors.Is(err, context.Canceled) {
		w.violated("ended", "%s ended by itself: %v", p.name, err)
	}
}

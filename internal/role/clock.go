package role

import (
	"context"
	"time"
)

// A Clock is the time by which a role works: it tells the time, waits, and bounds how long a call may take. A role
// that takes all its time from one Clock can run under a virtual clock, which passes as fast as a test likes. Safe
// for concurrent use.
//
// A loop that works every d waits for After(d) in each turn.
type Clock interface {
	// Now is the time of day. On the system's clock it carries Go's monotonic reading: the difference of two is the
	// time for which the machine was awake between them, even if its time of day was set meanwhile.
	Now() time.Time
	// After returns a channel that receives the time once d has passed, at once where d is not positive. A caller may
	// stop listening at any time: the send does not block the clock.
	After(d time.Duration) <-chan time.Time
	// WithTimeout returns a copy of ctx that ends with context.DeadlineExceeded once d has passed. The caller must
	// call the function when its work is done.
	WithTimeout(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc)
}

// SystemClock is the clock of this machine.
func SystemClock() Clock { return systemClock{} }

type systemClock struct{}

func (systemClock) Now() time.Time                         { return time.Now() }
func (systemClock) After(d time.Duration) <-chan time.Time { return time.After(d) }
func (systemClock) WithTimeout(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, d)
}

// Sleep waits until d has passed by the clock and returns nil, or the context's error if it ends first.
func Sleep(ctx context.Context, c Clock, d time.Duration) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-c.After(d):
		return nil
	}
}

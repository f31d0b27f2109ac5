package testbed

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/riffle-dp/riffle/internal/role"
)

// Clock is the system's clock, which a test can put forward: what is due by then is due at once. A test in which
// several steps must come before the reports announces a Long reward window, takes its time for the steps, and passes
// it. Calls keep to the system's time, and are given Patience at least unless Strict is set: the limits of roles are
// for people who wait, not for machines that are busy with other tests.
type Clock struct {
	Strict bool // set before the role starts

	mu      sync.Mutex
	by      time.Duration
	waiting []alarm
}

// Long is a time that no test reaches before it passes it.
const Long = time.Hour

// alarm is a channel that receives the time when it has come.
type alarm struct {
	at time.Time
	c  chan time.Time
}

var _ role.Clock = (*Clock)(nil)

// Now implements role.Clock.
func (k *Clock) Now() time.Time {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.now()
}

func (k *Clock) now() time.Time { return time.Now().Add(k.by) }

// After implements role.Clock.
func (k *Clock) After(d time.Duration) <-chan time.Time {
	k.mu.Lock()
	defer k.mu.Unlock()
	c := make(chan time.Time, 1)
	k.waiting = append(k.waiting, alarm{k.now().Add(d), c})
	time.AfterFunc(d, func() { k.Pass(0) })
	return c
}

// WithTimeout implements role.Clock.
func (k *Clock) WithTimeout(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	if !k.Strict {
		d = max(d, Patience)
	}
	return context.WithTimeout(ctx, d)
}

// Pass puts the clock forward.
func (k *Clock) Pass(d time.Duration) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.by += d
	now := k.now()
	k.waiting = slices.DeleteFunc(k.waiting, func(a alarm) bool {
		left := a.at.Sub(now)
		switch {
		case left <= 0:
			a.c <- now
		case d > 0: // sooner than it was
			time.AfterFunc(left, func() { k.Pass(0) })
		}
		return left <= 0
	})
}

package crowd

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

func TestArrivalsFollowTheirRate(t *testing.T) {
	a := &arrivals{rate: 100, ramp: 10 * time.Second, origin: time.Now()}
	// The ramp brings half of what ten seconds at full rate would.
	for _, test := range []struct {
		k    int
		want time.Duration
	}{{0, 0}, {125, 5 * time.Second}, {500, 10 * time.Second}, {600, 11 * time.Second}, {1500, 20 * time.Second}} {
		if got := a.at(test.k); (got - test.want).Abs() > time.Millisecond {
			t.Errorf("person %d comes after %s, want %s", test.k, got, test.want)
		}
	}
	for k, last := 1, time.Duration(0); k < 2000; k++ {
		if got := a.at(k); got <= last {
			t.Fatalf("person %d comes at %s, the one before at %s", k, got, last)
		} else {
			last = got
		}
	}
}

func TestArrivalsCountFromWhenTheyWereDue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begun := time.Now()
		a := &arrivals{rate: 1000, origin: begun.Add(-time.Second)}
		due, err := a.next(t.Context())
		if err != nil || time.Since(due) < time.Second {
			t.Errorf("due %s ago, %v", time.Since(due), err)
		}
		a.hold(time.Second)
		if due, err = a.next(t.Context()); err != nil || due.Before(begun) ||
			due.After(begun.Add(500*time.Millisecond)) {
			t.Errorf("after being held up: due %s after the beginning, %v", due.Sub(begun), err)
		}
		ctx, stop := context.WithCancel(t.Context())
		stop()
		if _, err := a.next(ctx); err == nil {
			t.Error("a person came after the end")
		}
	})
}

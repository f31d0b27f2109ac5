package load

import (
	"context"
	"math"
	"time"
)

// arrivals spaces people out: an open loop, in which a slow answer delays nobody behind it.
type arrivals struct {
	rate   float64 // people a second; 0: no spacing
	ramp   time.Duration
	origin time.Time
	n      int
}

func newArrivals(rate float64, ramp time.Duration, now time.Time) *arrivals {
	return &arrivals{rate: rate, ramp: ramp, origin: now}
}

// at is when the k-th person comes, from the start: the rate grows linearly over the ramp.
func (a *arrivals) at(k int) time.Duration {
	d := a.ramp.Seconds()
	if n := float64(k); n < a.rate*d/2 {
		return time.Duration(math.Sqrt(2*d*n/a.rate) * float64(time.Second))
	}
	return time.Duration((float64(k)/a.rate + d/2) * float64(time.Second))
}

// held moves all later arrivals: nobody could come for that long.
func (a *arrivals) held(d time.Duration) { a.origin = a.origin.Add(d) }

// next waits for the next person's time and returns it: what their waiting is counted from. It is in the past where the process cannot
// keep up.
func (a *arrivals) next(ctx context.Context) (time.Time, error) {
	if a.rate == 0 {
		return time.Time{}, ctx.Err()
	}
	due := a.origin.Add(a.at(a.n))
	a.n++
	if wait := time.Until(due); wait > 0 {
		t := time.NewTimer(wait)
		defer t.Stop()
		select {
		case <-ctx.Done():
			return due, ctx.Err()
		case <-t.C:
		}
	}
	return due, ctx.Err()
}

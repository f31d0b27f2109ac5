package crowd

import (
	"context"
	"math"
	"time"
)

// arrivals spaces people out in an open loop: a slow answer delays no later person.
type arrivals struct {
	rate   float64       // people a second; 0: no spacing
	ramp   time.Duration // time over which the rate grows linearly from 0
	origin time.Time     // when the first person is due
	n      int           // number of the next person
}

// at is when person k is due, counted from the origin.
func (a *arrivals) at(k int) time.Duration {
	d := a.ramp.Seconds()
	if n := float64(k); n < a.rate*d/2 {
		return time.Duration(math.Sqrt(2*d*n/a.rate) * float64(time.Second))
	}
	return time.Duration((float64(k)/a.rate + d/2) * float64(time.Second))
}

// hold moves all later arrivals by a time in which no person could come.
func (a *arrivals) hold(d time.Duration) { a.origin = a.origin.Add(d) }

// next waits until the next person is due and returns that time, from which their waiting counts. It lies in the past
// where the process cannot keep up.
func (a *arrivals) next(ctx context.Context) (time.Time, error) {
	if a.rate == 0 {
		return time.Time{}, ctx.Err()
	}
	due := a.origin.Add(a.at(a.n))
	a.n++
	Pause(ctx, time.Until(due))
	return due, ctx.Err()
}

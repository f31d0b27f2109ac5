package bus_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/riffle-dp/riffle/internal/bus"
)

// A large answer over a slow network takes as long as it takes: each try that was too short is followed by one of twice
// the time, up to 80 seconds.
func TestATryThatWasTooShortIsFollowedByALongerOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var got []time.Duration
		err := bus.Alone().Do(t.Context(), bus.SubjectAudit, func(ctx context.Context) error {
			until, _ := ctx.Deadline()
			got = append(got, time.Until(until))
			if len(got) == 7 {
				return nil
			}
			return context.DeadlineExceeded
		})
		want := []time.Duration{5, 10, 20, 40, 80, 80, 80}
		for i := range want {
			want[i] *= time.Second
		}
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("tries of %v, want %v, %v", got, want, err)
		}
	})
}

// An answer that is not known is asked for again for about five seconds, one that is known to pass for as long as the
// caller waits, with pauses of at most two seconds.
func TestPausesBetweenTries(t *testing.T) {
	const known = 10008 // the cluster has no leader now
	for _, c := range []struct {
		what  string
		code  jetstream.ErrorCode
		ends  error
		tries int
		after time.Duration
	}{
		{"an unknown answer", 19999, bus.ErrRefused, bus.OddTries, 5150 * time.Millisecond},
		// 3.15 s of pauses that double, and then one try every two seconds
		{"an answer that passes", known, bus.ErrUnknown, 7 + 28, time.Minute},
	} {
		t.Run(c.what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				tries, begun := 0, time.Now()
				err := bus.Alone().Do(ctx, bus.SubjectAudit, func(context.Context) error {
					tries++
					return &jetstream.APIError{Code: 503, ErrorCode: c.code}
				})
				if took := time.Since(begun); !errors.Is(err, c.ends) || tries != c.tries || took != c.after {
					t.Errorf("%d tries in %v, want %d in %v: %v", tries, took, c.tries, c.after, err)
				}
			})
		})
	}
}

package role_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/riffle-dp/riffle/internal/role"
)

func TestSystemClockWaitsExactlyAsLongAsAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := role.SystemClock()
		for _, wait := range []time.Duration{-time.Second, 0, time.Millisecond, time.Hour} {
			begin := c.Now()
			at := <-c.After(wait)
			if took := c.Now().Sub(begin); took != max(0, wait) {
				t.Errorf("After(%v) took %v", wait, took)
			}
			if !at.Equal(c.Now()) {
				t.Errorf("After(%v) says %v, the clock %v", wait, at, c.Now())
			}
		}
	})
}

func TestTimeoutEndsTheContextAtItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := role.SystemClock()
		begin := c.Now()
		ctx, cancel := c.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		<-ctx.Done()
		if took := c.Now().Sub(begin); took != time.Minute || !errors.Is(ctx.Err(), context.DeadlineExceeded) {
			t.Errorf("ended after %v with %v", took, ctx.Err())
		}
	})
}

func TestSleepEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := role.SystemClock()
		begin := c.Now()
		if err := role.Sleep(context.Background(), c, time.Second); err != nil || c.Now().Sub(begin) != time.Second {
			t.Errorf("slept for %v: %v", c.Now().Sub(begin), err)
		}
		ctx, cancel := c.WithTimeout(context.Background(), time.Second)
		defer cancel()
		begin = c.Now()
		if err := role.Sleep(ctx, c, time.Hour); !errors.Is(err, context.DeadlineExceeded) ||
			c.Now().Sub(begin) != time.Second {
			t.Errorf("ended after %v: %v", c.Now().Sub(begin), err)
		}
		begin = c.Now()
		for range 100 { // the context is over: no sleep may succeed
			if err := role.Sleep(ctx, c, 0); !errors.Is(err, context.DeadlineExceeded) || !c.Now().Equal(begin) {
				t.Fatalf("slept under a context that is over: %v", err)
			}
		}
	})
}

func TestStepsAreMeasuredByTheClockOfTheirRole(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		env, err := role.NewEnv("clocked", role.DefaultSettings(""), t.Output())
		if err != nil {
			t.Fatal(err)
		}
		env.Clock = ahead{env.Clock}
		steps, err := role.NewSteps(env, "work")
		if err != nil {
			t.Fatal(err)
		}
		begin := env.Clock.Now()
		<-env.Clock.After(time.Second)
		steps.Since("work", begin)
		families, err := env.Metrics.Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range families {
			if f.GetName() == "riffle_step_seconds" {
				if h := f.Metric[0].GetHistogram(); h.GetSampleCount() != 1 || h.GetSampleSum() != 1 {
					t.Errorf("%d steps of %v seconds in all, want 1 of 1 second", h.GetSampleCount(), h.GetSampleSum())
				}
				return
			}
		}
		t.Error("riffle_step_seconds is missing")
	})
}

// ahead is a clock that is a day ahead of the machine's.
type ahead struct{ role.Clock }

func (a ahead) Now() time.Time { return a.Clock.Now().AddDate(0, 0, 1) }

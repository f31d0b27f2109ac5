package bus_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/riffle-dp/riffle/internal/bus"
	"github.com/riffle-dp/riffle/internal/testing/testbed"
)

// A broker that is frozen keeps its connections open and one that is gone does not. Both are noticed within three
// seconds, neither holds up who asks the role how it is, and the role is ready again by itself.
func TestAwayBrokerShows(t *testing.T) {
	t.Parallel()
	t.Run("frozen", func(t *testing.T) {
		t.Parallel()
		b := newBroker(t)
		w := newWire(t, b.server.URL())
		s := newShell(t, bus.Options{URL: "nats://" + w.l.Addr().String(), Role: bus.Randomizer,
			Seed: b.seeds[bus.Randomizer]}, bus.Pace(0, 0))
		for try := 1; ; try++ { // a busy machine may notice late, but not every time
			w.freeze()
			d := s.until("frozen", "has not answered since")
			if d <= 4*time.Second {
				break
			}
			if try == 4 {
				t.Errorf("noticed after more than four seconds each of %d times, the last time after %s", try, d)
				break
			}
			w.thaw()
			s.until("thawed", "ready")
		}
		if s.metric("riffle_broker_connected") != 0 {
			t.Error("the metrics do not show it")
		}
		w.thaw()
		s.until("thawed", "ready")
		if s.metric("riffle_broker_connected") != 1 {
			t.Error("still not connected")
		}
	})
	t.Run("gone and dialled", func(t *testing.T) {
		t.Parallel()
		b := newBroker(t)
		w := newWire(t, b.server.URL())
		s := newShell(t, bus.Options{URL: "nats://" + w.l.Addr().String(), Role: bus.Randomizer,
			Seed: b.seeds[bus.Randomizer]}, bus.Pace(0, 0))
		// Its connection breaks, and the new one is taken and never answered: nats.go waits for it with its lock held.
		w.freeze()
		s.conn.NATS().ForceReconnect()
		s.until("frozen", "broker")
		publishing := make(chan error, 1)
		go func() {
			ctx, cancel := context.WithTimeout(context.Background(), time.Second)
			defer cancel()
			publishing <- s.conn.Reports.PublishReport(ctx, 1, 0, "id", nil)
		}()
		for range 20 { // /readyz and /metrics in time, each
			s.get("/readyz")
			s.get("/metrics")
			time.Sleep(100 * time.Millisecond)
		}
		if err := <-publishing; err == nil {
			t.Error("a report was published through a frozen wire")
		}
		w.thaw()
		s.until("thawed", "ready")
	})
}

// A call without a final answer shows: in readiness, in the metrics, and once in the log, above debug; and
// it ends showing when the call ends.
func TestStuckCallShows(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	answer := `{"error":{"code":503,"err_code":10008,"description":"JetStream system temporarily unavailable"}}`
	url, seed := doubleServer(t, func(m *nats.Msg) {
		mu.Lock()
		defer mu.Unlock()
		_ = m.Respond([]byte(answer))
	})
	p := bus.Pace(500*time.Millisecond, 50*time.Millisecond)
	s := newShell(t, bus.Options{URL: url, Role: bus.Shuffler, Seed: seed}, p)
	var wg sync.WaitGroup
	begun := time.Now()
	for i := range 3 {
		wg.Go(func() {
			if err := s.conn.Reports.PurgeReports(t.Context(), uint64(i+1)); err != nil {
				t.Error(err)
			}
		})
	}
	s.until("stuck", "broker_calls: STREAM.PURGE.REPORTS has no final answer since")
	testbed.Eventually(t, "all three stuck", func() bool { return s.metric("riffle_broker_stuck_calls") == 3 })
	if age := s.metric("riffle_broker_stuck_seconds"); age < 0.5 || age > time.Since(begun).Seconds() {
		t.Errorf("the oldest call is stuck since %v s", age)
	}
	if got := s.get("/readyz"); !strings.Contains(got, "temporarily unavailable") {
		t.Errorf("readiness does not tell what the broker said: %q", got)
	}
	time.Sleep(300 * time.Millisecond)
	if n := s.log.count(`"level":"warn"`, `"call":"STREAM.PURGE.REPORTS"`, "temporarily unavailable"); n != 1 {
		t.Errorf("%d warnings", n)
	}
	mu.Lock()
	answer = `{"success":true}`
	mu.Unlock()
	wg.Wait()
	s.until("answered", "ready")
	if n := s.metric("riffle_broker_stuck_calls"); n != 0 {
		t.Errorf("%v stuck calls after the last ended", n)
	}
	if n := s.log.count(`"level":"info"`, `"call":"STREAM.PURGE.REPORTS"`); n != 1 {
		t.Errorf("%d lines that it is over", n)
	}
}

// A broker that answers but does not store is told of, whether it says so or is silent, and work goes on by itself
// when it stores again.
func TestRefusedWritesShow(t *testing.T) {
	t.Parallel()
	for name, say := range map[string]string{
		"no room":   `{"error":{"code":503,"err_code":10023,"description":"insufficient resources"}}`,
		"no answer": "",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var mu sync.Mutex
			answer := say
			url, seed := doubleServer(t, func(m *nats.Msg) {
				mu.Lock()
				defer mu.Unlock()
				if answer != "" {
					_ = m.Respond([]byte(answer))
				}
			})
			p := bus.Pace(500*time.Millisecond, 50*time.Millisecond)
			s := newShell(t, bus.Options{URL: url, Role: bus.Randomizer, Seed: seed}, p)
			ended := make(chan error, 1)
			go func() {
				for {
					err := s.conn.Reports.PublishReport(t.Context(), 1, 0, "id", []byte("report"))
					if err == nil || t.Context().Err() != nil {
						ended <- err
						return
					}
					time.Sleep(50 * time.Millisecond)
				}
			}()
			s.until("refusing", bus.ReportSubject(s.conn.User()))
			if s.metric("riffle_broker_refuses_writes") != 1 {
				t.Error("the metric does not show it")
			}
			if s.log.count(`"level":"warn"`, bus.ReportSubject(s.conn.User())) == 0 {
				t.Error("nothing in the log")
			}
			mu.Lock()
			answer = `{"stream":"REPORTS","seq":1}`
			mu.Unlock()
			if err := <-ended; err != nil {
				t.Error(err)
			}
			s.until("storing again", "ready")
			if s.metric("riffle_broker_refuses_writes") != 0 {
				t.Error("the metric still shows it")
			}
		})
	}
}

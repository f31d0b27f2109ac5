package bus_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/riffle-dp/riffle/internal/bus"
	"github.com/riffle-dp/riffle/internal/role"
	"github.com/riffle-dp/riffle/internal/testing/testbed"
)

// wire is a TCP connection to a broker that can be frozen, like one whose process is paused: it stays open, and new
// ones are taken.
type wire struct {
	t       *testing.T
	to      string
	l       net.Listener
	mu      sync.Mutex
	frozen  chan struct{} // closed while nothing is
	thawing func()
}

func newWire(t *testing.T, to string) *wire {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w := &wire{t: t, to: strings.TrimPrefix(to, "nats://"), l: l}
	w.frozen = make(chan struct{})
	close(w.frozen)
	t.Cleanup(func() { l.Close(); w.thaw() })
	go func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer in.Close()
				w.pass()
				out, err := net.Dial("tcp", w.to)
				if err != nil {
					return
				}
				defer out.Close()
				go w.copy(out, in)
				w.copy(in, out)
			}()
		}
	}()
	return w
}

func (w *wire) pass() {
	w.mu.Lock()
	frozen := w.frozen
	w.mu.Unlock()
	<-frozen
}

func (w *wire) copy(to, from net.Conn) {
	defer to.Close()
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		w.pass()
		if err != nil {
			return
		}
		if _, err := to.Write(buf[:n]); err != nil {
			return
		}
	}
}

func (w *wire) freeze() {
	w.mu.Lock()
	defer w.mu.Unlock()
	frozen := make(chan struct{})
	w.frozen, w.thawing = frozen, sync.OnceFunc(func() { close(frozen) })
}

func (w *wire) thaw() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.thawing != nil {
		w.thawing()
	}
}

// shell is a role's process around a connection: what /readyz and /metrics answer, and what it logs.
type shell struct {
	t    *testing.T
	env  *role.Env
	conn *bus.Conn
	log  *logged
	slow atomic.Int32 // answers that were held up
}

type logged struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logged) count(words ...string) (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for line := range strings.Lines(l.b.String()) {
		all := true
		for _, w := range words {
			all = all && strings.Contains(line, w)
		}
		if all {
			n++
		}
	}
	return n
}

func newShell(t *testing.T, o bus.Options, p bus.Pacing) *shell {
	t.Helper()
	s := &shell{t: t, log: &logged{}}
	settings := role.DefaultSettings("127.0.0.1:0")
	var err error
	if s.env, err = role.NewEnv(string(o.Role), settings, s.log); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan struct{})
	up := make(chan struct{})
	go func() {
		defer close(ended)
		err := s.env.Run(ctx, func(ctx context.Context) (err error) {
			o.Logger = &s.env.Log
			if s.conn, err = bus.Connect(ctx, o); err != nil {
				return err
			}
			set := func(condition string, err error) { s.env.Health.Condition(condition).Set(err) }
			if err := s.conn.MonitorAt(ctx, p, s.env.Metrics, set); err != nil {
				return err
			}
			close(up)
			<-ctx.Done()
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	}()
	t.Cleanup(func() {
		stop()
		<-ended
		if s.conn != nil {
			s.conn.NATS().Close()
		}
	})
	select {
	case <-up:
	case <-time.After(testbed.Patience):
		t.Fatal("not attached")
	}
	s.until("ready", "ready")
	return s
}

// slowAnswers is how many answers of one role a busy machine may hold up. One that waits for the broker is held up each
// time that it is asked for while the broker is away.
const slowAnswers = 2

// get asks the ops listener and holds it to answering at once: within a second, and on a busy machine within what an
// answer that has nothing to do with the broker takes at the same time.
func (s *shell) get(path string) string {
	s.t.Helper()
	alive := make(chan time.Duration, 1)
	go func() {
		_, d, _ := s.ask("/healthz")
		alive <- d
	}()
	body, d, err := s.ask(path)
	if err != nil {
		s.t.Fatal(err)
	}
	if other := <-alive; d > time.Second+4*other && s.slow.Add(1) > slowAnswers {
		s.t.Errorf("%s took %s, /healthz took %s, as late as %d others", path, d, other, s.slow.Load()-1)
	}
	return body
}

// ask asks the ops listener; also how long it took.
func (s *shell) ask(path string) (string, time.Duration, error) {
	begin := time.Now()
	r, err := http.Get("http://" + s.env.OpsAddr() + path)
	if err != nil {
		return "", 0, err
	}
	defer r.Body.Close()
	body, err := io.ReadAll(r.Body)
	return string(body), time.Since(begin), err
}

// until asks /readyz, and /metrics with it, until it says that, and returns how long it took.
func (s *shell) until(what, says string) time.Duration {
	s.t.Helper()
	begin := time.Now()
	for {
		got := s.get("/readyz")
		s.get("/metrics")
		if strings.HasPrefix(got, says) || says != "ready" && strings.Contains(got, says) {
			return time.Since(begin)
		}
		if time.Since(begin) > testbed.Patience {
			s.t.Fatalf("%s: /readyz says %q after %s", what, got, time.Since(begin))
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// metric reads one gauge or counter.
func (s *shell) metric(name string) (v float64) {
	s.t.Helper()
	for line := range strings.Lines(s.get("/metrics")) {
		if strings.HasPrefix(line, name+"{") {
			if _, err := fmt.Sscan(line[strings.LastIndex(line, "} ")+2:], &v); err != nil {
				s.t.Fatal(err)
			}
			return v
		}
	}
	s.t.Fatalf("no metric %s", name)
	return 0
}

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

// A call that the broker does not settle shows: in readiness, in the metrics, and once in the log, above debug; and
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
	s.until("stuck", "broker_calls: STREAM.PURGE.REPORTS is not settled since")
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
	s.until("settled", "ready")
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

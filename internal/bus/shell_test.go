package bus_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/riffle-dp/riffle/internal/bus"
	"github.com/riffle-dp/riffle/internal/role"
	"github.com/riffle-dp/riffle/internal/testing/testbed"
)

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
			if p != bus.Pace(0, 0) {
				s.conn.Hasten()
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

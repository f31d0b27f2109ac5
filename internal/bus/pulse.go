package bus

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// pace is how closely a connection is watched.
type pace struct {
	ask    time.Duration // between questions whether the broker is there
	look   time.Duration // between looks at what is known
	silent time.Duration // the broker counts as away after this long without a sign of it
	stuck  time.Duration // a call that waits for this long is reported
	// a refusal for want of room is reported for this long, or until a write succeeds: some callers write again only
	// when ready
	room time.Duration
}

// usualPace notices a broker that is frozen within three seconds, and a call that is not answered after two tries.
var usualPace = pace{ask: time.Second, look: 500 * time.Millisecond, silent: 2500 * time.Millisecond,
	stuck: 10 * time.Second, room: time.Minute}

// The conditions under which the broker lets a role do its work.
const (
	ConditionReached = "broker"       // the broker is there
	ConditionAnswers = "broker_calls" // it gives final answers
	ConditionRoom    = "broker_room"  // it has room for what is written
)

// Monitor watches the connection until the context ends. It registers the connection's metrics, riffle_broker_*, and
// reports every half second each of the three conditions: nil where it is met, otherwise why not. Calls that wait for
// long are told to the log, too. report is called from one goroutine, and must not block.
func (c *Conn) Monitor(ctx context.Context, reg prometheus.Registerer, report func(condition string, err error)) error {
	return c.link.monitor(ctx, usualPace, reg, report)
}

func (c *link) monitor(ctx context.Context, p pace, reg prometheus.Registerer, report func(string, error)) error {
	u := newPulse(c, p)
	if err := reg.Register(newConnMetrics(string(c.role), u)); err != nil {
		return err
	}
	go u.ask(ctx)
	go u.watchOver(ctx, report)
	return nil
}

// pulse knows the state of a connection, without ever waiting for the broker or for nats.go, whose lock is held while
// it dials: what shows it (readiness, metrics) answers at once.
type pulse struct {
	c    *link
	pace pace

	traffic atomic.Pointer[Traffic] // as of the last question

	mu    sync.Mutex
	heard time.Time // when the broker was last known to be there
	bytes uint64    // received until then
}

func newPulse(c *link, p pace) *pulse {
	u := &pulse{c: c, pace: p, heard: time.Now()}
	u.traffic.Store(&Traffic{})
	return u
}

// ask asks the broker again and again whether it is there. It may hang in nats.go for as long as that dials.
func (u *pulse) ask(ctx context.Context) {
	ticker := time.NewTicker(u.pace.ask)
	defer ticker.Stop()
	for {
		limited, cancel := context.WithTimeout(ctx, max(u.pace.ask, u.pace.silent))
		err := u.c.nc.FlushWithContext(limited)
		cancel()
		if err == nil {
			u.mu.Lock()
			u.heard = time.Now()
			u.mu.Unlock()
		}
		t := u.c.Traffic()
		u.traffic.Store(&t)
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// listen counts anything that came as a sign of life: the answer to a question may be behind megabytes of messages.
func (u *pulse) listen() {
	in := atomic.LoadUint64(&u.c.nc.InBytes)
	u.mu.Lock()
	defer u.mu.Unlock()
	if in != u.bytes {
		u.bytes, u.heard = in, time.Now()
	}
}

// silence is for how long nothing was heard of the broker.
func (u *pulse) silence() time.Duration {
	u.mu.Lock()
	defer u.mu.Unlock()
	return time.Since(u.heard)
}

// link says why the broker is not reached, nil where it is.
func (u *pulse) link() error {
	if !u.c.connected.Load() {
		return errors.New("not connected to the broker")
	}
	if s := u.silence(); s > u.pace.silent {
		return fmt.Errorf("connected, but the broker has not answered since %s", clock(time.Now().Add(-s)))
	}
	return nil
}

// clock is a time as people compare it with a log.
func clock(t time.Time) string { return t.UTC().Format(time.TimeOnly) + "Z" }

// watchOver reports the conditions, and tells the log of calls that wait, until the context ends.
func (u *pulse) watchOver(ctx context.Context, report func(condition string, err error)) {
	told := map[string]time.Time{} // since when, by call
	ticker := time.NewTicker(u.pace.look)
	defer ticker.Stop()
	for {
		u.listen()
		report(ConditionReached, u.link())
		stuck := u.c.stuckCalls(u.pace.stuck)
		report(ConditionAnswers, oldestCall(stuck))
		now := map[string]bool{}
		for _, s := range stuck {
			now[s.What] = true
			if _, known := told[s.What]; !known {
				told[s.What] = s.Since
				u.c.log.Warn().Err(s.Last).Str("call", s.What).Int("calls", s.Calls).Time("since",
					s.Since).Msg("the broker gives a call no final answer; it is repeated")
			}
		}
		for what, since := range told {
			if !now[what] {
				delete(told, what)
				u.c.log.Info().Str("call", what).Dur("after",
					time.Since(since)).Msg("no call of this kind waits for the broker any more")
			}
		}
		if r, ok := u.c.noRoom(u.pace.room); ok {
			report(ConditionRoom, fmt.Errorf("a write to %s was refused: %w", r.What, r.Err))
		} else {
			report(ConditionRoom, nil)
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// oldestCall says what the oldest of the waiting calls waits for. Its words change only when that does, since each
// change is logged.
func oldestCall(stuck []Stuck) error {
	if len(stuck) == 0 {
		return nil
	}
	s := stuck[0]
	return fmt.Errorf("%s has no final answer since %s: %w", s.What, clock(s.Since), s.Last)
}

// refusesWrites reports whether the broker lets nothing be stored that was asked for lately: it has no room, or answers
// everything but writes, as one does whose disk failed it.
func (u *pulse) refusesWrites() bool {
	if _, full := u.c.noRoom(u.pace.room); full {
		return true
	}
	for _, s := range u.c.stuckCalls(u.pace.stuck) {
		if errors.Is(s.Last, ErrDisk) || s.Write && u.link() == nil {
			return true
		}
	}
	return false
}

// connMetrics shows a connection on /metrics, as its pulse knows it: never by asking. The counters are sums: nothing
// in them says which message came when.
type connMetrics struct {
	u                                                                               *pulse
	connected, messages, bytes, reconnects, repeats, stuckCalls, stuckTime, refuses *prometheus.Desc
}

func newConnMetrics(role string, u *pulse) *connMetrics {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("riffle_broker_"+name, help, labels, prometheus.Labels{"role": role})
	}
	return &connMetrics{
		u:         u,
		connected: desc("connected", "1 while the broker is reached and answers."),
		stuckCalls: desc("stuck_calls", "Calls that the broker has given no final answer for ten seconds or more, "+
			"and that are being repeated."),
		stuckTime: desc("stuck_seconds", "How long the oldest of these calls has waited, 0 where there is none."),
		refuses: desc("refuses_writes", "1 while the broker has no room for what is written, or answers anything "+
			"but writes."),
		messages: desc("messages_total", "Messages from and to the broker, acknowledgements and heartbeats "+
			"included.", "direction"),
		bytes:      desc("bytes_total", "Bytes of those messages.", "direction"),
		reconnects: desc("reconnects_total", "Times that the connection was lost and came back."),
		repeats:    desc("repeats_total", "Requests made again because no answer came, or no final one."),
	}
}

// Describe is for prometheus.
func (m *connMetrics) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{m.connected, m.stuckCalls, m.stuckTime, m.refuses, m.messages,
		m.bytes, m.reconnects, m.repeats} {
		ch <- d
	}
}

// Collect is for prometheus.
func (m *connMetrics) Collect(ch chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, v float64) { ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v) }
	yes := func(b bool) float64 {
		if b {
			return 1
		}
		return 0
	}
	gauge(m.connected, yes(m.u.link() == nil))
	calls, longest := 0, time.Duration(0)
	for _, s := range m.u.c.stuckCalls(m.u.pace.stuck) {
		calls += s.Calls
		longest = max(longest, time.Since(s.Since))
	}
	gauge(m.stuckCalls, float64(calls))
	gauge(m.stuckTime, longest.Seconds())
	gauge(m.refuses, yes(m.u.refusesWrites()))
	t := m.u.traffic.Load()
	counter := func(d *prometheus.Desc, n uint64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(n), labels...)
	}
	counter(m.messages, t.MessagesIn, "in")
	counter(m.messages, t.MessagesOut, "out")
	counter(m.bytes, t.BytesIn, "in")
	counter(m.bytes, t.BytesOut, "out")
	counter(m.reconnects, t.Reconnects)
	counter(m.repeats, m.u.c.repeats.Load())
}

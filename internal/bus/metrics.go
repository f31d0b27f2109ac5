package bus

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

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
		stuckCalls: desc("stuck_calls", "Calls that the broker has not settled for ten seconds or more, and that "+
			"are being repeated."),
		stuckTime: desc("stuck_seconds", "How long the oldest of these calls has waited, 0 where there is none."),
		refuses: desc("refuses_writes", "1 while the broker has no room for what is written, or answers anything "+
			"but writes."),
		messages: desc("messages_total", "Messages from and to the broker, acknowledgements and heartbeats "+
			"included.", "direction"),
		bytes:      desc("bytes_total", "Bytes of those messages.", "direction"),
		reconnects: desc("reconnects_total", "Times that the connection was lost and came back."),
		repeats:    desc("repeats_total", "Requests made again because no answer came, or none that settles it."),
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
	for _, s := range m.u.c.stuck(m.u.pace.stuck) {
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

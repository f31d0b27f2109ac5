package bus

import "github.com/prometheus/client_golang/prometheus"

// trafficMetrics shows a connection's counters on /metrics. They are sums: nothing in them says which message came when.
type trafficMetrics struct {
	c                                               *Conn
	connected, messages, bytes, reconnects, repeats *prometheus.Desc
}

func newTrafficMetrics(role string, c *Conn) *trafficMetrics {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("riffle_broker_"+name, help, labels, prometheus.Labels{"role": role})
	}
	return &trafficMetrics{
		c:          c,
		connected:  desc("connected", "1 while the broker is reached."),
		messages:   desc("messages_total", "Messages from and to the broker, acknowledgements and heartbeats included.", "direction"),
		bytes:      desc("bytes_total", "Bytes of those messages.", "direction"),
		reconnects: desc("reconnects_total", "Times that the connection was lost and came back."),
		repeats:    desc("repeats_total", "Requests made again because no answer came, or none that settles it."),
	}
}

// Describe is for prometheus.
func (m *trafficMetrics) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{m.connected, m.messages, m.bytes, m.reconnects, m.repeats} {
		ch <- d
	}
}

// Collect is for prometheus.
func (m *trafficMetrics) Collect(ch chan<- prometheus.Metric) {
	t, connected := m.c.Traffic(), 0.0
	if m.c.Connected() {
		connected = 1
	}
	ch <- prometheus.MustNewConstMetric(m.connected, prometheus.GaugeValue, connected)
	counter := func(d *prometheus.Desc, n uint64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(n), labels...)
	}
	counter(m.messages, t.MessagesIn, "in")
	counter(m.messages, t.MessagesOut, "out")
	counter(m.bytes, t.BytesIn, "in")
	counter(m.bytes, t.BytesOut, "out")
	counter(m.reconnects, t.Reconnects)
	counter(m.repeats, t.Repeats)
}

package bus

import (
	"context"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"
)

// What the tests see of a connection: they are outside the package because the broker that they start imports it.

const (
	OddTries         = oddTries
	HeaderRound      = headerRound
	HeaderExpectLast = headerExpectLast
)

func (c *Conn) NATS() *nats.Conn               { return c.link.nc }
func (c *Conn) JetStream() jetstream.JetStream { return c.link.js }
func (c *Conn) User() string                   { return c.link.user }

// Leader reads one message from the stream's leader.
func (c *Conn) Leader(ctx context.Context, stream string, sequence uint64) ([]byte, error) {
	r, err := c.link.Leader(ctx, stream, Query{Sequence: sequence})
	return r.Data, err
}

// Batch reads one batch and drops it.
func (c *Conn) Batch(ctx context.Context, stream, filter string, from uint64) error {
	_, err := c.link.Batch(ctx, stream, filter, from)
	return err
}

// Do tries fn as every call does.
func (c *Conn) Do(ctx context.Context, subject string, fn func(context.Context) error) error {
	return c.link.do(ctx, subject, fn)
}

// Alone is a connection that needs no broker: of its methods Do works.
func Alone() *Conn {
	c := newLink(Analyzer, "")
	c.connected.Store(true)
	return &Conn{link: c}
}

// Hasten has calls give a try less time, and wait less between tries. Call it before any other method.
func (c *Conn) Hasten() { c.link.attempt, c.link.pause = 500*time.Millisecond, time.Millisecond }

// Transport is what the handles of the connection are over.
func (c *Conn) Transport() Transport { return c.link }

func ReportSubject(host string) string { return subjectReport(host) }

func AnnouncementSubject(epoch uint64, round uint32, payload []byte) string {
	return subjectAnnouncement(epoch, round, payload)
}

// Pacing is how closely a connection is watched.
type Pacing = pace

// Pace is how closely a connection is watched; its usual one if both are 0.
func Pace(stuck, look time.Duration) Pacing {
	p := usualPace
	if stuck > 0 {
		p.stuck, p.look = stuck, look
	}
	return p
}

// MonitorAt is Monitor at another pace.
func (c *Conn) MonitorAt(ctx context.Context, p Pacing, reg prometheus.Registerer, report func(string, error)) error {
	return c.link.monitor(ctx, p, reg, report)
}

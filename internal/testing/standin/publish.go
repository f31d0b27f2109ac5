package standin

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/riffle-dp/riffle/internal/broker"
	"github.com/riffle-dp/riffle/internal/bus"
)

// Names of headers whose bytes count for a stream's limits.
const (
	headerMsgID      = "Nats-Msg-Id"
	headerRound      = "Riffle-Round"
	headerExpectLast = "Nats-Expected-Last-Subject-Sequence"
	headerExpectOf   = "Nats-Expected-Last-Subject-Sequence-Subject"
	maxToken         = 64  // bytes of an audit kind, or of a segment's name
	maxMsgID         = 128 // bytes of a message id
)

// headers counts the bytes of headers on the wire.
func headers(pairs ...string) int {
	n := len("NATS/1.0\r\n") + len("\r\n")
	for i := 0; i < len(pairs); i += 2 {
		n += len(pairs[i]) + len(": ") + len(pairs[i+1]) + len("\r\n")
	}
	return n
}

// publishing is what is to be stored.
type publishing struct {
	method, stream string
	about          string // the op's subject; empty: the message's
	m              message
	when           *condition
}

// publish stores a message, and returns its sequence, or that of the one that it repeats.
func (c *Conn) publish(ctx context.Context, p publishing) (uint64, error) {
	if len(p.m.data) > bus.MaxMessage {
		return 0, fmt.Errorf("%w: %d bytes, at most %d", bus.ErrTooLarge, len(p.m.data), bus.MaxMessage)
	}
	if p.about == "" {
		p.about = p.m.subject
	}
	p.m.data = bytes.Clone(p.m.data)
	sequence, err := call(ctx, c, p.method, p.about, need{broker.Publish, p.m.subject}, func() (uint64, error) {
		before := c.b.streams[p.stream].last
		sequence, err := c.b.streams[p.stream].publish(p.m, p.when)
		if err == nil && sequence > before {
			c.b.notify(p.m.subject)
		}
		return sequence, err
	})
	if err != nil {
		return 0, fmt.Errorf("standin: publish %s: %w", p.about, err)
	}
	return sequence, nil
}

// create stores a message under a subject that may hold only one. If the same message is stored already, the call
// succeeds.
func (c *Conn) create(ctx context.Context, p publishing) error {
	p.m.headers = headers(headerExpectLast, "0")
	p.when = &condition{}
	for {
		_, err := c.publish(ctx, p)
		if !errors.Is(err, errTaken) {
			return err
		}
		stored, err := c.last(ctx, p.method, p.stream, p.m.subject, p.about)
		switch {
		case errors.Is(err, bus.ErrGone):
			continue // purged in between
		case err != nil:
			return err
		case bytes.Equal(stored.data, p.m.data):
			return nil
		}
		return &bus.ExistsError{Name: p.m.subject, Stored: bytes.Clone(stored.data)}
	}
}

// PublishReport is that of bus.Conn.
func (c *Conn) PublishReport(ctx context.Context, epoch uint64, round uint32, msgID string, payload []byte) error {
	if err := checkToken("message id", msgID, maxMsgID); err != nil {
		return err
	}
	place := roundName(epoch, round)
	digest := sha256.Sum256(fmt.Appendf(nil, "%s\x00%s\x00%s", msgID, place, payload))
	id := base64.RawURLEncoding.EncodeToString(digest[:18])
	_, err := c.publish(ctx, publishing{method: "PublishReport", stream: bus.StreamReports, m: message{
		subject: bus.SubjectReport + "." + c.client, data: payload, id: id, round: place,
		headers: headers(headerMsgID, id, headerRound, place),
	}})
	if errors.Is(err, errTaken) {
		return fmt.Errorf("%w: this host has as many reports waiting as one host may (%v)", bus.ErrFull, err)
	}
	return err
}

// PublishChunk is that of bus.Conn.
func (c *Conn) PublishChunk(ctx context.Context, epoch uint64, round, index uint32, payload []byte) error {
	return c.create(ctx, publishing{method: "PublishChunk", stream: bus.StreamMixed,
		m: message{subject: indexed(bus.SubjectMixed, epoch, round, index), data: payload}})
}

// PublishManifest is that of bus.Conn.
func (c *Conn) PublishManifest(ctx context.Context, epoch uint64, round uint32, payload []byte) error {
	return c.create(ctx, publishing{method: "PublishManifest", stream: bus.StreamMixed,
		m: message{subject: subjectRound(bus.SubjectManifest, epoch, round), data: payload}})
}

// PublishPrepared is that of bus.Conn.
func (c *Conn) PublishPrepared(ctx context.Context, epoch uint64, round, index uint32, payload []byte) error {
	return c.create(ctx, publishing{method: "PublishPrepared", stream: bus.StreamPrepared,
		m: message{subject: indexed(bus.SubjectPrepared, epoch, round, index), data: payload}})
}

// PublishSegment is that of bus.Conn.
func (c *Conn) PublishSegment(ctx context.Context, epoch uint64, round uint32, name string, bucket uint32,
	payload []byte) error {
	if err := checkToken("name of a segment", name, maxToken); err != nil {
		return err
	}
	return c.create(ctx, publishing{method: "PublishSegment", stream: bus.StreamMixing,
		about: indexed(bus.SubjectMixing, epoch, round, bucket),
		m:     message{subject: subjectSegment(epoch, round, name, bucket), data: payload}})
}

// PublishRetained is that of bus.Conn.
func (c *Conn) PublishRetained(ctx context.Context, epoch uint64, round, index uint32, sealed []byte,
	window time.Duration) error {
	if window < bus.MinRetain || window > bus.MaxRetain {
		return fmt.Errorf("standin: retained for %s: must be %s to %s", window, bus.MinRetain, bus.MaxRetain)
	}
	life := window.Truncate(time.Second)
	_, err := c.publish(ctx, publishing{method: "PublishRetained", stream: bus.StreamRetained, when: &condition{},
		m: message{subject: indexed(bus.SubjectRetained, epoch, round, index), data: sealed, life: life,
			headers: headers(headerExpectLast, "0", jetstream.MsgTTLHeader, life.String())}})
	if errors.Is(err, errTaken) {
		return nil
	}
	return err
}

// PutAnnouncement is that of bus.Conn.
func (c *Conn) PutAnnouncement(ctx context.Context, epoch uint64, round uint32, payload []byte) error {
	about := subjectRound(bus.SubjectAnnouncements, epoch, round)
	return c.create(ctx, publishing{method: "PutAnnouncement", stream: bus.StreamAnnouncements, about: about,
		m: message{subject: about + "." + digestOf(payload), data: payload}})
}

// PutKeys is that of bus.Conn.
func (c *Conn) PutKeys(ctx context.Context, payload []byte) error {
	_, err := c.publish(ctx, publishing{method: "PutKeys", stream: bus.StreamKeys,
		m: message{subject: bus.SubjectKeys + "." + string(c.role), data: payload}})
	return err
}

// AppendAudit is that of bus.Conn.
func (c *Conn) AppendAudit(ctx context.Context, kind string, payload []byte) error {
	if err := checkToken("audit kind", kind, maxToken); err != nil {
		return err
	}
	_, err := c.publish(ctx, c.audited("AppendAudit", kind, payload))
	if errors.Is(err, errTaken) {
		return nil
	}
	return err
}

// AppendAuditAfter is that of bus.Conn.
func (c *Conn) AppendAuditAfter(ctx context.Context, kind string, payload []byte, last uint64) (uint64, error) {
	if err := checkToken("audit kind", kind, maxToken); err != nil {
		return 0, err
	}
	p := c.audited("AppendAuditAfter", kind, payload)
	p.when = &condition{filter: bus.SubjectAudit + "." + string(c.role) + ".*.*", last: last}
	p.m.headers = headers(headerExpectLast, strconv.FormatUint(last, 10), headerExpectOf, p.when.filter)
	sequence, err := c.publish(ctx, p)
	if errors.Is(err, errTaken) {
		return 0, bus.ErrMoved
	}
	return sequence, err
}

func (c *Conn) audited(method, kind string, payload []byte) publishing {
	return publishing{method: method, stream: bus.StreamAudit,
		about: bus.SubjectAudit + "." + string(c.role) + "." + kind,
		m:     message{subject: subjectAudit(c.role, kind, payload), data: payload}}
}

// PublishTask is that of bus.Conn.
func (c *Conn) PublishTask(ctx context.Context, payload []byte) error {
	digest := sha256.Sum256(payload)
	id := base64.RawURLEncoding.EncodeToString(digest[:18])
	_, err := c.publish(ctx, publishing{method: "PublishTask", stream: bus.StreamTasks + string(c.role), m: message{
		subject: bus.SubjectTasks + "." + string(c.role), data: payload, id: id, headers: headers(headerMsgID, id)}})
	return err
}

// purge drops what matches the filter before a sequence.
func (c *Conn) purge(ctx context.Context, method, stream, filter string, before uint64) error {
	_, err := call(ctx, c, method, filter, purging(stream), func() (struct{}, error) {
		c.b.streams[stream].purge(filter, before)
		return struct{}{}, nil
	})
	if err != nil {
		return fmt.Errorf("standin: purge %s: %w", stream, err)
	}
	return nil
}

// PurgeReports is that of bus.Conn.
func (c *Conn) PurgeReports(ctx context.Context, upTo uint64) error {
	if upTo == 0 {
		return nil
	}
	return c.purge(ctx, "PurgeReports", bus.StreamReports, "", upTo+1)
}

// PurgeMixed is that of bus.Conn.
func (c *Conn) PurgeMixed(ctx context.Context, epoch uint64, round uint32) error {
	return c.purge(ctx, "PurgeMixed", bus.StreamMixed, subjectRound(bus.SubjectMixed, epoch, round)+".*", 0)
}

// PurgePrepared is that of bus.Conn.
func (c *Conn) PurgePrepared(ctx context.Context, epoch uint64, round uint32) error {
	return c.purge(ctx, "PurgePrepared", bus.StreamPrepared, subjectRound(bus.SubjectPrepared, epoch, round)+".*", 0)
}

// PurgeSegments is that of bus.Conn.
func (c *Conn) PurgeSegments(ctx context.Context) error {
	return c.purge(ctx, "PurgeSegments", bus.StreamMixing, bus.SubjectMixing+".>", 0)
}

// PurgeTasks is that of bus.Conn.
func (c *Conn) PurgeTasks(ctx context.Context) error {
	return c.purge(ctx, "PurgeTasks", bus.StreamTasks+string(c.role), "", 0)
}

func digestOf(payload []byte) string {
	digest := sha256.Sum256(payload)
	return hex.EncodeToString(digest[:16])
}

func roundName(epoch uint64, round uint32) string { return fmt.Sprintf("%d.%d", epoch, round) }

func subjectRound(prefix string, epoch uint64, round uint32) string {
	return prefix + "." + roundName(epoch, round)
}

func indexed(prefix string, epoch uint64, round, index uint32) string {
	return fmt.Sprintf("%s.%d", subjectRound(prefix, epoch, round), index)
}

func subjectSegment(epoch uint64, round uint32, name string, bucket uint32) string {
	return fmt.Sprintf("%s.%s.%d", subjectRound(bus.SubjectMixing, epoch, round), name, bucket)
}

func subjectAudit(role bus.Role, kind string, payload []byte) string {
	return fmt.Sprintf("%s.%s.%s.%s", bus.SubjectAudit, role, kind, digestOf(payload))
}

// checkToken accepts what may stand as one token of a subject.
func checkToken(what, s string, longest int) error {
	if s == "" || len(s) > longest {
		return fmt.Errorf("%w: %s must have 1 to %d bytes, has %d", bus.ErrBadName, what, longest, len(s))
	}
	for _, c := range []byte(s) {
		if !('a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '-' || c == '_') {
			return fmt.Errorf("%w: %s %q may only hold letters, digits, - and _", bus.ErrBadName, what, s)
		}
	}
	return nil
}

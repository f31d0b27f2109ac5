package standin

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/riffle-dp/riffle/internal/bus"
)

// batchSize is how many messages one request reads at most.
const batchSize = 256

// one reads one message that find finds.
func (c *Conn) one(ctx context.Context, method, name, about string, n need,
	find func(*stream) *message) (*message, error) {
	m, err := call(ctx, c, method, about, n, func() (*message, error) {
		s := c.b.streams[name]
		s.age()
		if m := find(s); m != nil {
			return m, nil
		}
		return nil, bus.ErrGone
	})
	if err != nil {
		return nil, fmt.Errorf("standin: read %s: %w", name, err)
	}
	return m, nil
}

// last asks the leader for the newest message of a subject.
func (c *Conn) last(ctx context.Context, method, name, subject, about string) (*message, error) {
	return c.one(ctx, method, name, about, reading(name), func(s *stream) *message { return s.newest(subject) })
}

// anywhere asks a replica, and the leader where that one does not have it.
func (c *Conn) anywhere(ctx context.Context, method, name, about string,
	find func(*stream) *message) (*message, error) {
	m, err := c.one(ctx, method, name, about, direct(name), find)
	if errors.Is(err, bus.ErrGone) {
		return c.one(ctx, method, name, about, reading(name), find)
	}
	return m, err
}

// scan hands every message that matches the filter, from a sequence on and in order, to fn, and returns the sequence
// to go on from.
func (c *Conn) scan(ctx context.Context, method, name, filter string, from uint64, fn func(*message) error) (uint64,
	error) {
	from = max(from, 1)
	for {
		begin := from // a request that is late must not see where the client is by then
		batch, err := call(ctx, c, method, filter, direct(name), func() ([]*message, error) {
			var batch []*message
			s := c.b.streams[name]
			s.age()
			for m := s.next(filter, begin); m != nil && len(batch) < batchSize; m = s.next(filter, m.sequence+1) {
				batch = append(batch, m)
			}
			return batch, nil
		})
		if err != nil {
			return from, fmt.Errorf("standin: read %s: %w", name, err)
		}
		if len(batch) == 0 {
			m, err := c.one(ctx, method, name, filter, reading(name),
				func(s *stream) *message { return s.next(filter, begin) })
			if errors.Is(err, bus.ErrGone) {
				return from, nil
			}
			if err != nil {
				return from, err
			}
			batch = []*message{m}
		}
		for _, m := range batch {
			if err := fn(m); err != nil {
				return from, err
			}
			from = m.sequence + 1
		}
	}
}

// GetReport is that of bus.Conn.
func (c *Conn) GetReport(ctx context.Context, sequence uint64) ([]byte, error) {
	if sequence == 0 {
		return nil, fmt.Errorf("report 0: %w", bus.ErrGone)
	}
	m, err := c.anywhere(ctx, "GetReport", bus.StreamReports, strconv.FormatUint(sequence, 10),
		func(s *stream) *message { return s.at(sequence) })
	if err != nil {
		return nil, fmt.Errorf("report %d: %w", sequence, err)
	}
	return bytes.Clone(m.data), nil
}

// StoredReports is that of bus.Conn.
func (c *Conn) StoredReports(ctx context.Context, epoch uint64, round uint32, from uint64,
	handler func(sequence uint64, payload []byte) error) error {
	of := roundName(epoch, round)
	_, err := c.scan(ctx, "StoredReports", bus.StreamReports, bus.SubjectReport+".*", from, func(m *message) error {
		if m.round != of {
			return nil
		}
		return handler(m.sequence, bytes.Clone(m.data))
	})
	return err
}

// LastReport is that of bus.Conn.
func (c *Conn) LastReport(ctx context.Context) (uint64, error) {
	m, err := c.last(ctx, "LastReport", bus.StreamReports, bus.SubjectReport+".*", bus.SubjectReport)
	if errors.Is(err, bus.ErrGone) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("last report: %w", err)
	}
	return m.sequence, nil
}

// ReadChunks is that of bus.Conn.
func (c *Conn) ReadChunks(ctx context.Context, epoch uint64, round uint32,
	handler func(index uint32, payload []byte) error) error {
	filter := subjectRound(bus.SubjectMixed, epoch, round)
	_, err := c.scan(ctx, "ReadChunks", bus.StreamMixed, filter+".*", 1, func(m *message) error {
		return handler(indexOf(m.subject), bytes.Clone(m.data))
	})
	return err
}

// indexOf is the last token of a subject that this package made.
func indexOf(subject string) uint32 {
	n, err := strconv.ParseUint(subject[strings.LastIndexByte(subject, '.')+1:], 10, 32)
	if err != nil {
		panic(fmt.Sprintf("standin: subject %s does not end in an index", subject))
	}
	return uint32(n)
}

// ReadChunk is that of bus.Conn.
func (c *Conn) ReadChunk(ctx context.Context, epoch uint64, round, index uint32) ([]byte, error) {
	subject := indexed(bus.SubjectMixed, epoch, round, index)
	m, err := c.anywhere(ctx, "ReadChunk", bus.StreamMixed, subject,
		func(s *stream) *message { return s.newest(subject) })
	if err != nil {
		return nil, fmt.Errorf("chunk %d of epoch %d, round %d: %w", index, epoch, round, err)
	}
	return bytes.Clone(m.data), nil
}

// ReadManifest is that of bus.Conn.
func (c *Conn) ReadManifest(ctx context.Context, epoch uint64, round uint32) ([]byte, error) {
	return c.lastOf(ctx, "ReadManifest", bus.StreamMixed, subjectRound(bus.SubjectManifest, epoch, round))
}

// ReadPrepared is that of bus.Conn.
func (c *Conn) ReadPrepared(ctx context.Context, epoch uint64, round, index uint32) ([]byte, error) {
	return c.lastOf(ctx, "ReadPrepared", bus.StreamPrepared, indexed(bus.SubjectPrepared, epoch, round, index))
}

// Keys is that of bus.Conn.
func (c *Conn) Keys(ctx context.Context, role bus.Role) ([]byte, error) {
	return c.lastOf(ctx, "Keys", bus.StreamKeys, bus.SubjectKeys+"."+string(role))
}

func (c *Conn) lastOf(ctx context.Context, method, stream, subject string) ([]byte, error) {
	m, err := c.last(ctx, method, stream, subject, subject)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", subject, err)
	}
	return bytes.Clone(m.data), nil
}

// ReadSegment is that of bus.Conn.
func (c *Conn) ReadSegment(ctx context.Context, epoch uint64, round uint32, name string, bucket uint32) ([]byte,
	error) {
	subject := subjectSegment(epoch, round, name, bucket)
	m, err := c.anywhere(ctx, "ReadSegment", bus.StreamMixing, indexed(bus.SubjectMixing, epoch, round, bucket),
		func(s *stream) *message { return s.newest(subject) })
	if err != nil {
		return nil, fmt.Errorf("segment of bucket %d of epoch %d, round %d: %w", bucket, epoch, round, err)
	}
	return bytes.Clone(m.data), nil
}

// ReadRetained is that of bus.Conn.
func (c *Conn) ReadRetained(ctx context.Context, epoch uint64, round uint32, handler func(bus.Retained) error) error {
	_, err := c.scan(ctx, "ReadRetained", bus.StreamRetained, subjectRound(bus.SubjectRetained, epoch, round)+".*", 1,
		func(m *message) error {
			return handler(bus.Retained{Index: indexOf(m.subject), Sealed: bytes.Clone(m.data), Stored: m.at,
				Window: m.life})
		})
	return err
}

// CanRetain is that of bus.Conn.
func (c *Conn) CanRetain(ctx context.Context) error {
	_, err := call(ctx, c, "CanRetain", bus.StreamRetained, asking("STREAM.INFO."+bus.StreamRetained),
		func() (struct{}, error) { return struct{}{}, nil })
	return err
}

// ReportRoom is that of bus.Conn. It takes no turn: the limits are the same from the beginning.
func (c *Conn) ReportRoom(context.Context) (bus.ReportRoom, error) {
	is := c.b.streams[bus.StreamReports].config
	size := int64(is.MaxMsgSize) - bus.ReportHeaders
	return bus.ReportRoom{PerHost: is.MaxMsgsPerSubject, Size: size, Bytes: is.MaxBytes}, nil
}

// Announcements is that of bus.Conn.
func (c *Conn) Announcements(ctx context.Context) ([]bus.Announcement, error) {
	return c.announcements(ctx, "Announcements", bus.SubjectAnnouncements+".*.*.*")
}

// AnnouncementsAt is that of bus.Conn.
func (c *Conn) AnnouncementsAt(ctx context.Context, epoch uint64, round uint32) ([]bus.Announcement, error) {
	return c.announcements(ctx, "AnnouncementsAt", subjectRound(bus.SubjectAnnouncements, epoch, round)+".*")
}

func (c *Conn) announcements(ctx context.Context, method, filter string) ([]bus.Announcement, error) {
	var all []bus.Announcement
	_, err := c.scan(ctx, method, bus.StreamAnnouncements, filter, 1, func(m *message) error {
		all = append(all, announcement(m))
		return nil
	})
	if err != nil {
		return nil, err
	}
	return all, nil
}

func announcement(m *message) bus.Announcement {
	a := bus.Announcement{Payload: bytes.Clone(m.data)}
	name := strings.TrimPrefix(m.subject, bus.SubjectAnnouncements+".")
	if _, err := fmt.Sscanf(name, "%d.%d.", &a.Epoch, &a.Round); err != nil {
		panic(fmt.Sprintf("standin: %s names no round", m.subject))
	}
	return a
}

// Audited is that of bus.Conn.
func (c *Conn) Audited(ctx context.Context, role bus.Role, kind string, payload []byte) (bool, error) {
	if err := checkKind(role, kind); err != nil {
		return false, err
	}
	m, err := c.last(ctx, "Audited", bus.StreamAudit, subjectAudit(role, kind, payload),
		bus.SubjectAudit+"."+string(role)+"."+kind)
	if errors.Is(err, bus.ErrGone) {
		return false, nil
	}
	return err == nil && bytes.Equal(m.data, payload), err
}

func checkKind(role bus.Role, kind string) error {
	return errors.Join(checkToken("role", string(role), maxToken), checkToken("audit kind", kind, maxToken))
}

// Said is that of bus.Conn.
func (c *Conn) Said(ctx context.Context, role bus.Role, kind string, handler func(payload []byte) error) error {
	if err := checkKind(role, kind); err != nil {
		return err
	}
	return c.said(ctx, "Said", bus.SubjectAudit+"."+string(role)+"."+kind+".*", 1,
		func(s bus.Statement) error { return handler(s.Payload) })
}

// SaidSince is that of bus.Conn.
func (c *Conn) SaidSince(ctx context.Context, role bus.Role, from uint64, handler func(bus.Statement) error) error {
	if err := checkToken("role", string(role), maxToken); err != nil {
		return err
	}
	return c.said(ctx, "SaidSince", bus.SubjectAudit+"."+string(role)+".*.*", from, handler)
}

// said asks the leader for one entry at a time.
func (c *Conn) said(ctx context.Context, method, filter string, from uint64, handler func(bus.Statement) error) error {
	for from = max(from, 1); ; {
		begin := from // a request that is late must not see where the client is by then
		m, err := c.one(ctx, method, bus.StreamAudit, filter, reading(bus.StreamAudit),
			func(s *stream) *message { return s.next(filter, begin) })
		if errors.Is(err, bus.ErrGone) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := handler(statement(m)); err != nil {
			return err
		}
		from = m.sequence + 1
	}
}

func statement(m *message) bus.Statement {
	role, name, _ := strings.Cut(strings.TrimPrefix(m.subject, bus.SubjectAudit+"."), ".")
	kind, _, _ := strings.Cut(name, ".")
	return bus.Statement{Role: bus.Role(role), Kind: kind, Sequence: m.sequence, Time: m.at,
		Payload: bytes.Clone(m.data)}
}

// ReadAudit is that of bus.Conn.
func (c *Conn) ReadAudit(ctx context.Context, filter bus.AuditFilter, handler func(bus.Statement) error) error {
	role, kind := "*", "*"
	if filter.Role != "" {
		if role = string(filter.Role); checkToken("role", role, maxToken) != nil {
			return checkToken("role", role, maxToken)
		}
	}
	if filter.Kind != "" {
		if kind = filter.Kind; checkToken("audit kind", kind, maxToken) != nil {
			return checkToken("audit kind", kind, maxToken)
		}
	}
	_, err := c.scan(ctx, "ReadAudit", bus.StreamAudit, bus.SubjectAudit+"."+role+"."+kind+".*", filter.After+1,
		func(m *message) error { return handler(statement(m)) })
	return err
}

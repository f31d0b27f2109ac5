package audit

import (
	"context"
	"errors"
	"fmt"

	"github.com/riffle-dp/riffle/internal/bus"
	"github.com/riffle-dp/riffle/internal/keyring"
	"github.com/riffle-dp/riffle/pkg/transparency"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// Streams is what a live audit reads at the broker. Over makes one of an auditor's connection; the handles of package
// bus document the methods.
type Streams interface {
	ReadAudit(ctx context.Context, filter bus.AuditFilter, handler func(bus.Statement) error) error
	ReadRetained(ctx context.Context, epoch uint64, round uint32, handler func(bus.Retained) error) error
}

// Over are the handles of a connection that an audit reads.
func Over(s bus.Streams) Streams {
	return struct {
		*bus.AuditStream
		*bus.RetainedStream
	}{s.Audit, s.Retained}
}

// Live is a deployment's streams as they were at one moment, so that both logs fit each other. It is a Source.
//
// Leaves are what the writers of the logs take for leaves (wire.Leaf), under their own names. Everything else in a
// role's part of the stream is skipped: who holds a role's credential at the broker can write there, and nobody acts on
// it. A leaf that the role is still signing a checkpoint over is left out.
type Live struct {
	streams Streams
	bundle  keyring.Bundle
	last    uint64 // sequence of the last statement that the moment shows
	logs    map[bus.Role]*moment
}

// moment is one log at the moment.
type moment struct {
	leaves     uint64 // that the stream shows
	checkpoint []byte // the last in the stream; nil: none
	size       uint64 // that it states
}

// NewLive reads the audit stream once, for the moment that it shows from then on. Errors: those of
// bus.AuditStream.ReadAudit.
func NewLive(ctx context.Context, streams Streams, bundle keyring.Bundle) (*Live, error) {
	l := &Live{streams: streams, bundle: bundle, logs: map[bus.Role]*moment{}}
	for _, role := range logRoles() {
		l.logs[role] = &moment{}
	}
	err := streams.ReadAudit(ctx, bus.AuditFilter{}, func(s bus.Statement) error {
		l.last = s.Sequence
		m, ok := l.logs[s.Role]
		switch {
		case !ok, s.Misnamed:
		case s.Kind == wire.KindCheckpoint:
			origin := transparency.Origin(bundle.Deployment, string(s.Role))
			if c, err := transparency.Open(s.Payload, origin, l.party(s.Role).Key); err == nil {
				m.checkpoint, m.size = s.Payload, c.Size
			}
		case wire.Leaf(s.Kind, s.Payload, l.party(s.Role)):
			m.leaves++
		}
		return nil
	})
	return l, err
}

// Party is whom a role's statements must come from.
func Party(b keyring.Bundle, role bus.Role) wire.Party {
	if role == bus.Shuffler {
		return b.ShufflerParty()
	}
	return b.AnalyzerParty()
}

func (l *Live) party(role bus.Role) wire.Party { return Party(l.bundle, role) }

// Uncovered is the number of leaves at the end of a role's log that no checkpoint covered at the moment. A role that
// runs signs one at once; if there are some for long, it does not sign what it appended.
func (l *Live) Uncovered(role bus.Role) uint64 {
	if m := l.logs[role]; m != nil && m.checkpoint != nil && m.leaves > m.size {
		return m.leaves - m.size
	}
	return 0
}

// errEnough ends a reading of the stream.
var errEnough = errors.New("enough")

// Log implements Source.
func (l *Live) Log(ctx context.Context, role bus.Role, f func(Entry) error) error {
	m := l.logs[role]
	if m == nil {
		return fmt.Errorf("audit: the %s has no log", role)
	}
	left := m.leaves - l.Uncovered(role)
	err := l.streams.ReadAudit(ctx, bus.AuditFilter{Role: role}, func(s bus.Statement) error {
		if left == 0 || s.Sequence > l.last {
			return errEnough
		}
		if s.Misnamed || s.Kind == wire.KindCheckpoint || !wire.Leaf(s.Kind, s.Payload, l.party(role)) {
			return nil
		}
		left--
		return f(Entry{Kind: s.Kind, Signed: s.Payload})
	})
	if errors.Is(err, errEnough) {
		return nil
	}
	return err
}

// Checkpoint implements Source.
func (l *Live) Checkpoint(_ context.Context, role bus.Role) ([]byte, error) {
	if m := l.logs[role]; m != nil {
		return m.checkpoint, nil
	}
	return nil, nil
}

// Retained implements Source.
func (l *Live) Retained(
	ctx context.Context, epoch uint64, round uint32, f func(index uint32, sealed []byte) error,
) error {
	return l.streams.ReadRetained(ctx, epoch, round, func(r bus.Retained) error { return f(r.Index, r.Sealed) })
}

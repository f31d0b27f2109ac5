package shares

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"

	"github.com/riffle-dp/riffle/internal/bus"
	"github.com/riffle-dp/riffle/internal/channel"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// What the two servers say of a round in the audit log. The analyzer may purge the streams of the exchange, and a state
// folder may be lost or come back older than it was; what is in the log no role can take back. So the log is what
// makes the shuffler's share leave once: two shares for two sets would give away who is in one of them only, and two
// for one set would average the shuffler's noise away.

// only refuses a round of which a role said anything else in the audit log than this; nil means nothing. A
// statement that does not verify is refused, too: only who holds the role's credential can have written it.
func (m *Mixing) only(ctx context.Context, role bus.Role, kind string, this []byte) error {
	return m.Broker.Said(ctx, role, kind, func(statement []byte) error {
		if this != nil && bytes.Equal(statement, this) {
			return nil
		}
		return errLeft("the audit log holds another statement %s of the %s, %x: nothing follows it", kind, role,
			sha256.Sum256(statement))
	})
}

// checkNoOther makes sure, before anything is drawn or sent, that no share of the round left but the one that is kept.
func (m *Mixing) checkNoOther(ctx context.Context, r *channel.Release, kept *result) error {
	var own []byte
	if kept != nil {
		var err error
		if own, err = m.signSummed(r, kept); err != nil {
			return err
		}
	}
	return m.only(ctx, bus.Shuffler, wire.SummedKind(r.Epoch, r.Round), own)
}

// say puts the statement of the share that is kept in the audit log, before the share leaves. The log is looked at
// again behind it: of two processes with copies of one state folder at most one finds itself alone.
func (m *Mixing) say(ctx context.Context, r *channel.Release, kept *result) error {
	signed, err := m.signSummed(r, kept)
	if err != nil {
		return err
	}
	kind := wire.SummedKind(r.Epoch, r.Round)
	if err := m.Broker.AppendAudit(ctx, kind, signed); err != nil {
		return err
	}
	return m.only(ctx, bus.Shuffler, kind, signed)
}

// signSummed signs the statement of the share that is kept. Signing is deterministic, so every attempt says the same.
func (m *Mixing) signSummed(r *channel.Release, kept *result) ([]byte, error) {
	damaged := func(err error) error {
		return fmt.Errorf("channel: %s is damaged: restore the newest state folder: %w", name("sum", r.Epoch, r.Round),
			err)
	}
	chunk, err := wire.ParseChunk(kept.Sum)
	if err != nil {
		return nil, damaged(err)
	}
	s, err := parseSum(chunk.Payload, max(0, len(chunk.Payload)-sumFixed))
	if err != nil {
		return nil, damaged(err)
	}
	share := sha256.Sum256(s.share)
	signed, _, err := wire.Sign(&wire.Summed{
		Deployment: m.Deployment, Epoch: r.Epoch, Round: r.Round, Announcement: kept.Announcement,
		Reports: s.set.Reports, Set: s.set.Digest[:], Share: share[:],
	}, m.Identity)
	return signed, err
}

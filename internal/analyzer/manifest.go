package analyzer

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/riffle-dp/riffle/internal/bus"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// poll is how often the broker is asked for a manifest whose arrival may have been missed, and for its entry in the
// audit log.
const poll = 2 * time.Second

// manifest waits for the shuffler's manifest of a round, and until it is in the audit log: the analyzer acts on
// nothing that the shuffler could deny later.
func (z *Analyzer) manifest(ctx context.Context, at roundID) (m *wire.Manifest, digest [32]byte, err error) {
	for waiting := false; ; {
		m, digest, unmet, err := z.loggedManifest(ctx, at)
		if err != nil {
			return nil, digest, err
		}
		if m != nil {
			z.c.notice(manifestCondition, nil)
			return m, digest, nil
		}
		if unmet != nil {
			z.c.notice(manifestCondition, unmet)
			if !waiting {
				waiting = true
				z.c.Log.Warn().Err(unmet).Uint64("epoch", at.epoch).Uint32("round", at.round).
					Msg("a manifest is not in the audit log yet")
			}
		}
		select {
		case <-ctx.Done():
			return nil, digest, context.Cause(ctx)
		case <-z.published:
		case <-z.c.Clock.After(poll):
		}
	}
}

// loggedManifest is the manifest of a round: the first in the audit log that the shuffler signed and appended for it,
// once something lies at the manifest's place in the stream of messages. m is nil where there is none yet; unmet then
// says what is wrong, and is nil where the shuffler has just not ended the round.
//
// The shuffler fills that place last, when all chunks are there. What lies there decides nothing else: it may be
// another's (of whoever has the shuffler's credential at the broker, or of the broker, which can show an old one), or
// the second that the shuffler signed. The audit takes the first of the log, too.
func (z *Analyzer) loggedManifest(ctx context.Context, at roundID) (
	m *wire.Manifest, digest [32]byte, unmet, err error,
) {
	payload, err := z.c.Bus.ReadManifest(ctx, at.epoch, at.round)
	if errors.Is(err, bus.ErrGone) {
		return nil, digest, nil, nil
	}
	if err != nil {
		return nil, digest, nil, err
	}
	if err := z.manifests.readOn(ctx, z, at); err != nil {
		return nil, digest, nil, err
	}
	_, published, junk := z.manifestOf(payload, at)
	one, there := z.manifests.first[at]
	if !there && junk == nil {
		logged, err := z.c.Bus.Audited(ctx, bus.Shuffler, wire.KindManifest, payload)
		if err != nil {
			return nil, digest, nil, err
		}
		if logged { // the broker's data was set back: what is new comes before what was read
			z.manifests = manifests{}
			if err := z.manifests.readOn(ctx, z, at); err != nil {
				return nil, digest, nil, err
			}
			one, there = z.manifests.first[at]
		}
	}
	switch {
	case there && junk != nil:
		z.c.Log.Warn().Err(junk).Uint64("epoch", at.epoch).Uint32("round",
			at.round).Msg("what lies at the manifest's place is not the shuffler's: another writes with its broker " +
			"credential, rotate it. The manifest in the audit log counts")
	case there && published != one.digest:
		z.c.Log.Error().Uint64("epoch", at.epoch).Uint32("round", at.round).
			Msg("the shuffler signed two manifests of one round: the first in the audit log counts")
	case there:
	case junk != nil:
		return nil, digest, fmt.Errorf("what lies at the place of the manifest of round %d of epoch %d is not the "+
				"shuffler's, and the audit log has none: nothing is counted until it has: "+
				"%w", at.round, at.epoch, junk),
			nil
	default:
		return nil, digest, fmt.Errorf("the shuffler published the manifest of round %d of epoch %d "+
			"and has not put it into the audit log: nothing is counted until it is there", at.round, at.epoch), nil
	}
	return one.Manifest, one.digest, nil, nil
}

// manifests is what the audit log showed of the shuffler's manifests so far.
type manifests struct {
	last  uint64               // place of the newest that was read
	first map[roundID]manifest // the first of each round that is not over
}

// manifest is one that the shuffler signed.
type manifest struct {
	*wire.Manifest
	digest [32]byte
}

// readOn takes in what the log shows beyond what was read before. Rounds before the one that is asked for are over.
func (l *manifests) readOn(ctx context.Context, z *Analyzer, at roundID) error {
	over := func(one roundID) bool { return one.epoch < at.epoch || one.epoch == at.epoch && one.round < at.round }
	if l.first == nil {
		l.first = map[roundID]manifest{}
	}
	maps.DeleteFunc(l.first, func(one roundID, _ manifest) bool { return over(one) })
	filter := bus.AuditFilter{Role: bus.Shuffler, Kind: wire.KindManifest, After: l.last}
	return z.c.Bus.ReadAudit(ctx, filter, func(s bus.Statement) error {
		l.last = s.Sequence
		m, digest, err := wire.Open[wire.Manifest](s.Payload, z.shuffler())
		if err != nil || s.Misnamed { // of another, or of the shuffler and appended by another
			return nil
		}
		if of := (roundID{m.Epoch, m.Round}); !over(of) {
			first(l.first, of, manifest{m, digest})
		}
		return nil
	})
}

// shuffler is whose statements the shuffler's are.
func (z *Analyzer) shuffler() wire.Party {
	return wire.Party{Deployment: z.c.Deployment, Key: z.c.Shuffler}
}

// manifestOf opens the shuffler's manifest of a round; m is nil where it is none.
func (z *Analyzer) manifestOf(payload []byte, at roundID) (m *wire.Manifest, digest [32]byte, err error) {
	m, digest, err = wire.Open[wire.Manifest](payload, z.shuffler())
	if err == nil && (m.Epoch != at.epoch || m.Round != at.round) {
		err = fmt.Errorf("it is about round %d of epoch %d", m.Round, m.Epoch)
	}
	if err != nil {
		return nil, digest, err
	}
	return m, digest, nil
}

package analyzer

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/riffle-dp/riffle/internal/bus"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// poll is how often the broker is asked for a manifest whose arrival may have been missed, and for its entry in the
// audit log.
const poll = 2 * time.Second

// manifest waits for the shuffler's manifest of a round, and until it stands in the audit log: the analyzer acts on
// nothing that the shuffler could deny later.
func (z *Analyzer) manifest(ctx context.Context, at roundID) (m *wire.Manifest, digest [32]byte, err error) {
	for waiting := false; ; {
		m, digest, unmet, err := z.logged(ctx, at)
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

// logged is the manifest of a round that the shuffler published and that stands in the audit log. m is nil where there
// is none yet; unmet then says what is wrong, and is nil where the shuffler has just not ended the round.
//
// What lies at the manifest's place may be another's: of whoever has the shuffler's credential at the broker, or of the
// broker, which can show an old one there. No other can be stored in its place, so that the genuine one counts where the
// audit log has it.
func (z *Analyzer) logged(ctx context.Context, at roundID) (
	m *wire.Manifest, digest [32]byte, unmet, err error,
) {
	payload, err := z.c.Bus.ReadManifest(ctx, at.epoch, at.round)
	if errors.Is(err, bus.ErrGone) {
		return nil, digest, nil, nil
	}
	if err != nil {
		return nil, digest, nil, err
	}
	m, digest, junk := z.manifestOf(payload, at)
	if junk != nil {
		err := z.c.Bus.ReadAudit(ctx, bus.AuditFilter{Role: bus.Shuffler, Kind: wire.KindManifest},
			func(s bus.Statement) error {
				if m == nil { // of two that the shuffler signed the first counts
					m, digest, _ = z.manifestOf(s.Payload, at)
				}
				return nil
			})
		if m != nil && err == nil {
			z.c.Log.Warn().Err(junk).Uint64("epoch", at.epoch).Uint32("round", at.round).Msg("what lies at the manifest's " +
				"place is not the shuffler's: another writes with its broker credential, rotate it. The manifest in the " +
				"audit log counts")
			return m, digest, nil, nil
		}
		return nil, digest, fmt.Errorf("what lies at the place of the manifest of round %d of epoch %d is not the "+
			"shuffler's, and the audit log has none: nothing is counted until it has: %w", at.round, at.epoch, junk), err
	}
	logged, err := z.c.Bus.Audited(ctx, bus.Shuffler, wire.KindManifest, payload)
	if err != nil || logged {
		return m, digest, nil, err
	}
	return nil, digest, fmt.Errorf("the shuffler published the manifest of round %d of epoch %d "+
		"and has not put it into the audit log: nothing is counted until it is there", at.round, at.epoch), nil
}

// manifestOf opens the shuffler's manifest of a round; m is nil where it is none.
func (z *Analyzer) manifestOf(payload []byte, at roundID) (m *wire.Manifest, digest [32]byte, err error) {
	m, digest, err = wire.Open[wire.Manifest](payload, wire.Party{Deployment: z.c.Deployment, Key: z.c.Shuffler})
	if err == nil && (m.Epoch != at.epoch || m.Round != at.round) {
		err = fmt.Errorf("it is about round %d of epoch %d", m.Round, m.Epoch)
	}
	if err != nil {
		return nil, digest, err
	}
	return m, digest, nil
}

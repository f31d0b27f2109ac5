package analyzer

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/riffle-dp/riffle/internal/bus"
	"github.com/riffle-dp/riffle/internal/channel"
	"github.com/riffle-dp/riffle/internal/role/outcome"
	"github.com/riffle-dp/riffle/pkg/panel"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// Undrawn is why nothing of a cohort counts that the shuffler released before its panel was drawn.
const Undrawn outcome.Reason = "undrawn"

// poolCondition is the readiness condition that the shuffler's pool of the epoch can be drawn from.
const poolCondition = "pool"

// The times between two looks for the shuffler's pool: they double from the first to the last.
const (
	firstLook = 50 * time.Millisecond
	lastLook  = poll
)

// contribution is this analyzer's to the seed of the epoch that is announced next.
func (z *Analyzer) contribution(epoch uint64, previous []byte) [panel.ContributionSize]byte {
	secret := z.c.Identity.Derive([]byte(panel.ContributionPurpose))
	return panel.Contribution(secret, z.c.Deployment, epoch, previous)
}

// next draws up the next announcement.
func (z *Analyzer) next(ctx context.Context, past *past) (*plan.Announcement, error) {
	if err := z.ask(ctx, past); err != nil {
		return nil, err
	}
	epoch, previous := z.machine.Position()
	c := z.contribution(epoch, previous)
	commitment := panel.Commit(c[:])
	return z.machine.Next(z.c.Keys[0].Public(), commitment[:])
}

// errEnded says that the shuffler ended a round before its panel was drawn.
var errEnded = errors.New("analyzer: the round ended before its panel was drawn")

// draw waits until the shuffler's pool is in the audit log, and puts this analyzer's contribution beside it, once:
// what is there already counts. It returns what the panel follows from; nil where the announcement has no panel, or
// the shuffler ended the round before.
//
// The contribution leaves this process in this statement only, after the pool that it names: so the shuffler, which
// fixed its pool and its own contribution before, had nothing to choose them by.
func (z *Analyzer) draw(
	ctx context.Context, h *history, a *plan.Announcement, digest [32]byte,
) (*channel.Drawn, error) {
	if a.Plan.Panel == nil {
		return nil, nil
	}
	for look := firstLook; ; look = min(2*look, lastLook) {
		pool, named, err := z.pool(ctx, h, a, digest)
		if err != nil {
			return nil, err
		}
		if pool != nil {
			z.c.notice(poolCondition, nil)
			return z.drawOf(ctx, h, a, digest, pool, named)
		}
		if h.draws[a.Epoch] == nil {
			switch m, _, unmet, err := z.loggedManifest(ctx, roundID{a.Epoch, a.Round}); {
			case err != nil:
				return nil, err
			case m != nil:
				return nil, errEnded
			case unmet != nil:
				z.c.notice(manifestCondition, unmet)
			}
		} else if look == lastLook {
			z.c.notice(poolCondition, fmt.Errorf("the audit log lacks the shuffler's pool of epoch %d, which was "+
				"drawn from: the broker's data was set back; start the shuffler, whose own log brings it "+
				"back", a.Epoch))
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-z.c.Clock.After(look):
		}
	}
}

// pool is the one of the round, with its digest; nil as long as there is none that can be drawn from. It is the one
// that this analyzer drew from before, or else the first that the shuffler signed for the announcement: no later one
// takes its place, not even where nothing can be drawn from the first.
func (z *Analyzer) pool(
	ctx context.Context, h *history, a *plan.Announcement, digest [32]byte,
) (pool *wire.Pool, named [32]byte, err error) {
	before := h.draws[a.Epoch]
	err = z.c.Bus.ReadAudit(ctx, bus.AuditFilter{Role: bus.Shuffler, Kind: wire.KindPool}, func(s bus.Statement) error {
		p, this, err := wire.Open[wire.Pool](s.Payload, z.shuffler())
		switch {
		case err != nil || s.Misnamed || p.Epoch != a.Epoch: // junk, not the shuffler's own entry, or of another epoch
		case before != nil && !bytes.Equal(before.Pool, this[:]):
		case !bytes.Equal(p.Announcement, digest[:]):
			z.c.Log.Warn().Uint64("epoch", a.Epoch).Uint64("sequence", s.Sequence).
				Msg("a pool of the shuffler is for another announcement and does not count")
		case pool == nil:
			pool, named = p, this
		case this != named:
			z.c.Log.Warn().Uint64("epoch", a.Epoch).Uint64("sequence", s.Sequence).
				Msg("a second pool of the shuffler for one epoch does not count: it may say one thing alone")
		}
		return nil
	})
	if err != nil || pool == nil {
		return nil, named, err
	}
	if least := a.Plan.Panel.Registered; pool.Registered < least {
		few := fmt.Errorf("the shuffler's pool of epoch %d has %d registered devices, announced are at least %d: "+
			"nothing is drawn from it", a.Epoch, pool.Registered, least)
		z.c.notice(poolCondition, few)
		if !z.few {
			z.few = true
			z.c.Log.Error().Err(few).Msg("the epoch cannot be drawn; the shuffler must destroy it")
		}
		return nil, named, nil
	}
	z.few = false
	return pool, named, nil
}

// drawOf makes sure that the statement about a pool is in the audit log.
func (z *Analyzer) drawOf(
	ctx context.Context, h *history, a *plan.Announcement, digest [32]byte, pool *wire.Pool, named [32]byte,
) (*channel.Drawn, error) {
	own := z.contribution(a.Epoch, a.Previous)
	if !panel.Opens(a.Commitment, own[:]) { // not reached: it was announced with this contribution
		return nil, fmt.Errorf("%w: the contribution to the panel of epoch %d is another one", ErrConfigChanged,
			a.Epoch)
	}
	if h.draws[a.Epoch] == nil {
		signed, _, err := wire.Sign(&wire.Draw{
			Deployment: z.c.Deployment, Epoch: a.Epoch, Announcement: digest[:], Pool: named[:], Contribution: own[:],
		}, z.c.Identity)
		if err != nil {
			return nil, fmt.Errorf("analyzer: %w", err)
		}
		if err := z.state(ctx, h, wire.KindDraw, signed, func() bool { return h.draws[a.Epoch] != nil }); err != nil {
			return nil, err
		}
		z.c.Log.Info().Uint64("epoch", a.Epoch).Uint32("registered", pool.Registered).Msg("panel drawn")
	}
	d := h.draws[a.Epoch]
	if !bytes.Equal(d.Announcement, digest[:]) || !bytes.Equal(d.Contribution, own[:]) ||
		!bytes.Equal(d.Pool, named[:]) {
		return nil, fmt.Errorf("%w: another panel of epoch %d was drawn: another analyzer runs with this key and was "+
			"first",
			ErrConfigChanged, a.Epoch)
	}
	return &channel.Drawn{
		Seed: panel.NewSeed(named, own[:]), Registered: int(pool.Registered), Size: int(a.Cohort.Size),
	}, nil
}

// awaitTurn waits until an epoch may be announced: Timing.Every after the one before it was, which the audit log says.
// A broker's clock that runs ahead delays it by that time at most.
func (z *Analyzer) awaitTurn(ctx context.Context, h *history, epoch uint64) error {
	every := z.c.Timing.Every
	if every == 0 || epoch == 1 {
		return nil
	}
	last, there := h.times[epoch-1]
	if !there {
		return nil
	}
	wait := min(last.Add(every).Sub(z.c.Clock.Now()), every)
	if wait <= 0 {
		return nil
	}
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-z.c.Clock.After(wait):
		return nil
	}
}

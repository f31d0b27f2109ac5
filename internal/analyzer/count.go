package analyzer

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/riffle-dp/riffle/internal/bus"
	"github.com/riffle-dp/riffle/internal/channel"
	"github.com/riffle-dp/riffle/internal/channel/envelope"
	"github.com/riffle-dp/riffle/internal/channel/shares"
	"github.com/riffle-dp/riffle/internal/channel/shuffle"
	"github.com/riffle-dp/riffle/internal/role/outcome"
	"github.com/riffle-dp/riffle/pkg/deployment"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// Destroyed is why nothing of a cohort counts that the shuffler destroyed, or that was refused.
const Destroyed outcome.Reason = "destroyed"

// Reasons lists why a message may not be counted.
func Reasons() []outcome.Reason {
	var all []outcome.Reason
	for _, one := range slices.Concat(shuffle.CountReasons(), shares.CountReasons(), envelope.CountReasons(),
		[]outcome.Reason{Destroyed, Undrawn}) {
		if !slices.Contains(all, one) {
			all = append(all, one)
		}
	}
	return all
}

// receive takes in what the shuffler sends. An acknowledged part stays in the stream until its round is counted.
func (z *Analyzer) receive(ctx context.Context) error {
	return z.c.Bus.ReceiveMixed(ctx, func(m *bus.Mixed) {
		if m.Manifest {
			select {
			case z.published <- struct{}{}:
			default:
			}
		} else {
			z.counting.Take(channel.Part{Epoch: m.Epoch, Round: m.Round, Payload: m.Payload})
		}
		if err := m.Ack(); err != nil {
			z.c.Log.Debug().Err(err).Msg("acknowledgement lost")
		}
	})
}

// count waits for a round's counts. They say destroyed if the shuffler destroyed the cohort, or the channel refuses
// what came of it.
func (z *Analyzer) count(
	ctx context.Context, a *plan.Announcement, digest [32]byte, drawn *channel.Drawn,
) (*wire.Counts, error) {
	key, err := z.key(a.AnalyzerKey)
	if err != nil {
		return nil, err
	}
	counts := &wire.Counts{Deployment: z.c.Deployment, Epoch: a.Epoch, Round: a.Round, Announcement: digest[:]}
	manifest := func(ctx context.Context) (*wire.Manifest, error) {
		m, digest, err := z.manifest(ctx, roundID{a.Epoch, a.Round})
		if err != nil {
			return nil, err
		}
		counts.Manifest, counts.Reports = digest[:], m.Reports
		if m.Outcome == wire.Destroyed {
			return nil, Destroyed
		}
		return m, nil
	}
	if a.Plan.Panel != nil && drawn == nil { // nobody was asked: nothing that came is looked at
		var m *wire.Manifest
		if m, err = manifest(ctx); err == nil {
			err = fmt.Errorf("%w: the shuffler released a cohort whose panel was not drawn", Undrawn)
			z.c.Messages.Received(int(m.Messages))
			z.c.Messages.Refused(err, int(m.Messages))
		}
	} else {
		round := &channel.Round{Announcement: a, Digest: digest, Key: key, Drawn: drawn}
		counts.Releases, err = z.counting.Count(ctx, round, manifest)
	}
	var why outcome.Reason
	if err != nil && !errors.As(err, &why) {
		return nil, err
	}
	if err != nil && why != Destroyed {
		z.c.Log.Error().Err(err).Str(outcome.Field, string(why)).Uint64("epoch", a.Epoch).Uint32("round", a.Round).
			Msg("round rejected")
	}
	counts.Destroyed = err != nil
	return counts, nil
}

// logCounts appends a round's counts to the audit log and returns those that are there. If the broker's data was set
// back and brought forward again, the log has this round's counts already, and the round's messages are gone: what was
// signed first stays, and is acted on.
func (z *Analyzer) logCounts(ctx context.Context, h *history, counts *wire.Counts) (*wire.Counts, error) {
	at := roundID{counts.Epoch, counts.Round}
	if err := z.readOn(ctx, h); err != nil {
		return nil, err
	}
	if before := h.counts[at]; before != nil {
		z.c.Log.Warn().Uint64("epoch", counts.Epoch).Uint32("round", counts.Round).
			Msg("this round's counts are in the audit log already and stay: " +
				"the broker's data was set back, and brought forward again")
		return before, nil
	}
	signed, _, err := wire.Sign(counts, z.c.Identity)
	if err != nil {
		return nil, fmt.Errorf("analyzer: %w", err)
	}
	err = z.state(ctx, h, wire.KindCounts, signed, func() bool { return h.counts[at] != nil })
	return h.counts[at], err
}

// costOfLoss says what a round cost people of which nothing counts: what left the shuffler is spent, though nothing was
// learned.
func (z *Analyzer) costOfLoss(
	ctx context.Context, a *plan.Announcement, counts *wire.Counts, stats *ReleaseStats,
) error {
	at := roundID{a.Epoch, a.Round}
	if err := z.manifests.readOn(ctx, z, at); err != nil {
		return err
	}
	of := deployment.Signed{Announcement: a, Manifest: z.manifests.first[at].Manifest, Counts: counts}
	if stats.Refused = of.Refused(); of.Left() {
		stats.Messages = a.ReportMessages()
		stats.Epsilon, _ = of.Epsilon(z.c.Terms.Delta)
	}
	return nil
}

package analyzer

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/riffle-dp/riffle/internal/bus"
	"github.com/riffle-dp/riffle/pkg/glm/statistic"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/seal"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// roundID names one round of one epoch.
type roundID struct {
	epoch uint64
	round uint32
}

// past is what this analyzer announced and stated before.
type past struct {
	announced map[roundID]stored // where devices read it
	history   history
	replay    replay
}

// stored is an announcement that is at the broker or in the log.
type stored struct {
	digest [32]byte
	key    []byte // HPKE
	kind   statistic.Kind
	asks   *statistic.Question // nil: the epoch teaches the learner
}

func storedOf(a *plan.Announcement, digest [32]byte) stored {
	return stored{digest, a.AnalyzerKey, a.Plan.AskedKind(), a.Question}
}

// readPast reads the deployment's history from the broker. Only statements with this analyzer's own signature count,
// and the first of two for one round, as for every other reader.
func (z *Analyzer) readPast(ctx context.Context) (*past, error) {
	p := &past{announced: map[roundID]stored{}, history: newHistory()}
	all, err := z.c.Bus.ReadAnnouncements(ctx)
	if err != nil {
		return nil, err
	}
	for _, s := range all {
		a, digest, err := z.own(s)
		if err != nil {
			return nil, err
		}
		if a == nil {
			continue
		}
		at := roundID{a.Epoch, a.Round}
		if first, ok := p.announced[at]; !ok {
			p.announced[at] = storedOf(a, digest)
		} else if first.digest != digest {
			z.c.Log.Warn().Uint64("epoch", a.Epoch).Uint32("round", a.Round).
				Msg("a second announcement by this analyzer is stored after the first and does not count: " +
					"two analyzers ran with one key")
		}
	}
	return p, z.readOn(ctx, &p.history)
}

// misused is the cause when something is stored where only the analyzer may write, and is not signed by it.
const misused = "another party writes with the analyzer's broker credential: rotate it " +
	"(or the analyzer's signing key was changed, which needs a new deployment)"

// own opens what is stored under a round. It returns nil if this analyzer did not sign it, which stops nothing.
func (z *Analyzer) own(s bus.Announcement) (*plan.Announcement, [32]byte, error) {
	own := wire.Party{Deployment: z.c.Deployment, Key: z.c.Identity.Public()}
	a, digest, err := wire.OpenAnnouncement(s.Payload, s.Epoch, s.Round, own)
	if errors.Is(err, wire.ErrForeign) {
		z.c.Log.Warn().Err(err).Uint64("epoch", s.Epoch).Uint32("round", s.Round).Str("cause", misused).
			Msg("an announcement that this analyzer did not sign is skipped")
		return nil, digest, nil
	}
	if err != nil {
		return nil, digest, fmt.Errorf("%w: round %d of epoch %d: %w", ErrConfigChanged, s.Round, s.Epoch, err)
	}
	return a, digest, z.sameChannel(a)
}

// sameChannel reports whether what was announced is of the configured channel.
func (z *Analyzer) sameChannel(a *plan.Announcement) error {
	if before, now := a.Plan.Channel, z.c.Terms.Channel; !a.Final && before != now {
		return fmt.Errorf("%w: it was announced with privacy.channel %s, and is now %s", ErrConfigChanged, before, now)
	}
	return nil
}

// announce signs, logs and stores an announcement, in this order. One that was logged or stored before must be the same
// except for a rotated HPKE key. The log and the broker take any number of them for a round, and every reader takes the
// first: so none is stored if there is one already, and what was stored is read back. Of two analyzers with one key the
// one that is first in the log announces, and the other stops before any device sees its announcement.
func (z *Analyzer) announce(ctx context.Context, a *plan.Announcement, past *past) (digest [32]byte, err error) {
	at := roundID{a.Epoch, a.Round}
	before, known := past.history.announced[at]
	out, isOut := past.announced[at]
	if !known {
		before = out
	}
	if (known || isOut) && !a.Final {
		if _, counted := past.history.counts[at]; !counted { // nothing is opened again with the key of a counted round
			if _, err := z.key(before.key); err != nil {
				return digest, err
			}
		}
		a.AnalyzerKey = before.key
	}
	signed, digest, err := wire.Sign(a, z.c.Identity)
	if err != nil {
		return digest, fmt.Errorf("analyzer: %w", err)
	}
	if known && before.digest != digest || isOut && out.digest != digest {
		return digest, fmt.Errorf("%w (round %d of epoch %d)", ErrConfigChanged, a.Round, a.Epoch)
	}
	h := &past.history
	if !known {
		if !isOut && a.Round == 0 && !a.Final {
			if err := z.awaitTurn(ctx, h, a.Epoch); err != nil {
				return digest, err
			}
		}
		err := z.state(ctx, h, wire.KindAnnouncement, signed, func() bool { _, ok := h.announced[at]; return ok })
		if err != nil {
			return digest, err
		}
		if h.announced[at].digest != digest {
			return digest, z.second(at, "audit log")
		}
	}
	if isOut {
		return digest, nil
	}
	switch err := z.c.Bus.PutAnnouncement(ctx, a.Epoch, a.Round, signed); {
	case errors.Is(err, bus.ErrFull):
		return digest, fmt.Errorf("analyzer: round %d of epoch %d is not announced: %w; if junk fills the stream "+
			"(see the log), %s, then raise its limit with riffle broker provision --max-announcement-bytes",
			a.Round, a.Epoch, err, misused)
	case errors.Is(err, bus.ErrExists):
		return digest, fmt.Errorf("analyzer: round %d of epoch %d is not announced: junk is stored under its name: "+
			"%s: %w", a.Round, a.Epoch, misused, err)
	case err != nil:
		return digest, err
	}
	first, err := z.firstAnnouncement(ctx, at)
	if err != nil {
		return digest, err
	}
	if first != digest {
		return digest, z.second(at, "stream of announcements")
	}
	z.c.Log.Info().Uint64("epoch", a.Epoch).Uint32("round", a.Round).Uint32("cohort", a.Cohort.Size).
		Bool("final", a.Final).Msg("announced")
	return digest, nil
}

// second says that another announcement of this role was first.
func (z *Analyzer) second(at roundID, where string) error {
	return fmt.Errorf("%w (round %d of epoch %d: another analyzer runs with this key and was first in the %s)",
		ErrConfigChanged, at.round, at.epoch, where)
}

// firstAnnouncement is the digest of the announcement that counts for a round; zero if there is none.
func (z *Analyzer) firstAnnouncement(ctx context.Context, at roundID) (digest [32]byte, err error) {
	all, err := z.c.Bus.ReadAnnouncementsAt(ctx, at.epoch, at.round)
	if err != nil {
		return digest, err
	}
	for _, s := range all {
		if a, digest, err := z.own(s); err != nil || a != nil {
			return digest, err
		}
	}
	return digest, nil
}

// key finds the private key of an announced HPKE key.
func (z *Analyzer) key(public []byte) (*seal.HPKEKey, error) {
	for _, k := range z.c.Keys {
		if bytes.Equal(k.Public(), public) {
			return k, nil
		}
	}
	return nil, fmt.Errorf("analyzer: the HPKE key %x that an open epoch was announced with is not configured; "+
		"keep old keys until their epochs are over", public[:min(8, len(public))])
}

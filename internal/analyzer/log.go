package analyzer

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"time"

	"github.com/riffle-dp/riffle/internal/bus"
	"github.com/riffle-dp/riffle/internal/translog"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// logged is the broker with the analyzer's transparency log before its part of the audit log.
type logged struct {
	Broker
	log *translog.Log
}

// AppendAudit is that of the transparency log.
func (l logged) AppendAudit(ctx context.Context, kind string, signed []byte) error {
	if err := l.log.AppendAudit(ctx, kind, signed); err != nil {
		return fmt.Errorf("analyzer: %w", notLogged(kind, err))
	}
	return nil
}

// notLogged says what to do about an audit log that is full.
func notLogged(what string, err error) error {
	if errors.Is(err, bus.ErrFull) {
		return fmt.Errorf("%s is not logged: %w; if junk fills the audit log (see the log), %s, then raise its "+
			"limit with riffle broker provision --max-audit-bytes", what, err, misused)
	}
	return err
}

// history is what this analyzer stated in the audit log. Of two statements about one round, and of two configurations,
// the first counts, as for every reader.
type history struct {
	last          uint64 // place of the newest statement that was read
	configuration *wire.Configuration
	announced     map[roundID]stored
	counts        map[roundID]*wire.Counts
	learned       map[roundID]conclusion
	draws         map[uint64]*wire.Draw // by epoch
	times         map[uint64]time.Time  // when an epoch's first announcement was stored, by epoch
}

// conclusion is what must be the same in a statement of what was learned, and what may differ.
type conclusion struct {
	digest  [32]byte
	version string
}

func newHistory() history {
	return history{
		announced: map[roundID]stored{}, counts: map[roundID]*wire.Counts{}, learned: map[roundID]conclusion{},
		draws: map[uint64]*wire.Draw{}, times: map[uint64]time.Time{},
	}
}

// readOn takes in what the audit log shows beyond what was read before.
func (z *Analyzer) readOn(ctx context.Context, h *history) error {
	return z.bus.ReadAudit(ctx, bus.AuditFilter{Role: bus.Analyzer, After: h.last}, func(s bus.Statement) error {
		if err := z.take(h, s); errors.Is(err, wire.ErrForeign) {
			z.c.Log.Warn().Err(err).Uint64("sequence", s.Sequence).Str("kind", s.Kind).Str("cause", misused).
				Msg("a statement in the audit log that this analyzer did not sign is skipped")
		} else if err != nil {
			return fmt.Errorf("%w: statement %d of the audit log: %w", ErrConfigChanged, s.Sequence, err)
		}
		h.last = s.Sequence
		return nil
	})
}

// take takes in one statement. Kinds that no restart needs are passed over.
func (z *Analyzer) take(h *history, s bus.Statement) error {
	own := wire.Party{Deployment: z.c.Deployment, Key: z.c.Identity.Public()}
	switch s.Kind {
	case wire.KindConfiguration:
		c, _, err := wire.Open[wire.Configuration](s.Payload, own)
		if err == nil && h.configuration == nil {
			h.configuration = c
		}
		return err
	case wire.KindAnnouncement:
		a, digest, err := wire.Open[plan.Announcement](s.Payload, own)
		if err != nil {
			return err
		}
		if err := z.sameChannel(a); err != nil {
			return err
		}
		first(h.announced, roundID{a.Epoch, a.Round}, storedOf(a, digest))
		first(h.times, a.Epoch, s.Time)
	case wire.KindCounts:
		c, _, err := wire.Open[wire.Counts](s.Payload, own)
		if err != nil {
			return err
		}
		first(h.counts, roundID{c.Epoch, c.Round}, c)
	case wire.KindDraw:
		d, _, err := wire.Open[wire.Draw](s.Payload, own)
		if err != nil {
			return err
		}
		first(h.draws, d.Epoch, d)
	case wire.KindLearned:
		l, digest, err := wire.Open[wire.Learned](s.Payload, own)
		if err != nil {
			return err
		}
		first(h.learned, roundID{l.Epoch, l.Round}, conclusion{digest, l.Version})
	}
	return nil
}

// first keeps what is there already.
func first[K comparable, T any](of map[K]T, at K, one T) {
	if _, there := of[at]; !there {
		of[at] = one
	}
}

// state appends a statement to the audit log, and reads on until the log shows one where this one belongs: shown says
// so, and what is shown counts, also where another process of this role was first.
func (z *Analyzer) state(ctx context.Context, h *history, kind string, signed []byte, shown func() bool) error {
	if err := z.bus.AppendAudit(ctx, kind, signed); err != nil {
		return err
	}
	err := z.readOn(ctx, h)
	if err == nil && !shown() { // the broker's data was set back: what is new comes before what was read
		*h = newHistory()
		err = z.readOn(ctx, h)
	}
	if err == nil && !shown() {
		err = fmt.Errorf("analyzer: the audit log took a statement of the kind %s and does not show it: "+
			"check the broker's data", kind)
	}
	return err
}

// logConfiguration logs the configuration once, before anything is announced.
func (z *Analyzer) logConfiguration(ctx context.Context, h *history) error {
	c := z.machine.Configuration()
	signed, _, err := wire.Sign(&c, z.c.Identity)
	if err != nil {
		return fmt.Errorf("analyzer: %w", err)
	}
	if h.configuration == nil {
		if len(h.announced)+len(h.counts) > 0 {
			return fmt.Errorf("%w: the audit log has statements of this analyzer and no configuration: check the "+
				"broker's data", ErrConfigChanged)
		}
		err := z.state(ctx, h, wire.KindConfiguration, signed, func() bool { return h.configuration != nil })
		if err != nil {
			return err
		}
	}
	before, _, err := wire.Sign(h.configuration, z.c.Identity)
	if err != nil {
		return fmt.Errorf("analyzer: %w", err)
	}
	if !bytes.Equal(before, signed) {
		return fmt.Errorf("%w: %s differ from what is in the audit log",
			ErrConfigChanged, strings.Join(differences(h.configuration, &c), ", "))
	}
	return nil
}

// differences names the parts in which two configurations differ.
func differences(a, b *wire.Configuration) (parts []string) {
	for _, part := range []struct {
		name string
		same bool
	}{
		{"the learner's settings", reflect.DeepEqual(a.Learner, b.Learner)},
		{"learner.anytime", a.Anytime == b.Anytime},
		{"learner.batch", a.Batch == b.Batch},
		{"the privacy settings", reflect.DeepEqual(a.Terms, b.Terms)},
		{"the timing", a.Timing == b.Timing},
		{"the schema of features", bytes.Equal(a.Schema, b.Schema)},
		{"the rules", reflect.DeepEqual(a.Rules, b.Rules)},
	} {
		if !part.same {
			parts = append(parts, part.name)
		}
	}
	return parts
}

// logLearned logs what was learned from a round, before the next announcement. What is there already must be the
// same, except for the version of the program that wrote it.
func (z *Analyzer) logLearned(ctx context.Context, h *history, learned *wire.Learned) error {
	at := roundID{learned.Epoch, learned.Round}
	if _, there := h.learned[at]; !there {
		learned.Version = z.c.Version
		signed, _, err := wire.Sign(learned, z.c.Identity)
		if err != nil {
			return fmt.Errorf("analyzer: %w", err)
		}
		err = z.state(ctx, h, wire.KindLearned, signed, func() bool { _, ok := h.learned[at]; return ok })
		if err != nil {
			return err
		}
	}
	learned.Version = h.learned[at].version
	_, digest, err := wire.Sign(learned, z.c.Identity)
	if err != nil {
		return fmt.Errorf("analyzer: %w", err)
	}
	if digest != h.learned[at].digest {
		return fmt.Errorf("%w: what was learned from round %d of epoch %d is not what is in the audit log",
			ErrConfigChanged, at.round, at.epoch)
	}
	return nil
}

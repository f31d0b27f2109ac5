package load

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/riffle-dp/riffle/internal/bus"
	"github.com/riffle-dp/riffle/internal/drive/crowd"
	"github.com/riffle-dp/riffle/internal/keyring"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// reader reads what is public and signed, with the auditor's rights.
type reader struct {
	conn   *bus.Conn
	bundle keyring.Bundle
}

func newReader(ctx context.Context, keys string, broker bus.Options) (*reader, error) {
	bundle, err := keyring.LoadBundle(keys)
	if err != nil {
		return nil, err
	}
	if broker.Seed, err = keyring.LoadSeed(keys, keyring.Auditor); err != nil {
		return nil, err
	}
	broker.Role, broker.Name = bus.Auditor, "riffle-load"
	conn, err := bus.Connect(ctx, broker)
	if err != nil {
		return nil, err
	}
	return &reader{conn, bundle}, nil
}

func (r *reader) close() { r.conn.Close() }

// roundID names one round of one epoch.
type roundID struct {
	epoch uint64
	round uint32
}

// ledger is everything public, by round.
type ledger struct {
	announced map[roundID]*plan.Announcement
	digests   map[roundID][32]byte
	manifests map[roundID]*wire.Manifest
	manifest  map[roundID][32]byte // digests
	counts    map[roundID]*wire.Counts
	order     []roundID // of announcements
	final     bool
}

// read reads the whole public record.
func (r *reader) read(ctx context.Context) (*ledger, error) {
	l := &ledger{announced: map[roundID]*plan.Announcement{}, digests: map[roundID][32]byte{},
		manifests: map[roundID]*wire.Manifest{},
		manifest:  map[roundID][32]byte{}, counts: map[roundID]*wire.Counts{}}
	all, err := r.conn.Announcements.ReadAnnouncements(ctx)
	if err != nil {
		return nil, err
	}
	for _, stored := range all {
		a, digest, err := wire.OpenAnnouncement(stored.Payload, stored.Epoch, stored.Round, r.bundle.AnalyzerParty())
		if errors.Is(err, wire.ErrForeign) {
			continue // no role follows it
		}
		if err != nil {
			return nil, err
		}
		at := roundID{a.Epoch, a.Round}
		if _, ok := l.announced[at]; ok {
			continue // the first counts
		}
		l.announced[at], l.digests[at], l.final = a, digest, l.final || a.Final
		l.order = append(l.order, at)
	}
	err = r.conn.Audit.ReadAudit(ctx, bus.AuditFilter{}, func(s bus.Statement) error {
		switch {
		case s.Role == bus.Shuffler && s.Kind == "manifest":
			m, digest, err := wire.Open[wire.Manifest](s.Payload, r.bundle.ShufflerParty())
			if err != nil {
				return skipForeign(err)
			}
			at := roundID{m.Epoch, m.Round}
			l.manifests[at], l.manifest[at] = m, digest
		case s.Role == bus.Analyzer && s.Kind == "counts":
			c, _, err := wire.Open[wire.Counts](s.Payload, r.bundle.AnalyzerParty())
			if err != nil {
				return skipForeign(err)
			}
			if at := (roundID{c.Epoch, c.Round}); l.counts[at] == nil { // the first was acted on
				l.counts[at] = c
			}
		}
		return nil
	})
	return l, err
}

// skipForeign is nil for what the role did not sign: any holder of its broker credential can append that to the log.
func skipForeign(err error) error {
	if errors.Is(err, wire.ErrForeign) {
		return nil
	}
	return err
}

// holds checks that the statements about a round fit together: numbers of reports and messages, and whom they refer to.
func (l *ledger) holds(at roundID) error {
	a, m, c := l.announced[at], l.manifests[at], l.counts[at]
	wrong := func(format string, v ...any) error {
		return fmt.Errorf("round %d of epoch %d: %s", at.round, at.epoch, fmt.Sprintf(format, v...))
	}
	announced, manifest := l.digests[at], l.manifest[at]
	switch {
	case !bytes.Equal(m.Announcement, announced[:]):
		return wrong("the manifest is about another announcement")
	case c != nil && !bytes.Equal(c.Announcement, announced[:]):
		return wrong("the counts are about another announcement")
	case c != nil && !bytes.Equal(c.Manifest, manifest[:]):
		return wrong("the counts are about another manifest")
	case c != nil && c.Reports != m.Reports:
		return wrong("the analyzer counted %d reports, the shuffler sent %d", c.Reports, m.Reports)
	}
	if m.Outcome != wire.Released {
		return nil
	}
	if c != nil && c.Destroyed {
		return wrong("the analyzer rejected what the shuffler released")
	}
	want := uint64(m.Reports) * uint64(a.ReportMessages())
	if sent := m.Messages - m.NoiseMessages; sent != want {
		return wrong("%d messages of devices were forwarded, %d reports hold %d", sent, m.Reports, want)
	}
	return nil
}

// epsilon is the guarantee of an epoch's whole plan for the reports that came.
func epsilon(a *plan.Announcement, reports uint32) (float64, error) {
	g, err := plan.GuaranteeWith(a, reports)
	if err != nil {
		return 0, err
	}
	return g.Epsilon(a.Plan.Delta), nil
}

// awaitCounts waits until every cohort that people of ours are in, but the one that is short of people, is counted and
// what follows from it is announced, and tells why it stopped waiting if that does not come. It tells seen of the
// reports that were promised, and how many of them are in cohorts that are over.
func (r *reader) awaitCounts(
	ctx context.Context, t *truth, short *Shortfall, limit time.Duration, seen func(reports, promised int),
) error {
	deadline := time.Now().Add(limit)
	for {
		l, err := r.read(ctx)
		if err != nil {
			return err
		}
		open, latest := uint64(0), time.Duration(0)
		over, promised := 0, 0
		for at, a := range l.announced {
			ours := t.of(at.epoch).sampled
			if at.round != 0 || a.Final || ours == 0 || short != nil && at.epoch == short.Epoch {
				continue
			}
			if promised += ours; l.over(at.epoch, a) {
				over += ours
			} else {
				open, latest = at.epoch, longestOf(a)
			}
		}
		seen(over, promised)
		if open == 0 && l.isLearned(t, short) {
			return nil
		}
		if limit == 0 {
			limit = max(latest, slack)
			deadline = time.Now().Add(limit)
		}
		if time.Now().After(deadline) {
			if open == 0 {
				return fmt.Errorf("no policy followed the last counts within %s", limit.Round(time.Second))
			}
			return fmt.Errorf("epoch %d was not counted within %s", open, limit.Round(time.Second))
		}
		if !crowd.Pause(ctx, 5*crowd.Look) {
			return ctx.Err()
		}
	}
}

// over reports whether nothing more comes of an epoch: all its rounds are counted, or one was destroyed.
func (l *ledger) over(epoch uint64, a *plan.Announcement) bool {
	for round := range a.Plan.Rounds {
		c := l.counts[roundID{epoch, uint32(round)}]
		if c == nil || c.Destroyed {
			return c != nil
		}
	}
	return true
}

// isLearned reports whether an announcement follows the last epoch that people of ours are in; the one that is short of
// people counts for none.
func (l *ledger) isLearned(t *truth, short *Shortfall) bool {
	var last, ours uint64
	for at := range l.announced {
		last = max(last, at.epoch)
		if t.of(at.epoch).sampled > 0 && (short == nil || at.epoch != short.Epoch) {
			ours = max(ours, at.epoch)
		}
	}
	return ours == 0 || last > ours
}

// slack is what an epoch takes besides its announced times: mixing, opening, fitting.
const slack = time.Minute

// longestOf is how long an epoch can take whose last person came now.
func longestOf(a *plan.Announcement) time.Duration {
	t := a.Timing
	first := t.Enrolment + t.RewardWindow + t.Jitter + t.Grace
	return first + time.Duration(len(a.Plan.Rounds)-1)*(t.RoundWindow+t.Grace) + slack
}

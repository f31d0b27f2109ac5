package shuffler

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/riffle-dp/riffle/internal/bus"
	"github.com/riffle-dp/riffle/internal/shuffler/cohort"
	"github.com/riffle-dp/riffle/internal/translog"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// What was signed once cannot be taken back, neither by a state folder nor by a broker that was restored from an older
// copy. This file holds what the journal knows against what the broker shows. restore.go takes in again what a restored
// journal lacks.

// recallEvery is how often the broker is looked at again while it shows less than the journal knows, or an announcement
// that does not fit.
const recallEvery = 5 * time.Second

// history holds what the journal knows against what the broker shows.
type history struct {
	*core
	restoring     *restoring
	announcements *announcements
	panels        *panels
	newest        *opening     // the latest announcement when the journal was held against the broker; guarded by mu
	looked        cohort.Round // the last round whose stored reports were looked through, or need not be; guarded by mu
	once          sync.Once    // closes begun
}

// manifest reads a round's manifest; nil where there is none. What lies at its place may be another's, who has this
// shuffler's broker credential and was there first: then the one in the audit log counts.
func (s *history) manifest(ctx context.Context, epoch uint64, round uint32) (m *wire.Manifest, err error) {
	signed, err := s.c.Bus.ReadManifest(ctx, epoch, round)
	if errors.Is(err, bus.ErrGone) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	take := func(signed []byte) error {
		if one, _, err := wire.Open[wire.Manifest](signed, s.own()); err == nil && one.Epoch == epoch &&
			one.Round == round && m == nil {
			m = one
		}
		return nil
	}
	if err := take(signed); m != nil || err != nil {
		return m, err
	}
	s.c.Log.Warn().Uint64("epoch", epoch).Uint32("round", round).Msg("what lies at the manifest's place is not this " +
		"shuffler's: another writes with its broker credential, rotate it")
	return m, s.c.Bus.Said(ctx, bus.Shuffler, wire.KindManifest, take)
}

// recall holds the log against the audit stream, and the journal against the broker's announcements and against this
// shuffler's own manifests. Where the journal lacks what a manifest states, it takes the manifest's word. trouble says
// that the broker shows less than the journal knows, or another log: then nothing may be decided until it shows it
// again. err is fatal, or the broker's.
func (s *history) recall(ctx context.Context) (trouble, err error) {
	defer func() {
		if err == nil {
			s.settle(trouble)
		}
	}()
	switch err := s.log.Sync(ctx); {
	case errors.Is(err, translog.ErrForked), errors.Is(err, translog.ErrRewound):
		return err, nil
	case errors.Is(err, translog.ErrDisk):
		return nil, fatal(err)
	case err != nil:
		return nil, err
	}
	stored, err := s.c.Bus.ReadAnnouncements(ctx)
	if err != nil {
		return nil, err
	}
	there := map[roundID]*opening{}
	var order []*opening
	for _, a := range stored {
		o, err := s.announcements.verify(a)
		if err != nil { // what is refused is said when it comes by in order
			continue
		}
		at := roundID{o.Epoch, int(o.Round)}
		if _, second := there[at]; second { // two analyzers ran with one key: every role goes by the first
			continue
		}
		there[at] = o
		order = append(order, o)
	}
	s.panels.drawing.from, s.panels.drawing.draws = 0, nil // the audit log may be another than before
	s.mu.Lock()
	last, known := s.state.Last()
	s.mu.Unlock()
	if known {
		if err := s.seen(ctx, last, there, order); errors.Is(err, errBroker) {
			return err, nil
		} else if err != nil {
			return nil, err
		}
	}
	slices.SortFunc(order, inOrder)
	s.mu.Lock()
	if len(order) > 0 {
		s.newest = order[len(order)-1]
	}
	s.recalled = true
	s.mu.Unlock()
	var adopted []string
	for _, o := range order {
		s.mu.Lock()
		over := s.state.Finished(o.Epoch, o.Round)
		s.mu.Unlock()
		if o.Final || over {
			continue
		}
		m, err := s.manifest(ctx, o.Epoch, o.Round)
		if errors.Is(err, errBroker) {
			return err, nil
		}
		if err != nil {
			return nil, err
		}
		if m == nil {
			if m, err = s.unpublished(ctx, o); err != nil {
				return nil, err
			}
		}
		if m == nil {
			break // nothing after it can be over
		}
		if cohort.Digest(m.Announcement) != o.digest {
			return fmt.Errorf("%w: the manifest of round %d of epoch %d is about another announcement than the one "+
				"shown", errBroker, o.Round, o.Epoch), nil
		}
		if err := s.restoring.opened(o); err != nil {
			return nil, err
		}
		if trouble, err := s.panels.recallPanel(ctx, o); trouble != nil || err != nil {
			return trouble, err
		}
		line, err := s.restoring.adopt(m)
		if err != nil {
			return nil, err
		}
		if line != "" {
			adopted = append(adopted, line)
		}
	}
	if len(adopted) > 0 {
		s.restoring.stale(adopted)
	}
	s.mu.Lock()
	panel := s.state.Panel()
	s.mu.Unlock()
	if panel != nil {
		_, trouble, err = s.panels.adoptPool(ctx, panel.Epoch)
	}
	return trouble, err
}

// unpublished is this shuffler's manifest of an announced round that is in the audit log and not at its place: a
// process ended between the two, and its state folder was restored from an older copy. It is published now, for a round
// has one manifest: what this journal would come to is another. nil where there is none, and where the journal comes to
// the same one, because then the release is repeated as a whole.
func (s *history) unpublished(ctx context.Context, o *opening) (m *wire.Manifest, err error) {
	var signed []byte
	err = s.c.Bus.Said(ctx, bus.Shuffler, wire.KindManifest, func(b []byte) error {
		one, _, err := wire.Open[wire.Manifest](b, s.own())
		if err == nil && m == nil && one.Epoch == o.Epoch && one.Round == o.Round &&
			cohort.Digest(one.Announcement) == o.digest {
			m, signed = one, bytes.Clone(b)
		}
		return nil
	})
	if m == nil || err != nil {
		return nil, err
	}
	if err := s.restoring.opened(o); err != nil {
		return nil, err
	}
	s.mu.Lock()
	known := s.state.Adopt(m) == nil
	s.mu.Unlock()
	if known {
		return nil, nil
	}
	if err := (logged{s.c.Bus, s.log}).AppendAudit(ctx, wire.KindManifest, signed); err != nil { // under a checkpoint
		return nil, err
	}
	return m, s.c.Bus.PublishManifest(ctx, o.Epoch, o.Round, signed)
}

// seen checks that the broker still shows the last announcement that the journal knows, and the manifest of the last
// round that is over.
func (s *history) seen(ctx context.Context, last cohort.Round, there map[roundID]*opening, order []*opening) error {
	o := there[roundID{last.Epoch, int(last.Round)}]
	if o == nil {
		newest := "no announcement of the analyzer's"
		if len(order) > 0 {
			o := order[len(order)-1]
			newest = fmt.Sprintf("announcements up to round %d of epoch %d", o.Round, o.Epoch)
		}
		return fmt.Errorf("the broker shows less than this shuffler has seen: %s; it was at round %d of epoch %d: %w",
			newest, last.Round, last.Epoch, errBroker)
	}
	if o.digest != last.Digest {
		return fmt.Errorf("the broker shows another announcement of round %d of epoch %d than this shuffler has seen "+
			"(digest %x, it was %x): %w", last.Round, last.Epoch, o.digest[:8], last.Digest[:8], errBroker)
	}
	s.mu.Lock()
	rounds := s.state.Over()
	s.mu.Unlock()
	if len(rounds) == 0 {
		return nil
	}
	over := rounds[len(rounds)-1]
	m, err := s.manifest(ctx, over.Epoch, over.Round)
	if err == nil && m == nil {
		err = fmt.Errorf("the broker shows less than this shuffler has seen: the manifest of round %d of epoch %d is "+
			"gone: %w", over.Round, over.Epoch, errBroker)
	}
	return err
}

// complete reports whether the journal is known to lack no report that was acknowledged: it was held against the
// broker, every round that was announced by then is known or will never open, and the stream of reports was looked
// through for the latest one. The lock is held.
func (s *history) complete() bool {
	last, open := s.state.Last()
	return s.recalled && s.trouble == nil && !s.doubt && (s.newest == nil || s.settled(s.newest)) &&
		(!open || last == s.looked)
}

// settled reports whether an announcement was opened, or is refused for good. The lock is held.
func (s *history) settled(o *opening) bool {
	never, refused := s.announcements.never[roundID{o.Epoch, int(o.Round)}]
	return s.state.Knows(o.Epoch, o.Round) || refused && never == o.digest
}

// A look is what the releasing goroutine has looked at.
type look struct {
	at         time.Time // when the broker was last held against the journal
	reconnects uint64    // of the connection by then
	begun      bool      // the broker was held against the journal, and the open round's reports were looked through
}

// consistent holds the broker against the journal whenever something gives reason to, looks again at announcements that
// did not fit, and takes in again what was acknowledged and forgotten. It reports whether decisions may be made. After
// an error, fatal or not, they may not.
func (s *history) consistent(ctx context.Context, last *look) (clear bool, err error) {
	reconnects := s.c.Bus.Traffic().Reconnects
	now, _ := s.clock.now()
	s.mu.Lock()
	doubt, trouble, unfit := s.doubt, s.trouble, len(s.announcements.unfit) > 0
	s.mu.Unlock()
	if reconnects != last.reconnects || doubt || (trouble != nil || unfit) && now.Sub(last.at) >= recallEvery {
		s.doubts(false)
		if trouble, err = s.recall(ctx); err != nil {
			s.doubts(true)
			return false, err
		}
		last.at, last.reconnects = now, reconnects
	}
	if trouble != nil {
		return false, nil
	}
	if unfit {
		if err := s.announcements.reconsider(); err != nil {
			return false, err
		}
	}
	known, trouble, err := s.panels.draw(ctx)
	if trouble != nil {
		s.settle(trouble)
		last.at = now
	}
	if err != nil || trouble != nil || !known {
		return err == nil && trouble == nil, err
	}
	s.mu.Lock()
	round, open := s.state.Last()
	looked, lost := s.looked, s.lost
	s.mu.Unlock()
	if open && round != looked && (lost || !last.begun) {
		if err := s.restoring.takeAgain(ctx); err != nil {
			return false, err
		}
	}
	s.mu.Lock()
	s.looked = round
	whole := s.judged()
	s.mu.Unlock()
	if whole && !last.begun {
		last.begun = true
		s.once.Do(func() { close(s.begun) })
	}
	return true, nil
}

// judged reports whether the latest announcement that the broker had is opened, refused for good, or waits for a round
// ahead of it. The lock is held.
func (s *history) judged() bool {
	if s.newest == nil || s.settled(s.newest) {
		return true
	}
	_, waits := s.announcements.unfit[roundID{s.newest.Epoch, int(s.newest.Round)}]
	return waits
}

// doubts notes whether something gives reason to hold the broker against the journal.
func (s *history) doubts(yes bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.doubt = yes
}

// settle keeps the condition of readiness.
func (s *history) settle(trouble error) {
	s.mu.Lock()
	before := s.trouble
	s.trouble = trouble
	s.mu.Unlock()
	switch {
	case trouble != nil && (before == nil || before.Error() != trouble.Error()):
		s.c.Log.Error().Err(trouble).Msg("nothing is decided until the broker shows what it showed before")
	case trouble == nil && before != nil:
		s.c.Log.Info().Msg("the broker shows what this shuffler has seen")
	}
	s.notice(historyCondition, trouble)
}

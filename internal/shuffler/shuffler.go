// Package shuffler is the role that stands between devices and the analyzer.
//
// It enrols devices into cohorts, opens the outer envelopes of their reports, admits one report per device and round,
// commits the membership of a release durably before anything leaves, has the channel send it, and signs a manifest. It
// never releases a round below the minimum cohort, however it is asked, and a retry after a crash sends the same bytes.
//
// Its decisions are a function of its journal (package cohort); this package carries them out. It subscribes, verifies,
// journals, applies and publishes, in parts that share one core: the state under its lock. testdata/walk.txt is the way
// of a report through its files. The channel (package channel) determines what a report carries and what leaves the
// shuffler. This package does not protect anyone from a malicious shuffler, which knows who reported and could release
// what it likes.
package shuffler

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/rs/zerolog"
	"golang.org/x/sync/errgroup"

	"github.com/riffle-dp/riffle/internal/bus"
	"github.com/riffle-dp/riffle/internal/channel/shuffle"
	"github.com/riffle-dp/riffle/internal/role"
	"github.com/riffle-dp/riffle/internal/shuffler/cohort"
	"github.com/riffle-dp/riffle/internal/shuffler/work"
	"github.com/riffle-dp/riffle/internal/worker"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/protocol"
	"github.com/riffle-dp/riffle/pkg/seal"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// Shuffler is the running role.
type Shuffler struct {
	*core
	files    Files
	retained *shuffle.Retention // nil: nothing

	guarantees    *guarantees
	reports       *admission
	times         *times
	announcements *announcements
	enrolments    *enrolments
	panels        *panels
	restoring     *restoring
	history       *history
	forgetting    *forgetting
	releases      *releases
	keys          *keySet
}

// New makes a shuffler, and replays its journal. Run closes its files when it returns; call Close if Run is never
// called. After an error they are closed.
func New(
	of Party, by Policy, files Files, channels *Channels, broker Broker, accounts Accounts, clock role.Clock,
	source protocol.Source, log zerolog.Logger,
) (*Shuffler, error) {
	requests, err := seal.NewRequestOpener(of.Deployment, of.Keys...)
	if err != nil {
		return nil, errors.Join(err, files.Close())
	}
	s := &Shuffler{files: files, retained: channels.retention, core: &core{
		c:         setup{of, by, accounts, broker, clock, source, log},
		envelopes: channels.envelopes, channels: channels.of, journal: files.Journal, log: files.Log,
		begun: make(chan struct{}), compacting: cohort.Compaction{After: by.Compact},
		state: cohort.NewState(cohort.Admission{
			Minimum: uint32(max(1, by.MinCohort)), SponsorShare: by.SponsorShare, Devices: by.Devices,
		}),
	}}
	err = s.journal.Replay(func(entry []byte) error {
		ev, err := cohort.DecodeEvent(entry)
		if err != nil {
			return err
		}
		s.compacting.Read(ev, len(entry))
		return s.state.Apply(ev)
	})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("shuffler: replaying the journal: %w", err), s.Close())
	}
	s.clock = newClock(readings(clock), s.state.Clock())
	s.parts(requests)
	return s, nil
}

// parts makes the parts of the shuffler, each after those that it asks.
func (s *Shuffler) parts(requests *seal.RequestOpener) {
	registrar := wire.Party{Deployment: s.c.Deployment, Key: s.c.Registrar, Hosts: s.c.Hosts}
	s.guarantees = &guarantees{
		core: s.core, planned: map[uint64]*plan.Announcement{}, epsilon: map[sized]float64{},
		promises: map[uint64]promise{},
	}
	s.reports = &admission{core: s.core, counter: newCounter(), wake: make(chan struct{}, 1)}
	s.times = &times{core: s.core}
	s.announcements = &announcements{
		core: s.core, guarantees: s.guarantees, unfit: map[roundID]*opening{}, never: map[roundID]cohort.Digest{},
	}
	s.enrolments = &enrolments{
		core: s.core, requests: requests, admitted: wire.NewCredentials(registrar), covered: cohort.CoveredBy(s.state),
	}
	s.panels = &panels{core: s.core, drawEvery: drawEvery}
	s.restoring = &restoring{core: s.core, guarantees: s.guarantees, reports: s.reports}
	s.history = &history{core: s.core, restoring: s.restoring, announcements: s.announcements, panels: s.panels}
	s.forgetting = &forgetting{core: s.core, reports: s.reports, history: s.history, forgetEvery: forgetEvery}
	s.releases = &releases{
		core: s.core, reports: s.reports, times: s.times, announcements: s.announcements, history: s.history,
		restoring: s.restoring, forgetting: s.forgetting,
	}
	s.keys = &keySet{s.core}
}

// Answers are the answers to what workers ask. They wait until reports may be decided on.
func (s *Shuffler) Answers() worker.Handlers { return worker.Handlers{work.Question: s.reports.claims} }

// Close lets go of the journal, of the log and of what is kept in memory and beyond it for mixing.
func (s *Shuffler) Close() error { return s.files.Close() }

// Held counts the reports that are admitted and neither released nor destroyed.
func (s *Shuffler) Held() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	reports, _ := s.state.Held()
	return int64(reports)
}

// HeldMessages counts the messages in held reports.
func (s *Shuffler) HeldMessages() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, messages := s.state.Held()
	return int64(messages)
}

// Filling describes the latest cohort; ok is false before the first announcement.
func (s *Shuffler) Filling() (f cohort.Filling, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.state.Filling()
}

// Run works until the context ends or something happens after which the shuffler must not go on, like a journal that
// cannot be written. Its error is never nil.
func (s *Shuffler) Run(ctx context.Context) error {
	defer s.Close()
	if err := s.canRetain(ctx); err != nil {
		return err
	}
	s.c.Reports.Resumed(int(s.Held()))
	s.c.Messages.Resumed(int(s.HeldMessages()))
	if err := s.look(ctx); err != nil {
		return err
	}
	switch _, err := s.history.recall(ctx); {
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(err, errFatal):
		return err
	case err != nil: // the releasing goroutine tries again, and nothing is committed before
		s.doubt = true
		s.c.Log.Error().Err(err).Msg("the broker could not be held against the journal; tried again")
	}
	keys := s.keys.publishKeys(ctx)
	if keys != nil && !errors.Is(keys, bus.ErrFull) {
		return keys
	}
	g, ctx := errgroup.WithContext(ctx)
	if keys != nil { // beside the rest: the reports that this shuffler takes in and forgets may be what makes room
		g.Go(func() error { return s.keys.keepPublishing(ctx, keys) })
	}
	deliveries := make(chan *bus.Delivery)
	g.Go(func() error {
		return s.c.Bus.WatchAnnouncements(ctx,
			func(a bus.Announcement) error { return s.announcements.announced(ctx, a) })
	})
	g.Go(func() error {
		ctx, stop := context.WithCancelCause(ctx)
		defer stop(nil)
		return s.c.Bus.ServeEnrol(ctx, workers, func(_ context.Context, request []byte) ([]byte, error) {
			reply, err := s.enrolments.asked(request)
			if err != nil {
				stop(err)
			}
			return reply, err
		})
	})
	g.Go(func() error {
		defer close(deliveries)
		// A journal that lacks a round, or the draw of its panel, would refuse reports that it admits a moment later.
		select {
		case <-s.begun:
		case <-ctx.Done():
			return ctx.Err()
		}
		return s.c.Bus.ReceiveReports(ctx, func(d *bus.Delivery) {
			s.waits.set(true, s.c.Clock.Now())
			select {
			case deliveries <- d:
			case <-ctx.Done(): // nobody may take it any more; the broker delivers it again
			}
			s.waits.set(false, time.Time{})
		})
	})
	for range workers {
		g.Go(func() error {
			for d := range deliveries {
				if err := s.reports.take(d); err != nil {
					return err // which ends the group, and so the reader too
				}
			}
			return nil
		})
	}
	g.Go(func() error {
		select {
		case err := <-s.reports.counter.failed:
			return err
		case <-ctx.Done():
			return ctx.Err()
		}
	})
	g.Go(func() error { return s.releases.release(ctx) })
	g.Go(func() error { return s.forgetting.keepForgetting(ctx) })
	g.Go(func() error { return s.times.keepTime(ctx) })
	g.Go(func() error { return s.times.watchBroker(ctx) })
	return g.Wait()
}

// canRetain makes sure before the first release that the broker takes what is retained, and drops it in time.
func (s *Shuffler) canRetain(ctx context.Context) error {
	if s.retained == nil {
		return nil
	}
	if err := s.c.Bus.CanRetain(ctx); err != nil {
		return fmt.Errorf("audit.retain: %w", err)
	}
	s.c.Log.Info().Stringer("window", s.retained.Window).
		Msg("what is forwarded is retained, sealed to the auditor, until its window is over")
	return nil
}

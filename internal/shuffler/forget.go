package shuffler

import (
	"context"
	"errors"
	"time"

	"github.com/riffle-dp/riffle/internal/bus"
	"github.com/riffle-dp/riffle/internal/role"
	"github.com/riffle-dp/riffle/internal/shuffler/cohort"
)

const (
	// forgetEvery is how often the shuffler looks whether the broker holds reports that are not needed. A host whose
	// reports are all refused can fill its places at the broker anew that often while no round has reports, and the
	// broker remembers the ids of all of them for the dedup window. A look is one question to the broker, and one purge
	// at most.
	forgetEvery = time.Minute
	// forgetSoon is how often it looks while reports of a finished round are kept by an acknowledgement that is on its
	// way, or was lost.
	forgetSoon = time.Second
	// forgetTime bounds one look, so that a broker that is away shows in the log.
	forgetTime = 10 * time.Second
)

// forgetting has the broker forget reports.
type forgetting struct {
	*core
	reports     *admission
	history     *history
	forgetEvery time.Duration
	forgotten   uint64 // last sequence up to which the broker forgot the reports; guarded by mu
	owed        uint64 // sequence up to which it must, for the rounds that are finished; guarded by mu
}

// forget has the broker forget every report before the first one that is not decided on, or that a round needs, or may
// turn out to need once a newer state folder is back. over is a round whose manifest is out, or nil. What a lost
// acknowledgement keeps is forgotten at the first look after its redelivery. Nothing is forgotten before the journal
// was held against the broker and its stream of reports.
func (s *forgetting) forget(ctx context.Context, over *cohort.Release) error {
	// In this order: what is acknowledged by now was decided on before, so that the state knows whether a round needs
	// it.
	backlog, err := s.c.Bus.Backlog(ctx)
	if err != nil {
		return err
	}
	upTo := backlog.Floor
	s.mu.Lock()
	if over != nil {
		for _, m := range over.Members {
			s.owed = max(s.owed, m.Sequence)
		}
	}
	first, needed := s.state.First(over)
	if strange, ok := s.reports.strangers.First(s.state); ok && (!needed || strange < first) {
		first, needed = strange, true
	}
	complete := s.history.complete()
	forgotten := s.forgotten
	s.mu.Unlock()
	if !complete { // a restored journal lacks reports that were acknowledged: they are taken in again first
		return nil
	}
	if needed {
		upTo = min(upTo, first-1)
	}
	if upTo == forgotten { // not "at most": a broker that was restored from a backup counts again from less
		return nil
	}
	if err := s.c.Bus.PurgeReports(ctx, upTo); err != nil {
		return err
	}
	s.mu.Lock()
	s.forgotten = upTo
	s.mu.Unlock()
	return nil
}

// forgetOver has the broker forget the reports of a round whose manifest is out, and waits for it. It does not wait for
// a disk that takes no write: nats-server's health answer shows a purge that failed so only after a report was refused,
// and none comes while no round opens. keepForgetting goes on with it.
func (s *forgetting) forgetOver(ctx context.Context, over *cohort.Release) error {
	for {
		limited, cancel := s.c.Clock.WithTimeout(ctx, forgetTime)
		err := s.forget(limited, over)
		cancel()
		switch {
		case errors.Is(err, bus.ErrDisk) && ctx.Err() == nil:
			s.c.Log.Warn().Err(err).Func(about(over.Epoch, over.Round)).
				Msg("the broker has not forgotten the reports of this round yet; tried again")
			return nil
		case ctx.Err() != nil || !errors.Is(err, bus.ErrUnknown):
			return err
		}
	}
}

// keepForgetting forgets from time to time, until the context ends, what no finished round took along: refused reports,
// and what was not acknowledged yet when its round was finished.
func (s *forgetting) keepForgetting(ctx context.Context) error {
	for {
		limited, cancel := s.c.Clock.WithTimeout(ctx, forgetTime)
		if err := s.forget(limited, nil); err != nil && ctx.Err() == nil {
			s.c.Log.Warn().Err(err).Msg("the broker has not forgotten the reports that are not needed; tried again")
		}
		if err := s.look(limited); err != nil && ctx.Err() == nil {
			s.c.Log.Warn().Err(err).Msg("the broker's limits on reports are not known; asked again")
		}
		cancel()
		wait := s.forgetEvery
		s.mu.Lock()
		if s.forgotten < s.owed {
			wait = min(wait, forgetSoon)
		}
		s.mu.Unlock()
		if err := role.Sleep(ctx, s.c.Clock, wait); err != nil {
			return err
		}
	}
}

package shuffler

import (
	"context"
	"time"
)

// forgetEvery is how often the shuffler looks whether the broker holds reports that nobody needs any more. It bounds how long refused
// reports take room, and how often a host whose reports are all refused may fill its places at the broker anew. One look is one question
// to the broker, and one purge at most.
const forgetEvery = 5 * time.Second

// First is the smallest sequence of a report that a round still needs; ok is false where none does. A round needs its reports until its
// manifest is out: over is one whose manifest is out already, or nil.
func (s *State) First(over *Release) (first uint64, ok bool) {
	if s.epoch == nil {
		return 0, false
	}
	for i, r := range s.epoch.rounds {
		if r.done || over != nil && over.Epoch == s.epoch.number && int(over.Round) == i {
			continue
		}
		for _, a := range r.reports {
			if !ok || a.sequence < first {
				first, ok = a.sequence, true
			}
		}
	}
	return first, ok
}

// forget has the broker forget every report before the first one that is not decided on, or that a round needs. over is a round whose
// manifest is out, or nil. What a lost acknowledgement keeps is forgotten the next time after its redelivery.
func (s *Shuffler) forget(ctx context.Context, over *Release) error {
	// In this order: whatever is acknowledged by now was decided on before, so that the state knows whether a round needs it.
	backlog, err := s.c.Bus.Backlog(ctx)
	if err != nil {
		return err
	}
	upTo := backlog.Floor
	s.mu.Lock()
	first, needed := s.state.First(over)
	forgotten := s.forgotten
	s.mu.Unlock()
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

// keepForgetting forgets from time to time, until the context ends, what no finished round took along: refused reports, and what was
// not acknowledged yet when its round was finished.
func (s *Shuffler) keepForgetting(ctx context.Context) error {
	for pause(ctx, s.forgetEvery) {
		limited, cancel := context.WithTimeout(ctx, s.forgetEvery)
		if err := s.forget(limited, nil); err != nil && ctx.Err() == nil {
			s.c.Log.Warn().Err(err).Msg("the broker has not forgotten the reports that nobody needs; tried again")
		}
		cancel()
	}
	return ctx.Err()
}

package shuffler

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/riffle-dp/riffle/internal/bus"
)

const (
	// askEvery is how often the broker is asked what waits. A question that is not answered within maxGap is an outage.
	askEvery = time.Second
	// noteEvery is how often the journal hears how far the clock has come while a round is open: at most so much more time does a cohort
	// have after a crash.
	noteEvery = time.Minute
)

// outages is what the shuffler knows of its broker's.
type outages struct {
	mu    sync.Mutex
	held  *int   // reports that wait at the broker
	count uint64 // reconnects of the connection
	mark  mark   // of the open round
}

// waiting is how many reports waited at the broker when it last answered; nil: it has not, or did not when it was asked last.
func (o *outages) waiting() *int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.held
}

// mark is how far the stream of reports reached when a deadline had passed.
type mark struct {
	epoch    uint64
	round    uint32
	deadline time.Time
	sequence uint64
}

// backlog asks the broker what waits. No answer in time is an outage, and so is a connection that was lost meanwhile: who reports over
// the same broker may have been cut off as well.
func (s *Shuffler) backlog(ctx context.Context) (bus.Backlog, error) {
	asking, cancel := context.WithTimeout(ctx, maxGap)
	defer cancel()
	b, err := s.c.Bus.Backlog(asking)
	count := s.c.Bus.Traffic().Reconnects
	s.outages.mu.Lock()
	lost := count != s.outages.count
	s.outages.count, s.outages.held = count, nil
	if err == nil {
		s.outages.held = &b.Waiting
	}
	s.outages.mu.Unlock()
	if err != nil || lost {
		s.clock.interrupted()
	}
	if err == nil && lost {
		err = fmt.Errorf("shuffler: the connection to the broker was lost and is back")
	}
	return b, err
}

// takenIn tells whether everything is decided on that the broker had stored when the open round's deadline had passed: a shuffler that
// was frozen, or slow, or that another one's reports kept busy, must not shut out those who reported in time. What comes later does not
// put off the round. While the broker does not answer, nothing is known to be taken in.
func (s *Shuffler) takenIn(ctx context.Context, of mark) bool {
	b, err := s.backlog(ctx)
	if err != nil {
		s.c.Log.Debug().Err(err).Msg("deadline put off: the broker does not say what waits")
		return false
	}
	s.outages.mu.Lock()
	at := s.outages.mark
	s.outages.mu.Unlock()
	if at.epoch != of.epoch || at.round != of.round || !at.deadline.Equal(of.deadline) {
		asking, cancel := context.WithTimeout(ctx, maxGap)
		defer cancel()
		if of.sequence, err = s.c.Bus.LastReport(asking); err != nil {
			s.clock.interrupted()
			return false
		}
		s.outages.mu.Lock()
		s.outages.mark, at = of, of
		s.outages.mu.Unlock()
		if b.Waiting > 0 {
			s.c.Log.Info().Uint64("epoch", of.epoch).Uint32("round", of.round).Int("waiting", b.Waiting).Msg("deadline reached; first what waits at the broker is taken in")
		}
	}
	return b.Waiting == 0 || b.Floor >= at.sequence
}

// keepTime looks at the clock often enough that it notices when this process stood still, and has the journal keep it.
func (s *Shuffler) keepTime(ctx context.Context) error {
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	stops := 0
	for {
		now, resumed := s.clock.now()
		if n := s.clock.stops(); n != stops {
			stops = n
			s.c.Log.Warn().Msg("this process or its machine stood still, or the time of day was set: people have the announced grace from now on")
		}
		err := s.decide(func(state *State) (*Event, error) {
			_, open := state.deadline(now, resumed)
			if !open && !state.enrolling() || now.Sub(state.Clock()) < noteEvery {
				return nil, nil
			}
			return &Event{Passed: &Passed{At: now.UnixMilli()}}, nil
		})
		if err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ticker.C:
		}
	}
}

// watchBroker notices the broker's outages whether or not anything has to be decided meanwhile.
func (s *Shuffler) watchBroker(ctx context.Context) error {
	ticker := time.NewTicker(askEvery)
	defer ticker.Stop()
	for {
		if _, err := s.backlog(ctx); err != nil && ctx.Err() == nil {
			s.c.Log.Debug().Err(err).Msg("broker's outage noted")
		}
		s.notice(workersCondition, s.waits.tooLong(s.ran()))
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ticker.C:
		}
	}
}

const (
	// stuckAfter is how long a report may wait for a worker. A worker decides in milliseconds, or as long as one write to the disk takes.
	stuckAfter = 30 * time.Second
	// workersCondition is the readiness condition that a report finds a worker.
	workersCondition = "workers"
)

// wait is for how long something has been waiting, by the time that the process has run.
type wait struct {
	mu      sync.Mutex
	waiting bool
	since   time.Duration
}

func (w *wait) set(waiting bool, run time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.waiting, w.since = waiting, run
}

// tooLong is an error where a report has waited for more than stuckAfter.
func (w *wait) tooLong(run time.Duration) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.waiting || run-w.since < stuckAfter {
		return nil
	}
	return fmt.Errorf("all %d workers are busy and have decided on no report for %v; restart the shuffler if the broker and the disk are well", workers, stuckAfter)
}

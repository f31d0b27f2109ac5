package shuffler

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/riffle-dp/riffle/internal/bus"
	"github.com/riffle-dp/riffle/internal/role"
	"github.com/riffle-dp/riffle/internal/shuffler/cohort"
)

const (
	// askEvery is how often the broker is asked what waits. A question that is not answered within maxGap is an outage.
	askEvery = time.Second
	// noteEvery is how often the journal hears how far the clock has come while a round is open: after a crash a cohort
	// has at most this much more time.
	noteEvery = time.Minute
	// patience is how many graces in which the broker answered a deadline is put off by outages, in all: a device that
	// has not reported in that time will not. Without it a broker that hangs for moments, again and again, would put
	// off a round for ever.
	patience = 5
	// leastPatience is how long they are at least.
	leastPatience = time.Minute
	// deadlineCondition is the readiness condition that a round is decided when its time has come.
	deadlineCondition = "deadline"
)

// times knows when a round's time is over.
type times struct {
	*core
	outages outages
}

// outages is what the shuffler knows of its broker's outages.
type outages struct {
	mu    sync.Mutex
	held  *int   // reports that wait at the broker
	count uint64 // reconnects of the connection
	mark  mark   // of the open round

	answered time.Time     // when the broker answered last; zero if it did not answer since
	there    time.Duration // for how long it has answered, without what counts as an outage
	putOff   putOff
}

// putOff is since when a deadline, as it would be without outages, has passed: by the shuffler's clock, and by the time
// for which the broker has answered.
type putOff struct {
	epoch uint64
	round uint32
	since time.Time
	there time.Duration
}

// borne tells for how long the round's deadline has been put off, by both times.
func (o *outages) borne(epoch uint64, round uint32, now time.Time) (all, there time.Duration) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.putOff.epoch != epoch || o.putOff.round != round {
		o.putOff = putOff{epoch, round, now, o.there}
	}
	return now.Sub(o.putOff.since), o.there - o.putOff.there
}

// waiting is how many reports waited at the broker when it last answered; nil if it has not answered yet, or not the
// last question.
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

// reached reports whether every report up to the mark is decided on. newest is the last report that the stream holds.
// That none waits says it only of what the consumer has been told of: the stream stores a report, and answers its
// device, a moment before. A stream that was emptied, or is a backup, ends before the mark.
func (m mark) reached(b bus.Backlog, newest uint64) bool {
	return b.Floor >= m.sequence || b.Waiting == 0 && b.Sent >= newest
}

// backlog asks the broker what waits. No answer in time is an outage, and so is a connection that was lost meanwhile:
// devices that report over the same broker may have been cut off as well.
func (s *times) backlog(ctx context.Context) (bus.Backlog, error) {
	asking, cancel := s.c.Clock.WithTimeout(ctx, maxGap)
	defer cancel()
	b, err := s.c.Bus.Backlog(asking)
	count := s.c.Bus.Traffic().Reconnects
	s.outages.mu.Lock()
	lost := count != s.outages.count
	s.outages.count, s.outages.held = count, nil
	before := s.outages.answered
	s.outages.answered = time.Time{}
	if err == nil {
		s.outages.held = &b.Waiting
		s.outages.answered, _ = s.clock.now()
		if !before.IsZero() && !lost {
			// What is longer was not spent asking.
			s.outages.there += min(s.outages.answered.Sub(before), askEvery+maxGap)
		}
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

// takenIn reports whether all reports are decided on that the broker had stored when the open round's deadline had
// passed: a shuffler that was frozen, or slow, or busy with strangers' reports, must not shut out devices that reported
// in time. What comes later does not put off the round. While the broker does not answer, nothing is known to be taken
// in.
func (s *times) takenIn(ctx context.Context, of mark) bool {
	b, err := s.backlog(ctx)
	if err != nil {
		s.c.Log.Debug().Err(err).Msg("deadline put off: the broker does not say what waits")
		return false
	}
	s.outages.mu.Lock()
	at := s.outages.mark
	s.outages.mu.Unlock()
	if at.epoch != of.epoch || at.round != of.round || !at.deadline.Equal(of.deadline) {
		asking, cancel := s.c.Clock.WithTimeout(ctx, maxGap)
		defer cancel()
		if of.sequence, err = s.c.Bus.LastReport(asking); err != nil {
			s.clock.interrupted()
			return false
		}
		s.outages.mu.Lock()
		s.outages.mark, at = of, of
		s.outages.mu.Unlock()
		if b.Waiting > 0 {
			s.c.Log.Info().Func(about(of.epoch, of.round)).Int("waiting", b.Waiting).
				Msg("deadline reached; first the reports that wait at the broker are taken in")
		}
	}
	if b.Floor >= at.sequence || b.Waiting > 0 {
		return at.reached(b, at.sequence)
	}
	asking, cancel := s.c.Clock.WithTimeout(ctx, maxGap)
	defer cancel()
	newest, err := s.c.Bus.LastReport(asking)
	if err != nil {
		s.clock.interrupted()
		return false
	}
	return at.reached(b, newest)
}

// moment is the time, as the open round's deadline takes it: outages put it off while its patience lasts. late says
// that the round should have been decided long ago. The lock is held.
func (s *times) moment() (m cohort.Moment, late error) {
	m.Now, m.Resumed = s.clock.now()
	own, fixed := s.state.Deadline(m.Now, time.Time{})
	if !fixed || m.Now.Before(own) {
		return m, nil
	}
	f, _ := s.state.Filling()
	limit := max(patience*s.state.Grace(), leastPatience)
	all, there := s.outages.borne(f.Epoch, uint32(f.Round), m.Now)
	if there >= limit {
		m.Resumed = time.Time{}
	}
	if all >= limit+leastPatience {
		late = fmt.Errorf("the deadline of round %d of epoch %d is put off: the broker is away again and again, "+
			"or takes longer than %v for an answer, or what waited there is not taken in", f.Round, f.Epoch, maxGap)
	}
	return m, late
}

// keepTime looks at the clock often enough to notice when this process stood still, and has the journal keep the time.
func (s *times) keepTime(ctx context.Context) error {
	stops := 0
	for {
		now, resumed := s.clock.now()
		if n := s.clock.stops(); n != stops {
			stops = n
			s.c.Log.Warn().Msg("this process or its machine stood still, or the time of day was set: " +
				"people have the announced grace from now on")
		}
		err := s.decide(func(state *cohort.State) (*cohort.Event, error) {
			_, open := state.Deadline(now, resumed)
			if !open && !state.Timed() || now.Sub(state.Clock()) < noteEvery {
				return nil, nil
			}
			return &cohort.Event{Passed: &cohort.Passed{At: now.UnixMilli()}}, nil
		})
		if err != nil {
			return err
		}
		if err := role.Sleep(ctx, s.c.Clock, tick); err != nil {
			return err
		}
	}
}

// watchBroker notices the broker's outages whether or not anything has to be decided meanwhile.
func (s *times) watchBroker(ctx context.Context) error {
	for {
		if _, err := s.backlog(ctx); err != nil && ctx.Err() == nil {
			s.c.Log.Debug().Err(err).Msg("broker's outage noted")
		}
		s.notice(workersCondition, s.waits.tooLong(s.c.Clock.Now()))
		if err := role.Sleep(ctx, s.c.Clock, askEvery); err != nil {
			return err
		}
	}
}

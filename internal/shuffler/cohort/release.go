package cohort

import (
	"time"

	"github.com/riffle-dp/riffle/internal/channel"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// Release is one round's members and outcome. Once it is committed it is what leaves, or is destroyed, whatever happens
// from then on. Its minimum is the announced one or the shuffler's own, whichever is larger.
type Release struct {
	channel.Release
	Outcome  wire.Outcome
	Enrolled uint32         // slots that were given
	Refused  []wire.Refused // for the manifest
	Left     uint64         // messages that can have left of a release that is destroyed, at most
}

// Moment is what Due needs to know of time.
type Moment struct {
	Now     time.Time // by the shuffler's clock
	Resumed time.Time // since when, as far as the shuffler knows, nothing kept people's reports from coming in
	TakenIn bool      // every report that the broker held when the open round's deadline had passed is decided on
}

// Due is the release that the open round makes now, with all reports admitted so far; nil while the round must wait. A
// complete round does not wait. An incomplete one waits for its deadline, and then until all that had come by then is
// taken in. Its outcome is a release exactly if the reports are at least the minimum.
func (s *State) Due(m Moment) *Release {
	e := s.epoch
	at, fixed := s.Deadline(m.Now, m.Resumed)
	if !fixed {
		return nil
	}
	n := len(e.rounds) - 1
	complete := e.rounds[n].reports.count+len(e.rounds[n].excluded) == e.expected(n)
	if !complete && (m.Now.Before(at) || !m.TakenIn) {
		return nil
	}
	r := e.release(n, s.minimum)
	r.Outcome = wire.Destroyed
	if len(r.Members) >= int(r.Minimum) {
		r.Outcome = wire.Released
	}
	return r
}

// Commit fixes the membership that Due gave. It returns nil where that is no longer what the open round would release,
// because a report was admitted meanwhile.
func (s *State) Commit(r *Release) *Event {
	e := s.epoch
	if e == nil || e.number != r.Epoch || int(r.Round) != len(e.rounds)-1 ||
		e.rounds[r.Round].outcome != wire.Undecided ||
		!e.rounds[r.Round].has(r.Members) {
		return nil
	}
	return &Event{Committed: &Committed{Round: r.Round, Outcome: r.Outcome}}
}

// Unfinished returns the round that is committed and whose manifest is not out, if there is one.
func (s *State) Unfinished() (*Release, bool) {
	if s.epoch == nil {
		return nil, false
	}
	for i, r := range s.epoch.rounds {
		if r.outcome != wire.Undecided && !r.done {
			return s.epoch.release(i, s.minimum), true
		}
	}
	return nil, false
}

// Deadline is when the open round is released with those who reported; fixed is false while that can still move because
// more devices may enrol, and once the round's membership is committed. Whatever kept reports from coming in may have
// kept back the devices that have not reported: from resumed on they have the grace that was announced for slow
// networks. That depends on outages, never on a record.
func (s *State) Deadline(now, resumed time.Time) (at time.Time, fixed bool) {
	e := s.epoch
	if e == nil || e.final || e.rounds[len(e.rounds)-1].outcome != wire.Undecided {
		return time.Time{}, false
	}
	if n := len(e.rounds) - 1; n > 0 {
		at = e.rounds[n].opened.Add(e.timing.RoundWindow)
	} else if !e.closed(now) {
		return time.Time{}, false
	} else {
		at = e.last
	}
	if resumed.After(at) {
		at = resumed
	}
	return at.Add(e.timing.Grace), true
}

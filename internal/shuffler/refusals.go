package shuffler

import (
	"maps"

	"github.com/riffle-dp/riffle/internal/bus"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// refusals counts the reports of one round that were refused as they came, in memory: a number for each reason, however
// many come. The journal keeps them with the round's membership (Committed), so that every attempt to sign its manifest
// signs the same ones.
type refusals struct {
	epoch uint64
	round uint32
	by    map[wire.Refusal]uint64
}

// refusedAsItCame counts a report that was refused on its delivery, if the round that it was sent for is open and its
// membership is not fixed. The broker delivers a report again when it did not hear that it was decided on: only the
// first time counts, so that no report counts twice.
func (s *Shuffler) refusedAsItCame(d *bus.Delivery, why wire.Refusal) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if d.Redelivered || !s.state.undecided(d.Epoch, d.Round) {
		return
	}
	if of := &s.refusals; of.by == nil || of.epoch != d.Epoch || of.round != d.Round {
		s.refusals = refusals{d.Epoch, d.Round, map[wire.Refusal]uint64{}}
	}
	s.refusals.by[why]++
}

// of are the refusals of a round; nil if there are none.
func (r *refusals) of(epoch uint64, round uint32) map[wire.Refusal]uint64 {
	if r.epoch != epoch || r.round != round {
		return nil
	}
	return maps.Clone(r.by)
}

// undecided tells whether a round is open and its membership is not fixed.
func (s *State) undecided(epoch uint64, round uint32) bool {
	e := s.epoch
	return e != nil && !e.final && e.number == epoch && int(round) < len(e.rounds) &&
		e.rounds[round].outcome == wire.Undecided
}

// refusals are what a manifest of the round says of refused reports, by the journal alone.
func (r *round) refusals() (all []wire.Refused) {
	taken := map[wire.Refusal]uint32{}
	for _, why := range r.excluded {
		taken[why]++
	}
	for _, why := range wire.Refusals() {
		if n := r.refused[why] + uint64(taken[why]); n > 0 {
			all = append(all, wire.Refused{Reason: why, Reports: n, TakenOut: taken[why]})
		}
	}
	return all
}

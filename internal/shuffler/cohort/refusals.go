package cohort

import (
	"maps"

	"github.com/riffle-dp/riffle/pkg/wire"
)

// Refusals counts the reports of one round that were refused as they came, in memory: a number for each reason, however
// many come. The journal keeps them with the round's membership (Committed), so that every attempt to sign its manifest
// signs the same ones.
type Refusals struct {
	epoch uint64
	round uint32
	by    map[wire.Refusal]uint64
}

// Count counts a report that was refused on its delivery, if the round that it was sent for is open and its membership
// is not fixed. The broker delivers a report again when it did not hear that it was decided on: only the first time
// counts, so that no report counts twice.
func (of *Refusals) Count(s *State, epoch uint64, round uint32, redelivered bool, why wire.Refusal) {
	if redelivered || !s.Undecided(epoch, round) {
		return
	}
	if of.by == nil || of.epoch != epoch || of.round != round {
		*of = Refusals{epoch, round, map[wire.Refusal]uint64{}}
	}
	of.by[why]++
}

// Of are the refusals of a round; nil if there are none.
func (of *Refusals) Of(epoch uint64, round uint32) map[wire.Refusal]uint64 {
	if of.epoch != epoch || of.round != round {
		return nil
	}
	return maps.Clone(of.by)
}

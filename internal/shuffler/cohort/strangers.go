package cohort

import (
	"errors"

	"github.com/riffle-dp/riffle/pkg/wire"
)

// strangersShare is the part of a cohort's slots, one in so many, that as many devices without a slot must reach with
// their reports before anything is said. A state folder that lacks fewer enrolments costs a cohort no more than people
// who drop out do, and one faulty device gives no alarm in a cohort of usual size.
const strangersShare = 10

// Strangers are devices without a slot that sent well-formed, signed reports for the open epoch. Honest hosts send
// reports only for slots that this shuffler gave, so many strangers mean that the journal lost enrolments. But a report
// carries no credential: one malicious host can sign as many as it likes and bring this about by itself. So this is a
// warning. It changes no decision and stops nothing; their reports stay at the broker until their round is decided on.
type Strangers struct {
	epoch   uint64
	devices map[DeviceID]bool // at most as many as are needed
	logged  bool
	round   uint32 // of the last report that was refused so
	first   uint64 // smallest sequence of a refused report for that round
}

// Note notes a report that the state refused, if it is a stranger's.
func (of *Strangers) Note(s *State, id DeviceID, epoch uint64, round uint32, sequence uint64, why error) {
	var refused *Refused
	if !errors.As(why, &refused) || refused.Reason != wire.RefusalNotEnrolled || !s.Undecided(epoch, round) {
		return
	}
	if of.epoch != epoch {
		*of = Strangers{epoch: epoch, devices: map[DeviceID]bool{}}
	}
	if of.first == 0 || of.round != round || sequence < of.first { // of devices with another slot, too: a newer journal
		of.round, of.first = round, sequence // may have given them this one
	}
	if _, enrolled := s.slotOf(id); enrolled {
		return
	}
	if len(of.devices) < s.epoch.alarming() {
		of.devices[id] = true
	}
}

// First is the smallest sequence of a report, for a round whose membership is not fixed, of a device that the journal
// did not enrol, or not for that slot; ok is false where there is none. A newer journal may have such a report as a
// member, so the broker keeps it until then. What comes behind an admitted report is kept for as long anyway: malicious
// hosts gain room only before the first one.
func (of *Strangers) First(s *State) (first uint64, ok bool) {
	return of.first, of.first > 0 && s.Undecided(of.epoch, of.round)
}

// alarming is how many strangers are told of.
func (e *epoch) alarming() int { return max(1, (int(e.size)+strangersShare-1)/strangersShare) }

// Told reports whether there are so many that people are to hear of it, in which epoch, and whether they hear it for
// the first time. It is over once the epoch is.
func (of *Strangers) Told(s *State) (epoch uint64, told, first bool) {
	e := s.epoch
	told = e != nil && of.epoch == e.number && !e.final && len(of.devices) >= e.alarming()
	first = told && !of.logged
	of.logged = of.logged || told
	return of.epoch, told, first
}

package shuffler

import (
	"errors"
	"fmt"

	"github.com/riffle-dp/riffle/pkg/wire"
)

const (
	// enrolmentsCondition is the readiness condition that the devices that report are those that were enrolled.
	enrolmentsCondition = "enrolments"
	// strangersShare is the part of a cohort's slots, one in so many, that as many devices without a slot must reach
	// with their reports before anything is said. A state folder that lacks fewer enrolments costs a cohort no more
	// than people who drop out do, and one faulty device gives no alarm in a cohort of usual size.
	strangersShare = 10
)

// errStrangers says that the journal seems to lack enrolments.
var errStrangers = errors.New("devices report that this shuffler's journal never enrolled: the state folder may be " +
	"older than what hosts were promised; restore the newest copy")

// strangers are devices without a slot that sent well-formed, signed reports for the open epoch. Honest hosts send
// reports only for slots that this shuffler gave, so many strangers mean that the journal lost enrolments. But a report
// carries no credential: one malicious host can sign as many as it likes and bring this about by itself. So this is a
// warning. It changes no decision and stops nothing; their reports stay at the broker until their round is decided on.
type strangers struct {
	epoch   uint64
	devices map[DeviceID]bool // at most as many as are needed
	logged  bool
	round   uint32 // of the last report that was refused so
	first   uint64 // smallest sequence of a refused report for that round
}

// strange notes a report that the state refused, if it is a stranger's. The lock is held.
func (s *Shuffler) strange(id DeviceID, epoch uint64, round uint32, sequence uint64, why error) {
	var refused *Refused
	if !errors.As(why, &refused) || refused.Reason != wire.RefusalNotEnrolled || !s.state.undecided(epoch, round) {
		return
	}
	if s.strangers.epoch != epoch {
		s.strangers = strangers{epoch: epoch, devices: map[DeviceID]bool{}}
	}
	of := &s.strangers
	if of.first == 0 || of.round != round || sequence < of.first { // of devices with another slot, too: a newer journal
		of.round, of.first = round, sequence // may have given them this one
	}
	if _, enrolled := s.state.slotOf(id); enrolled {
		return
	}
	if len(of.devices) < s.state.epoch.alarming() {
		of.devices[id] = true
	}
}

// estranged is the smallest sequence of a report, for a round whose membership is not fixed, of a device that the
// journal did not enrol, or not for that slot; ok is false where there is none. A newer journal may have such a report
// as a member, so the broker keeps it until then. What comes behind an admitted report is kept for as long anyway:
// malicious hosts gain room only before the first one. The lock is held.
func (s *Shuffler) estranged() (first uint64, ok bool) {
	of := &s.strangers
	return of.first, of.first > 0 && s.state.undecided(of.epoch, of.round)
}

// alarming is how many strangers are told of.
func (e *epoch) alarming() int { return max(1, (int(e.size)+strangersShare-1)/strangersShare) }

// enrolments is the readiness condition of that name. It is met again once the epoch is over. It logs once for each
// epoch.
func (s *Shuffler) enrolments() error {
	s.mu.Lock()
	e, of := s.state.epoch, &s.strangers
	told := e != nil && of.epoch == e.number && !e.final && len(of.devices) >= e.alarming()
	first := told && !of.logged
	of.logged = of.logged || told
	epoch := of.epoch
	s.mu.Unlock()
	if !told {
		return nil
	}
	if first {
		s.c.Log.Error().Err(errStrangers).Uint64("epoch", epoch).
			Msg("reports of devices that were never enrolled are refused")
	}
	return fmt.Errorf("epoch %d: %w", epoch, errStrangers)
}

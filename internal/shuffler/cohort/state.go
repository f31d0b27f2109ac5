// Package cohort is what a shuffler decides: who is enrolled, whose report is admitted, who is a member of a release,
// whom a panel is drawn from, and when a round is due. It has no broker, file, clock, goroutine or lock: a State is a
// function of the events that were applied to it, the same when a journal is replayed as when it is written.
//
// A method that decides gives an Event, or a Refused that says why not. Its caller makes the event durable, and applies
// it, before anyone hears of the decision. Package shuffler is that caller.
package cohort

import (
	"cmp"
	"crypto/sha256"
	"errors"
	"fmt"
	"time"

	"github.com/riffle-dp/riffle/internal/channel"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// Digest is a SHA-256 digest of a statement or a report.
type Digest [sha256.Size]byte

// DeviceID names a device to the shuffler: a host's Ed25519 public key and the device's number on that host.
type DeviceID struct {
	Host   [32]byte
	Number uint32
}

// State is everything that the shuffler decides from: a function of the events applied so far and of nothing else. Its
// methods that decide (Open, Enrol, Admit, Due, Commit, Adopt) change nothing; they return the event that records the
// decision, which the caller applies and makes durable before anyone hears of it. Not safe for concurrent use.
type State struct {
	minimum  uint32   // the shuffler's own minimum cohort; it opens no epoch whose minimum is smaller
	share    float64  // the largest share of a cohort's slots that one sponsor may hold
	capacity int      // the most devices that are remembered
	arrived  int      // devices that were enrolled as they arrived, in the epochs before the latest one
	keys     Keys     // the last set that was published
	over     []Ended  // rounds whose manifest is out, oldest first
	requests requests // of slots and registrations

	roster
	latest
	told
	space
	registry
}

// latest is the latest epoch; earlier ones are over.
type latest struct{ epoch *epoch }

// told is the time at which the latest event that tells one was decided.
type told struct{ clock time.Time }

// space is what the broker said last of its room; zero: not known.
type space struct{ stores Room }

// registry is what is remembered of panels.
type registry struct {
	begun      bool            // an epoch was opened, which says whether the deployment has panels
	terms      *PanelTerms     // nil where it has none
	registered devices         // of hosts that the registrar let in
	issuers    issuers         // with the installations that registered
	count      int             // of both
	of         map[sponsor]int // of them by who answers for them
	history    history
}

// Admission is the shuffler's own policy on which devices it lets into a cohort, whatever is announced.
type Admission struct {
	Minimum uint32 // fewest reports of a release
	// SponsorShare is the largest share of a cohort's slots that devices of one sponsor may hold, above 0 and up to 1;
	// 0 stands for 1. A device's sponsor is the issuer of its credential, or else its host.
	// Of panels it is the share of the devices that they are drawn from: which of them are drawn nobody can choose.
	SponsorShare float64
	// Devices is the most devices that are remembered, so that none takes part more often than it may: nobody enrols or
	// registers beyond. Of those that register one sponsor has at most its share. 0 stands for DefaultDevices.
	Devices int
}

// NewState returns the state before any event.
func NewState(a Admission) *State {
	if a.SponsorShare == 0 {
		a.SponsorShare = 1
	}
	return &State{
		minimum: a.Minimum, share: a.SponsorShare, capacity: cmp.Or(a.Devices, DefaultDevices),
		registry: registry{registered: newDevices(), of: map[sponsor]int{}}, roster: roster{
			hosts: newHosts(), devices: enrolled{}, marks: keyset{width: markSize},
		},
	}
}

// ErrBusy says that an announcement comes in order, and that what is released before it is not finished: ask again in a
// moment.
var ErrBusy = errors.New("shuffler: the release before this announcement is not finished")

// Open decides on an announcement, already verified and in range, whose digest is d and whose reports have the layout
// l. A repeated announcement gives no event and no error. One digest is admitted per round: the first that was opened.
func (s *State) Open(a *plan.Announcement, d Digest, l channel.Layout, now time.Time) (*Event, error) {
	e := s.epoch
	open := OpenedBy(a, d, l, now)
	no := func(reason wire.Refusal, format string, a ...any) (*Event, error) {
		return nil, Refuse(reason, format, a...)
	}
	switch {
	case e != nil && a.Epoch == e.number && int(a.Round) < len(e.rounds):
		if known := e.rounds[a.Round].digest; known != d {
			return no(wire.RefusalWrongAnnouncement,
				"round %d of epoch %d is open under digest %x; the announcement now shown has digest %x",
				a.Round, a.Epoch, known[:8], d[:8])
		}
		return nil, nil
	case e != nil && a.Epoch < e.number:
		return nil, nil // replayed history
	case e != nil && a.Epoch == e.number:
		if int(a.Round) != len(e.rounds) || int(a.Round) >= e.planned {
			return no(wire.RefusalWrongEpoch, "round %d of epoch %d cannot follow round %d of %d planned",
				a.Round, a.Epoch, len(e.rounds)-1, e.planned)
		}
		last := e.rounds[len(e.rounds)-1]
		if last.outcome == wire.Released && !last.done {
			return nil, fmt.Errorf("%w: round %d of epoch %d", ErrBusy, a.Round-1, a.Epoch)
		}
		if last.outcome != wire.Released {
			return no(wire.RefusalWrongEpoch, "round %d of epoch %d was announced before round %d was released",
				a.Round, a.Epoch, a.Round-1)
		}
		return open, nil
	case a.Round != 0:
		return no(wire.RefusalWrongEpoch, "epoch %d begins with round %d", a.Epoch, a.Round)
	case e != nil && e.closing():
		return nil, fmt.Errorf("%w: epoch %d", ErrBusy, e.number)
	case e != nil && !e.over():
		return no(wire.RefusalWrongEpoch, "epoch %d was announced while epoch %d is running", a.Epoch, e.number)
	}
	if !a.Final {
		// Nobody could fill its cohort, nor that of any epoch behind it: they are left for when there is room again.
		if room := s.room(); a.Plan.Panel == nil && room < int(a.Cohort.Minimum) {
			return no(wire.RefusalCapacity, "epoch %d needs %d devices that were in no cohort, and %d more can be "+
				"remembered",
				a.Epoch, a.Cohort.Minimum, max(0, room))
		}
		if terms := termsOf(a.Plan); s.begun && !s.terms.same(terms) {
			return no(wire.RefusalWeakPlan, "epoch %d is announced with %v; the epochs before had %v: whether there "+
				"are panels, from how many devices they are drawn and how often a device may be in one cannot change",
				a.Epoch, terms, s.terms)
		}
		if m := a.Cohort.Minimum; m < s.minimum {
			return no(wire.RefusalWeakPlan,
				"epoch %d announces a minimum cohort of %d, this shuffler releases no fewer than %d",
				a.Epoch, m, s.minimum)
		}
		if a.Cohort.Minimum > a.Cohort.Size {
			return no(wire.RefusalMalformed, "epoch %d announces a minimum cohort of %d and only %d slots",
				a.Epoch, a.Cohort.Minimum, a.Cohort.Size)
		}
		if err := s.fits(a, l); err != nil {
			return nil, err
		}
	}
	return open, nil
}

// room is how many devices can be enrolled as they arrive in the epochs behind the latest one.
func (s *State) room() int {
	room := s.capacity - s.arrived
	if s.epoch != nil && s.epoch.drawing == nil {
		room -= s.epoch.slots.len()
	}
	return room
}

// atCapacity says why no further device is let in.
const atCapacity = "the shuffler remembers %d devices, as many as admission.devices lets in"

// Enrol decides on a device's request to take part, made under the announcement with the given digest; by is the issuer
// that lets it in, nil for the registrar. A device that already holds a slot of the open cohort is told it again, with
// no event. Of a panel, whoever is drawn holds a slot.
func (s *State) Enrol(id DeviceID, by *wire.IssuerCertificate, number uint64, seen Digest, now time.Time) (
	slot uint32, reportAt time.Time, ev *Event, err error,
) {
	no := func(reason wire.Refusal, format string, a ...any) (uint32, time.Time, *Event, error) {
		return 0, time.Time{}, nil, Refuse(reason, format, a...)
	}
	e := s.epoch
	if e == nil || e.number != number {
		var open uint64
		if e != nil {
			open = e.number
		}
		return no(wire.RefusalWrongEpoch, "epoch %d is not open; the open one is %d", number, open)
	}
	if e.rounds[0].digest != seen {
		return no(wire.RefusalWrongAnnouncement, "the device saw digest %x, epoch %d was opened with %x",
			seen[:8], number, e.rounds[0].digest[:8])
	}
	if e.drawing != nil {
		slot, reportAt, err = s.member(id)
		return slot, reportAt, nil, err
	}
	if i, ok := s.slotOf(id); ok {
		return i, e.dueAt(i), nil, nil
	}
	held := s.holds(e, id, by)
	switch {
	case s.before(id):
		return no(wire.RefusalAlreadyEnrolled, "the device was in the cohort of an earlier epoch")
	case e.slots.len() >= int(e.size):
		return no(wire.RefusalCohortFull, "all %d slots of epoch %d are taken", e.size, number)
	case e.slots.len() >= e.room:
		return no(wire.RefusalCapacity, atCapacity, s.capacity)
	case e.closed(now):
		return no(wire.RefusalEnrolmentClosed, "enrolment of epoch %d is over", number)
	case held >= channel.SponsorQuota(s.share, e.size):
		return no(wire.RefusalSponsorShare, "the sponsor holds %d of the %d slots of epoch %d, as many as one may",
			held, e.size, number)
	case s.crowded(held):
		return no(wire.RefusalSponsorShare, "the sponsor holds %d of the %d slots of epoch %d, and the broker keeps "+
			"no more reports of one host", held, e.size, number)
	case s.issuers.exhausted(by):
		return no(wire.RefusalIssuerFull, exhausted, by.Installations)
	}
	slot = uint32(e.slots.len())
	reportAt = now.Add(e.window() + e.jitter(slot)).Truncate(time.Millisecond)
	ev = &Event{Enrolled: &Enrolled{
		Host: id.Host[:], Device: id.Number, Issuer: issuerKey(by), ReportAt: reportAt.UnixMilli(),
	}}
	return slot, reportAt, ev, nil
}

// Make makes a decision, and the event that it gives part of the state. broken says that no decision can have given it.
func (s *State) Make(decide func(*State) (*Event, error)) (ev *Event, refused, broken error) {
	if ev, refused = decide(s); refused != nil || ev == nil {
		return nil, refused, nil
	}
	return ev, nil, s.Apply(ev)
}

// Report is a report that was opened and verified to come from a device, at its place in the stream of reports.
type Report struct {
	Device            DeviceID
	Epoch             uint64
	Round, Slot       uint32
	Announced, Digest Digest
	Sequence          uint64
}

// Decide is Admit of the report.
func (r *Report) Decide(s *State) (*Event, error) {
	return s.Admit(r.Device, r.Epoch, r.Round, r.Slot, r.Announced, r.Digest, r.Sequence)
}

// Admit decides on a report that was opened and verified to come from id, and that is at sequence in the stream of
// reports. The same report at the same place gives no event and no error; the same report at another place is a copy.
func (s *State) Admit(
	id DeviceID, number uint64, roundNumber uint32, slot uint32, announced, digest Digest, sequence uint64,
) (*Event, error) {
	e := s.epoch
	if e == nil || e.number != number || int(roundNumber) >= len(e.rounds) {
		if e != nil && number < e.number {
			return nil, Refuse(wire.RefusalLate, "epoch %d is over", number)
		}
		return nil, Refuse(wire.RefusalWrongEpoch, "round %d of epoch %d is not open", roundNumber, number)
	}
	r := e.rounds[roundNumber]
	if r.digest != announced {
		return nil, Refuse(wire.RefusalWrongAnnouncement, "the report was made for digest %x, the round admits %x",
			announced[:8], r.digest[:8])
	}
	if at, ok := s.slotOf(id); !ok || at != slot {
		return nil, Refuse(wire.RefusalNotEnrolled, "slot %d of epoch %d is not this device's", slot, number)
	}
	if roundNumber > 0 {
		if e.rounds[roundNumber-1].reports.get(slot) == nil {
			return nil, Refuse(wire.RefusalNotEnrolled, "slot %d dropped out before round %d", slot, roundNumber)
		}
	}
	if _, ok := r.excluded[slot]; ok {
		return nil, Refuse(wire.RefusalRepeatedMessage,
			"slot %d: its report repeated a message, and no other is taken", slot)
	}
	if known := r.reports.get(slot); known != nil {
		if known.digest == digest && known.sequence() == sequence {
			return nil, nil // the stream delivers the admitted report again
		}
		if known.digest == digest {
			return nil, Refuse(wire.RefusalDuplicate, "slot %d: a copy of its report", slot)
		}
		return nil, Refuse(wire.RefusalAlreadyReported, "slot %d: a second, different report", slot)
	}
	if r.outcome != wire.Undecided {
		return nil, Refuse(wire.RefusalLate, "slot %d: membership of round %d is committed", slot, roundNumber)
	}
	return &Event{Admitted: &Admitted{Round: roundNumber, Slot: slot, Digest: digest[:], Sequence: sequence}}, nil
}

// slotOf is the slot of the latest cohort that a device holds.
func (s *State) slotOf(id DeviceID) (slot uint32, ok bool) {
	key, ok := s.keyOf(s.epoch, id)
	if ok {
		slot, ok = s.epoch.slotOf[key]
	}
	return slot, ok
}

// tells notes a time at which an event was decided.
func (s *told) tells(at time.Time) {
	if at.After(s.clock) {
		s.clock = at
	}
}

// DefaultDevices is how many devices the shuffler remembers at most unless it is configured. One of a host that has
// thousands takes less than a byte of memory for ever, an installation 20 bytes or, where it registers, 40. One that
// is alone on a host that the registrar let in takes some 150 bytes, and the registrar could let in only such: 600 MB,
// in the worst case.
const DefaultDevices = 4_000_000

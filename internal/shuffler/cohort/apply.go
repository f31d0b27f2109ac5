package cohort

import (
	"fmt"
	"time"

	"github.com/riffle-dp/riffle/pkg/wire"
)

// Apply makes the event part of the state. It fails only on an event that no decision on this state can have made, as
// from a journal that was tampered with or belongs to another shuffler.
func (s *State) Apply(ev *Event) error {
	switch {
	case ev.Opened != nil:
		return s.applyOpened(ev.Opened)
	case ev.Snapshot != nil:
		return s.applySnapshot(ev.Snapshot)
	case ev.Keys != nil:
		s.keys = *ev.Keys
	case ev.Registered != nil:
		return s.applyRegistered(ev.Registered)
	case s.epoch == nil:
		return fmt.Errorf("shuffler event %s before any epoch was opened", ev.Encode())
	case ev.Enrolled != nil:
		id := DeviceID{Number: ev.Enrolled.Device}
		if copy(id.Host[:], ev.Enrolled.Host) != len(id.Host) {
			return fmt.Errorf("enrolment event: host key has %d bytes", len(ev.Enrolled.Host))
		}
		e := s.epoch
		if e.drawing != nil {
			return fmt.Errorf("enrolment event: the cohort of epoch %d is drawn", e.number)
		}
		if slot, ok := s.slotOf(id); ok {
			return fmt.Errorf("enrolment event: the device has slot %d of epoch %d already", slot, e.number)
		}
		at := time.UnixMilli(ev.Enrolled.ReportAt)
		by, err := issuerOf(ev.Enrolled.Issuer)
		if err != nil {
			return fmt.Errorf("enrolment event: %w", err)
		}
		s.tells(at.Add(-e.window() - e.jitter(uint32(e.slots.len()))))
		if by != nil {
			s.issuers.admit(*by)
			s.enter(id, *by, true, at)
		} else {
			s.enter(id, sponsor(id.Host), false, at)
		}
		s.requests.grant(id, ev.Enrolled.Nonce)
		if at.After(e.last) {
			e.last = at
		}
	case ev.Pooled != nil:
		return s.applyPooled(ev.Pooled)
	case ev.Drawn != nil:
		return s.applyDrawn(ev.Drawn)
	case ev.Admitted != nil:
		r, err := s.round(ev.Admitted.Round)
		if err != nil {
			return err
		}
		var digest Digest
		if copy(digest[:], ev.Admitted.Digest) != len(digest) {
			return fmt.Errorf("admission event: digest has %d bytes", len(ev.Admitted.Digest))
		}
		slot := ev.Admitted.Slot
		_, out := r.excluded[slot]
		if out || int(slot) >= s.epoch.slots.len() || r.reports.get(slot) != nil || r.outcome != wire.Undecided {
			return fmt.Errorf("admission event: slot %d is nobody's, or cannot be admitted any more", slot)
		}
		r.reports.put(slot, ev.Admitted.Sequence, digest)
	case ev.Excluded != nil:
		r, err := s.round(ev.Excluded.Round)
		if err != nil {
			return err
		}
		if r.outcome != wire.Undecided {
			return fmt.Errorf("exclusion event: round %d is committed already", ev.Excluded.Round)
		}
		return r.exclude(ev.Excluded)
	case ev.Rejected != nil:
		r, err := s.round(ev.Rejected.Round)
		if err != nil {
			return err
		}
		if r.outcome != wire.Released || r.done {
			return fmt.Errorf("rejection event: round %d is not being released", ev.Rejected.Round)
		}
		return r.exclude(ev.Rejected)
	case ev.Committed != nil:
		r, err := s.round(ev.Committed.Round)
		if err != nil {
			return err
		}
		if r.outcome != wire.Undecided && ev.Committed.Outcome != wire.Destroyed {
			return fmt.Errorf("commit event: round %d is committed already", ev.Committed.Round)
		}
		if !decided(ev.Committed.Outcome) {
			return fmt.Errorf("commit event: round %d has no outcome %d", ev.Committed.Round, ev.Committed.Outcome)
		}
		if r.outcome == wire.Undecided {
			r.refused = ev.Committed.Refused
		}
		r.outcome, r.left = ev.Committed.Outcome, ev.Committed.Left
		s.epoch.destroyed = r.outcome == wire.Destroyed
	case ev.Finished != nil:
		r, err := s.round(ev.Finished.Round)
		if err != nil {
			return err
		}
		if r.outcome == wire.Undecided {
			return fmt.Errorf("finish event: round %d is not committed", ev.Finished.Round)
		}
		r.done = true
		s.finish(ev.Finished.Round)
	case ev.Adopted != nil:
		r, err := s.round(ev.Adopted.Round)
		if err != nil {
			return err
		}
		if r.done {
			return fmt.Errorf("adoption event: round %d is over already", ev.Adopted.Round)
		}
		if !decided(ev.Adopted.Outcome) {
			return fmt.Errorf("adoption event: round %d has no outcome %d", ev.Adopted.Round, ev.Adopted.Outcome)
		}
		r.outcome, r.left, r.done, r.adopted = ev.Adopted.Outcome, ev.Adopted.Left, true, ev.Adopted
		if !ev.Adopted.Members {
			r.reports = reports{}
		}
		s.epoch.destroyed = r.outcome == wire.Destroyed
		s.finish(ev.Adopted.Round)
	case ev.Passed != nil:
		s.tells(time.UnixMilli(ev.Passed.At))
	default:
		return fmt.Errorf("shuffler event of unknown kind")
	}
	return nil
}

// finish enters a round among those that are over.
func (s *State) finish(n uint32) {
	e := s.epoch
	r := e.rounds[n]
	over := Ended{e.number, n, r.outcome, e.slots.len(), r.reports.count, r.layout.Messages, r.left}
	if a := r.adopted; a != nil {
		over.Enrolled, over.Reports = int(a.Enrolled), int(a.Reports)
	}
	s.over = append(s.over, over)
}

// decided reports whether it is how a round can end.
func decided(o wire.Outcome) bool { return o == wire.Released || o == wire.Destroyed }

func (s *State) applyOpened(o *Opened) error {
	r := &round{
		opened: time.UnixMilli(o.At), layout: o.Layout, excluded: map[uint32]wire.Refusal{},
	}
	if copy(r.digest[:], o.Digest) != len(r.digest) {
		return fmt.Errorf("opening event: digest has %d bytes", len(o.Digest))
	}
	if o.Panel != nil && o.Panel.Records < 1 {
		return fmt.Errorf("opening event: epoch %d has panels in which a device may never be", o.Epoch)
	}
	if e := s.epoch; e != nil && o.Epoch < e.number {
		return fmt.Errorf("opening event: epoch %d after epoch %d", o.Epoch, e.number)
	}
	s.tells(r.opened)
	if e := s.epoch; e != nil && e.number == o.Epoch {
		if int(o.Round) != len(e.rounds) {
			return fmt.Errorf("opening event: round %d of epoch %d after %d rounds", o.Round, o.Epoch, len(e.rounds))
		}
		e.rounds = append(e.rounds, r)
		return nil
	}
	if e := s.epoch; e != nil && e.drawing == nil {
		for i := range e.slots.len() {
			s.leaves(e, e.slots.at(i).device)
		}
		s.arrived += e.slots.len()
	}
	s.requests.turn()
	s.epoch = &epoch{
		number: o.Epoch, size: o.Size, minimum: o.Minimum, timing: o.Timing.announced(), opened: r.opened,
		last:    r.opened,
		planned: o.Rounds, room: s.capacity - s.arrived, slotOf: map[deviceKey]uint32{}, rounds: []*round{r},
		final: o.Final, issued: map[sponsor]int{}, visitors: newHosts(),
	}
	if o.Final {
		return nil
	}
	s.begun, s.terms = true, o.Panel
	if o.Panel != nil {
		s.epoch.drawing = &drawing{commitment: o.Commitment}
	}
	return nil
}

// exclude takes reports out of the round.
func (r *round) exclude(ev *Excluded) error {
	if n := len(ev.Reasons); n != len(ev.Slots) {
		return fmt.Errorf("exclusion event: %d reasons for %d slots", n, len(ev.Slots))
	}
	for i, slot := range ev.Slots {
		if r.reports.get(slot) == nil {
			return fmt.Errorf("exclusion event: slot %d has no report", slot)
		}
		r.reports.remove(slot)
		r.excluded[slot] = ev.Reasons[i]
	}
	return nil
}

// issuerOf is the issuer of an event; nil where it has none.
func issuerOf(key []byte) (*sponsor, error) {
	if len(key) == 0 {
		return nil, nil
	}
	by := new(sponsor)
	if copy(by[:], key) != len(by) || len(key) != len(by) {
		return nil, fmt.Errorf("issuer key has %d bytes", len(key))
	}
	return by, nil
}

func (s *State) round(n uint32) (*round, error) {
	if s.epoch == nil || int(n) >= len(s.epoch.rounds) {
		return nil, fmt.Errorf("shuffler event about round %d, which is not open", n)
	}
	return s.epoch.rounds[n], nil
}

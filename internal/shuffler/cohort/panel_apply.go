package cohort

import (
	"fmt"
	"time"
)

func (s *State) applyRegistered(r *Registered) error {
	id := DeviceID{Number: r.Device}
	if copy(id.Host[:], r.Host) != len(id.Host) {
		return fmt.Errorf("registration event: host key has %d bytes", len(r.Host))
	}
	if s.Holds(id) {
		return fmt.Errorf("registration event: device %d is registered already", r.Device)
	}
	by, err := issuerOf(r.Issuer)
	if err != nil {
		return fmt.Errorf("registration event: %w", err)
	}
	if by == nil {
		s.enlist(id)
	} else {
		s.issuers.admit(*by)
		s.enlistIssued(*by, id.Host)
	}
	s.requests.grant(id, r.Nonce)
	return nil
}

func (s *State) applyPooled(p *Pooled) error {
	e := s.epoch
	if e.drawing == nil || e.drawing.pool != nil || len(p.Digest) != len(Digest{}) {
		return fmt.Errorf("pool event: epoch %d has no pool to fix, or its digest has %d bytes", e.number,
			len(p.Digest))
	}
	fixed := p.ready
	if fixed == nil {
		all, by := s.drawable(e.number), []sponsor(nil)
		if p.Quota > 0 {
			all, by = within(all, s.sponsors(all), int(p.Quota))
		}
		if len(all) != int(p.Registered) {
			return fmt.Errorf("pool event: %d devices can be drawn in epoch %d, the event says %d",
				len(all), e.number, p.Registered)
		}
		fixed = poolOf(all, by)
	}
	fixed.Pooled = *p
	fixed.ready = nil
	e.drawing.pool = fixed
	s.tells(time.UnixMilli(p.At))
	return nil
}

func (s *State) applyDrawn(d *Drawn) error {
	e := s.epoch
	if !e.awaiting() || e.drawing.pool == nil {
		return fmt.Errorf("draw event: no panel of epoch %d is to be drawn", e.number)
	}
	drawn := d.panel
	if drawn == nil || d.pool != e.drawing.pool {
		drawn = e.drawing.pool.panel(d.Contribution, int(e.size))
	}
	at := time.UnixMilli(d.At)
	s.tells(at)
	for i, d := range drawn {
		by, issued := s.sponsor(DeviceID(d))
		s.enter(DeviceID(d), by, issued, at.Add(e.window()+e.jitter(uint32(i))))
	}
	e.last = at.Add(e.window() + e.timing.Jitter) // whichever slots there are
	e.drawing.draw = d.Statement
	s.history.add(e.number, drawn, s.terms)
	return nil
}

// enter gives the next slot of the open cohort to a device, for which by answers: an issuer, or its host.
func (s *State) enter(id DeviceID, by sponsor, issued bool, reportAt time.Time) {
	e := s.epoch
	key := s.place(e, id, issued)
	e.slotOf[key] = uint32(e.slots.len())
	e.slots.add(slot{key, reportAt.UnixMilli()})
	if issued || key.host&visiting != 0 {
		e.issued[by]++
		e.largest = max(e.largest, e.issued[by])
		return
	}
	for e.held.len() <= int(key.host) {
		e.held.add(0)
	}
	held := e.held.at(int(key.host))
	*held++
	e.largest = max(e.largest, int(*held))
}

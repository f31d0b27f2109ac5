package shuffler

import (
	"fmt"
	"time"

	"github.com/riffle-dp/riffle/pkg/panel"
)

// Registered enters a device among those that panels are drawn from.
type Registered struct {
	Host   []byte `json:"host"`
	Device uint32 `json:"device"`
	Nonce  uint32 `json:"nonce"` // of the device's wish
}

// Pooled fixes whom the panel of the open epoch is drawn from: the devices that are registered by now and may be in
// another panel. They follow from the events before it.
type Pooled struct {
	At         int64  `json:"at_ms"` // by the shuffler's clock
	Registered uint32 `json:"registered"`
	Quota      uint32 `json:"quota,omitempty"` // devices of one host at most; 0: no limit
	Statement  []byte `json:"statement"`       // the signed pool, which leaves as it stands here
	Digest     []byte `json:"digest"`          // of it

	ready *pool // made of the event's devices beforehand; nil: it is made when the event is applied
}

// Drawn draws the panel. It is a function of the pool and of the analyzer's contribution.
type Drawn struct {
	At           int64  `json:"at_ms"` // by the shuffler's clock: from then on the reward window runs
	Contribution []byte `json:"contribution"`
	Statement    []byte `json:"statement"` // of the analyzer, as it goes to devices

	panel []panel.Device // drawn beforehand; nil: it is drawn when the event is applied
}

func (s *State) applyRegistered(r *Registered) error {
	id := DeviceID{Number: r.Device}
	if copy(id.Host[:], r.Host) != len(id.Host) {
		return fmt.Errorf("registration event: host key has %d bytes", len(r.Host))
	}
	if s.registered.has(id) {
		return fmt.Errorf("registration event: device %d is registered already", r.Device)
	}
	s.enlist(id)
	s.wishes.grant(id, r.Nonce)
	return nil
}

func (s *State) applyPooled(p *Pooled) error {
	e := s.epoch
	if e.drawing == nil || e.drawing.pool != nil || len(p.Digest) != len(Digest{}) {
		return fmt.Errorf("pool event: epoch %d has no pool to fix, or its digest has %d bytes", e.number, len(p.Digest))
	}
	fixed := p.ready
	if fixed == nil {
		all := s.drawable(int(p.Quota))
		if len(all) != int(p.Registered) {
			return fmt.Errorf("pool event: %d devices can be drawn in epoch %d, the event says %d",
				len(all), e.number, p.Registered)
		}
		fixed = poolOf(all, int(p.Quota))
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
	if drawn == nil {
		drawn = e.drawing.pool.panel(d.Contribution, int(e.size))
	}
	at := time.UnixMilli(d.At)
	s.tells(at)
	for i, d := range drawn {
		s.enter(DeviceID(d), at.Add(e.window()+e.jitter(uint32(i))))
	}
	e.last = at.Add(e.window() + e.timing.Jitter) // whichever slots there are
	e.drawing.draw = d.Statement
	s.history.add(e.number, drawn, s.terms)
	return nil
}

// panel is the panel of a pool under the analyzer's contribution.
func (p *pool) panel(contribution []byte, size int) []panel.Device {
	all := make([]panel.Device, 0, p.Registered)
	p.devices.each(func(id DeviceID) { all = append(all, panel.Device(id)) })
	return panel.NewSeed(Digest(p.Digest), contribution).Panel(all, size)
}

// enter gives the next slot of the open cohort to a device.
func (s *State) enter(id DeviceID, reportAt time.Time) {
	e := s.epoch
	key := deviceKey{s.hosts.add(id.Host), id.Number}
	e.slotOf[key] = uint32(e.slots.len())
	e.slots.add(slot{key, reportAt.UnixMilli()})
	for e.held.len() <= int(key.host) {
		e.held.add(0)
	}
	held := e.held.at(int(key.host))
	*held++
	e.largest = max(e.largest, int(*held))
}

package cohort

import (
	"time"

	"github.com/riffle-dp/riffle/pkg/wire"
)

// Request is a device's request to take part in an epoch.
type Request struct {
	Device       DeviceID
	By           *wire.IssuerCertificate // that lets it in; nil: the registrar
	Epoch        uint64
	Announcement Digest // that the device saw
	Nonce        uint32
	Together     int // devices of the request
}

// Given is what a device is told of its request.
type Given struct {
	Slot     uint32
	ReportAt time.Time
	// Held says that the device held the slot before it asked, because of another request. Of a panel, which is drawn
	// before anyone asks, a device held its slot if it has reported.
	Held       bool
	Pool, Draw []byte // the signed statements of the panel; nil where there is none
}

// Grant decides on a device's request, as Enrol does, and remembers to which request a slot was given.
func (s *State) Grant(r Request, now time.Time) (g Given, ev *Event, err error) {
	panels := s.epoch != nil && s.epoch.drawing != nil
	if r.Together > 1 && panels {
		return g, nil, Refuse(wire.RefusalMalformed, "one request for %d devices, where panels are drawn", r.Together)
	}
	if r.Nonce == 0 && !panels {
		return g, nil, Refuse(wire.RefusalMalformed, "a request without a nonce")
	}
	g.Slot, g.ReportAt, ev, err = s.Enrol(r.Device, r.By, r.Epoch, r.Announcement, now)
	if ev != nil {
		ev.Enrolled.Nonce = r.Nonce
	}
	g.Held = ev == nil && !s.requests.granted(r.Device, r.Nonce)
	if g.Pool, g.Draw = s.statements(); g.Pool != nil {
		g.Held = err == nil && s.Reported(g.Slot)
	}
	return g, ev, err
}

// Enter decides on a device's request to be among those that panels are drawn from, as Register does, and remembers to
// which request a place was given. held says that the device was among them before, because of another request.
func (s *State) Enter(id DeviceID, by *wire.IssuerCertificate, nonce uint32) (held bool, ev *Event, err error) {
	held, ev, err = s.Register(id, by)
	if ev != nil {
		ev.Registered.Nonce = nonce
	}
	return held && !s.requests.granted(id, nonce), ev, err
}

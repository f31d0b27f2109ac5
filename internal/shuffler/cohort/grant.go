package cohort

import (
	"time"

	"github.com/riffle-dp/riffle/pkg/wire"
)

// Wish is a device's wish to take part in an epoch.
type Wish struct {
	Device       DeviceID
	Epoch        uint64
	Announcement Digest // that the device saw
	Nonce        uint32
	Together     int // devices of the request
}

// Given is what a device is told of its wish.
type Given struct {
	Slot     uint32
	ReportAt time.Time
	// Held says that the device held the slot before it asked, because of another wish. Of a panel, which is drawn
	// before anyone asks, a device held its slot if it has reported.
	Held       bool
	Pool, Draw []byte // the signed statements of the panel; nil where there is none
}

// Grant decides on a device's wish, as Enrol does, and remembers to which wish a slot was given.
func (s *State) Grant(w Wish, now time.Time) (g Given, ev *Event, err error) {
	panels := s.epoch != nil && s.epoch.drawing != nil
	if w.Together > 1 && panels {
		return g, nil, Refuse(wire.RefusalMalformed, "one request for %d devices, where panels are drawn", w.Together)
	}
	if w.Nonce == 0 && !panels {
		return g, nil, Refuse(wire.RefusalMalformed, "a wish without a nonce")
	}
	g.Slot, g.ReportAt, ev, err = s.Enrol(w.Device, w.Epoch, w.Announcement, now)
	if ev != nil {
		ev.Enrolled.Nonce = w.Nonce
	}
	g.Held = ev == nil && !s.wishes.granted(w.Device, w.Nonce)
	if g.Pool, g.Draw = s.statements(); g.Pool != nil {
		g.Held = err == nil && s.Reported(g.Slot)
	}
	return g, ev, err
}

// Enter decides on a device's wish to be among those that panels are drawn from, as Register does, and remembers to
// which wish a place was given. held says that the device was among them before, because of another wish.
func (s *State) Enter(id DeviceID, nonce uint32) (held bool, ev *Event, err error) {
	held, ev, err = s.Register(id)
	if ev != nil {
		ev.Registered.Nonce = nonce
	}
	return held && !s.wishes.granted(id, nonce), ev, err
}

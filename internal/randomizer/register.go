package randomizer

import (
	"fmt"

	"github.com/riffle-dp/riffle/pkg/device"
)

// Register names a device to the host, so that panels can be drawn of it from then on. registered reports whether the
// shuffler has confirmed that already; why says for what reason the device cannot be registered now. Where devices
// enrol as they arrive it does nothing.
func (h *Host) Register(name string) (registered bool, why, err error) {
	h.mu.Lock()
	known, panels := h.pinned != "", h.panels
	h.mu.Unlock()
	if h.c.DryRun {
		return false, rehearsed(nil), nil
	}
	if known && !panels {
		return false, nil, nil
	}
	a, why, err := h.enrolling()
	if err != nil { // no policy yet: whoever is named now registers under the first one
		a, why = nil, nil
	}
	seat, why, err := h.named(name, a, why)
	if err != nil || seat == nil {
		return false, why, err
	}
	if err := h.remember(seat); err != nil {
		return false, nil, fmt.Errorf("the device's name cannot be kept: %w", err)
	}
	return seat.now().Registered(), why, nil
}

// remember makes a device's name durable, so that the next process registers it where this one did not come so far.
func (h *Host) remember(s *seat) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stored {
		return nil
	}
	return h.keep(s, s.state)
}

// named finds a device's place on this host, or gives it one, and registers it if panels are drawn. a and why are what
// enrolling says; a is nil where there is no policy yet. Where no device registers, one that is not known gets no place,
// and none says for what reason.
func (h *Host) named(name string, a *device.Announced, why error) (s *seat, none, err error) {
	switch reasonOf(why) {
	case FinalPolicy, PlanRefused, StateRolledBack:
		return h.known(name), why, nil
	}
	s, fresh, none, err := h.seat(name)
	if err != nil || none != nil {
		return nil, none, err
	}
	if fresh && a != nil {
		h.attend(a, s)
	}
	return s, nil, nil
}

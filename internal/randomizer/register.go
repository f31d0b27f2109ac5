package randomizer

import (
	"fmt"

	"github.com/riffle-dp/riffle/pkg/device"
)

// Register names a device to the host, so that panels can be drawn of it from then on. registered reports whether the
// shuffler has confirmed that already; why says for what reason the device cannot be registered now. Where devices
// enrol as they arrive it does nothing.
func (m *decisions) Register(name string) (registered bool, why, err error) {
	m.mu.Lock()
	known, drawing := m.pinned != "", m.drawing
	m.mu.Unlock()
	if m.c.DryRun {
		return false, notInDryRun(nil), nil
	}
	if known && !drawing {
		return false, nil, nil
	}
	a, why, err := m.enrolling()
	if err != nil { // no policy yet: whoever is named now registers under the first one
		a, why = nil, nil
	}
	dev, why, err := m.take(name, a, why)
	if err != nil || dev == nil {
		return false, why, err
	}
	if err := m.remember(dev); err != nil {
		return false, nil, fmt.Errorf("the device's name cannot be kept: %w", err)
	}
	return dev.now().Registered(), why, nil
}

// remember makes a device's name durable, so that the next process registers it where this one did not come so far.
func (m *decisions) remember(dev *localDevice) error {
	dev.mu.Lock()
	defer dev.mu.Unlock()
	if dev.stored {
		return nil
	}
	return m.keep(dev, dev.state)
}

// take finds a device's place on this host, or gives it one, and registers it if panels are drawn. a and why are what
// enrolling says; a is nil where there is no policy yet. Where no device registers, one that is not known gets no
// place, and none says for what reason.
func (m *decisions) take(name string, a *device.Announced, why error) (dev *localDevice, none, err error) {
	switch reasonOf(why) {
	case FinalPolicy, PlanRefused, StateRolledBack:
		return m.places.get(name), why, nil
	}
	if m.places.isOut(m.store.Key(name)) { // who opted out takes no place
		return m.places.get(name), optedOut, nil
	}
	dev, fresh, none, err := m.places.find(name)
	if err != nil || none != nil {
		return nil, none, err
	}
	if fresh && a != nil {
		m.panels.attend(a, dev)
	}
	return dev, nil, nil
}

package randomizer

import (
	"fmt"
	"time"

	"github.com/riffle-dp/riffle/pkg/wire"
)

// patientAsks is how often all devices of a host together ask for a registration that was refused, at most.
const patientAsks = 50 // a second

// register asks once for the device's registration. again is 0 where the device is registered.
func (p *panels) register(dev *localDevice, t *task) (again time.Duration, err error) {
	if !dev.now().Registered() && !p.attendance.lets(t, 0) {
		return inTurn, nil
	}
	dev.mu.Lock()
	state := dev.state
	if state.Registration == nil && p.places.isOut(dev.name) { // one that is registered cannot take it back
		dev.why = optedOut
		dev.mu.Unlock()
		return never, nil
	}
	asking := state.Register()
	t.heard = t.heard || state.Registering() // by an earlier process, or under an earlier announcement
	if !state.Registered() && !state.Registering() {
		err = p.keep(dev, asking)
	}
	dev.mu.Unlock()
	if err != nil {
		return never, fmt.Errorf("the device's request to be registered cannot be kept: %w", err)
	}
	if state.Registered() {
		return 0, nil
	}
	request, err := p.rules.Registration(asking)
	if err != nil {
		return never, err
	}
	signed, err := p.line.exchange(p.life, request)
	var r *wire.EnrolReply
	again = inTurn
	if err == nil {
		if r, err = p.rules.Registered(request, signed); err != nil {
			again = t.later()
		}
	}
	switch {
	case err == nil && r.Refusal != wire.RefusalWrongEpoch: // else the shuffler is not ready
		p.attendance.noteAnswer()
		ok, err := p.confirm(dev, r, signed, t.heard)
		if ok || err != nil {
			return 0, err
		}
		t.heard = false
		return p.refusedPause(), nil
	case err != nil && !isUnheard(err):
		t.heard = true
	}
	if again == inTurn {
		p.attendance.noteSilence()
	}
	if !t.heard { // so that what is kept says no more than what the shuffler can have heard
		return again, p.giveUp(dev, t)
	}
	return again, nil
}

// giveUp takes back the request to be registered of which the shuffler has not heard.
func (p *panels) giveUp(dev *localDevice, t *task) error {
	if t.step != registering || t.heard {
		return nil
	}
	dev.mu.Lock()
	defer dev.mu.Unlock()
	if !dev.state.Registering() {
		return nil
	}
	return p.keep(dev, dev.state.Unasked())
}

// confirm makes the answer to a registration durable.
func (p *panels) confirm(dev *localDevice, r *wire.EnrolReply, signed []byte, heard bool) (ok bool, err error) {
	if did := dev.now().Unregistered(r, heard); did != "" {
		_, err := p.rollback.prove(fmt.Sprintf("the shuffler %s (device %d)", did, dev.now().Number))
		return false, err
	}
	dev.mu.Lock()
	defer dev.mu.Unlock()
	if !r.Enrolled {
		dev.why = because(NotAdmitted, "the shuffler does not register the device: %s", r.Refusal)
		return false, p.keep(dev, dev.state.Unregister())
	}
	if err := p.keep(dev, dev.state.Confirm(signed)); err != nil {
		return false, fmt.Errorf("the registration cannot be kept: %w", err)
	}
	p.mu.Lock()
	p.registered++
	p.mu.Unlock()
	return true, nil
}

// refusedPause is how long a device waits before it asks again for a registration that was refused: an epoch waits for
// registrations, so that no other occasion need come, and the reason may pass.
func (p *panels) refusedPause() time.Duration {
	return max(longestPause, time.Duration(p.places.count())*time.Second/patientAsks)
}

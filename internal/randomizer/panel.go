package randomizer

import (
	"errors"
	"fmt"
	"time"

	"github.com/riffle-dp/riffle/internal/bus"
	"github.com/riffle-dp/riffle/pkg/device"
	"github.com/riffle-dp/riffle/pkg/panel"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// Where panels are drawn, each device registers once, and asks in each epoch whether it is in the panel: when the
// announcement comes, and again until there is an answer. Nothing that a person does has a part in when it asks. A
// decision asks nothing.

// patientAsks is how often all devices of a host together ask for a panel that is not drawn yet, at most.
const patientAsks = 50 // a second

// askPause is how long a device waits before it asks again for a panel that is not drawn yet: a sixteenth of the reward
// window, between 20 ms and a minute, and longer on a host of many devices. As soon as one of them has an answer the
// others ask at once.
func askPause(a *device.Announced, devices int) time.Duration {
	pause := min(max(a.Timing.RewardWindow/16, 20*time.Millisecond), time.Minute)
	return max(pause, time.Duration(devices)*time.Second/patientAsks)
}

// refusedPause is how long a device waits before it asks again for a registration that was refused: an epoch waits for
// registrations, so that no other occasion need come, and the reason may pass, as with a shuffler of an earlier version.
func (h *Host) refusedPause() time.Duration {
	return max(longestPause, time.Duration(len(h.seats()))*time.Second/patientAsks)
}

// drawsPanels tells whether the deployment's cohorts are drawn from registered devices.
func (h *Host) drawsPanels() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.panels
}

// news is what a host has heard of the epoch's panel. The host's lock guards it.
type news struct {
	drawn   chan struct{} // closed at the first answer
	seed    panel.Seed    // zero before that
	reply   []byte        // the signed one that said so
	members int           // of the host's devices in the panel
}

// Register names a device to the host, so that panels can be drawn of it from then on. registered tells whether the
// shuffler has confirmed that already. Where devices enrol as they arrive it does nothing.
func (h *Host) Register(name string) (registered bool, err error) {
	h.mu.Lock()
	known, panels := h.pinned != "", h.panels
	h.mu.Unlock()
	if known && !panels {
		return false, nil
	}
	seat, err := h.named(name)
	if err != nil {
		return false, err
	}
	if err := h.remember(seat); err != nil {
		return false, fmt.Errorf("the device's name cannot be kept: %w", err)
	}
	return seat.now().Registered(), nil
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

// named finds a device's place on this host. A new one registers if panels are drawn.
func (h *Host) named(name string) (*seat, error) {
	s, fresh, err := h.seat(name)
	if err != nil || !fresh {
		return s, err
	}
	if a, _, err := h.enrolling(); err == nil {
		h.attend(a, s)
	}
	return s, nil
}

// attend has a device take part in the panels of an announcement. It comes after what it does under the one before.
func (h *Host) attend(a *device.Announced, s *seat) {
	s.mu.Lock()
	defer s.mu.Unlock()
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.panels || s.attended == a || h.life.Err() != nil {
		return
	}
	before, done := s.attending, make(chan struct{})
	s.attended, s.attending = a, done
	h.asking.Go(func() {
		defer close(done)
		if before != nil {
			<-before
		}
		if err := h.takePart(a, s); err != nil && h.life.Err() == nil {
			h.c.Log.Error().Err(err).Uint64("epoch", a.Epoch).Msg("a device takes no part in this epoch's panel")
		}
	})
}

// takePart ends what a device owes of earlier epochs, registers it, and asks for its place in the panel.
func (h *Host) takePart(a *device.Announced, s *seat) error {
	if err := h.tidy(a, s); err != nil {
		return err
	}
	over := h.over(a)
	if !a.Panels() || a.Weak != nil {
		return nil
	}
	for {
		ok, err := h.register(a, s, over)
		if err != nil {
			return err
		}
		if ok {
			break
		}
		if !h.pause(over, nil, h.refusedPause()) {
			return nil
		}
	}
	if !h.pause(over, nil, a.AskAfter(s.now().Number)) {
		return nil
	}
	return h.place(a, s, over)
}

// tidy drops what is open of earlier epochs, and takes back what was set aside for it.
func (h *Host) tidy(a *device.Announced, s *seat) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	h.mu.Lock()
	open := h.open[s.state.Number]
	h.mu.Unlock()
	if open != nil && open.epoch != a.Epoch {
		h.drop(open, EpochOver)
	}
	s.why = because(NotDrawn, "it is not known yet whether the device is in the panel of epoch %d", a.Epoch)
	next := s.state.Expire(a)
	if len(next.Ledger.Entries) == len(s.state.Ledger.Entries) {
		return nil
	}
	if err := h.keep(s, next); err != nil {
		return fmt.Errorf("what was set aside for earlier epochs cannot be taken back: %w", err)
	}
	return nil
}

// pause waits; it is false where the epoch is over, or the host stops. early, if not nil, ends it as well.
func (h *Host) pause(over, early <-chan struct{}, d time.Duration) bool {
	select {
	case <-over: // of two that are ready either may be picked
		return false
	default:
	}
	select {
	case <-h.c.Clock.After(d):
	case <-early:
	case <-over:
		return false
	case <-h.life.Done():
		return false
	}
	return true
}

// put puts a request to the shuffler once, a few at a time.
func (h *Host) put(request []byte) (signed []byte, err error) {
	if err := h.patient.Acquire(h.life, 1); err != nil {
		return nil, err
	}
	defer h.patient.Release(1)
	return h.c.Bus.EnrolOnce(h.life, request)
}

// register asks until the device is registered. ok is false where it is not: the epoch is over, or the shuffler refused.
func (h *Host) register(a *device.Announced, s *seat, over <-chan struct{}) (ok bool, err error) {
	s.mu.Lock()
	state := s.state
	heard := state.Registering() // by an earlier process, or under an earlier announcement
	if !state.Registered() && !heard {
		err = h.keep(s, state.Register())
	}
	s.mu.Unlock()
	if err != nil {
		return false, fmt.Errorf("the device's wish to be registered cannot be kept: %w", err)
	}
	if state.Registered() {
		return true, nil
	}
	request, err := h.core.Registration(state.Number)
	if err != nil {
		return false, err
	}
	for pause := firstPause; ; pause = min(2*pause, longestPause) {
		signed, err := h.put(request)
		var r *wire.EnrolReply
		if err == nil {
			r, err = h.core.Registered(request, signed)
		}
		switch {
		case err == nil && r.Refusal != wire.RefusalWrongEpoch: // else the shuffler is not ready
			return h.registered(s, r, signed, heard)
		case err != nil && !unheard(err):
			heard = true
		}
		if h.pause(over, nil, pause) {
			continue
		}
		if !heard {
			s.mu.Lock()
			defer s.mu.Unlock()
			return false, h.keep(s, s.state.Unregister())
		}
		return false, nil
	}
}

// unheard tells whether an error of the bus says that the shuffler did not hear a request.
func unheard(err error) bool {
	return errors.Is(err, bus.ErrNoShuffler) || errors.Is(err, bus.ErrForbidden) || errors.Is(err, bus.ErrTooLarge)
}

// registered makes the answer to a registration durable.
func (h *Host) registered(s *seat, r *wire.EnrolReply, signed []byte, heard bool) (ok bool, err error) {
	if did := s.now().Unregistered(r, heard); did != "" {
		_, err := h.provedOld(fmt.Sprintf("the shuffler %s (device %d)", did, s.now().Number))
		return false, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !r.Enrolled {
		s.why = because(NotAdmitted, "the shuffler does not register the device: %s", r.Refusal)
		return false, h.keep(s, s.state.Unregister())
	}
	if err := h.keep(s, s.state.Confirm(signed)); err != nil {
		return false, fmt.Errorf("the registration cannot be kept: %w", err)
	}
	h.mu.Lock()
	h.registeredHere++
	h.mu.Unlock()
	return true, nil
}

// place asks until it is known whether the device is in the panel.
func (h *Host) place(a *device.Announced, s *seat, over <-chan struct{}) error {
	s.mu.Lock()
	state := s.state
	next, err := state.Ask(a)
	switch {
	case state.Enrolment != nil && state.Enrolment.Epoch == a.Epoch: // an earlier process knew it
		s.why = because(WindowOver, "the report of epoch %d has left", a.Epoch)
		s.mu.Unlock()
		if !state.Owes(a) { // else recall went on with it
			h.joined(a)
		}
		return nil
	case err != nil:
		s.why = because(RecordUsed, "%v", err)
		s.mu.Unlock()
		return nil
	case !state.Asked(a.Epoch):
		err = h.keep(s, next)
	}
	s.mu.Unlock()
	if err != nil {
		return fmt.Errorf("the device's question cannot be kept: %w", err)
	}
	request, err := h.core.Request(a, state.Number)
	if err != nil {
		return err
	}
	h.mu.Lock()
	heard, devices := h.news, len(h.devices)
	h.mu.Unlock()
	early := heard.drawn
	for pause := firstPause; ; pause = min(2*pause, longestPause) {
		wait := pause
		signed, err := h.put(request)
		var r *wire.EnrolReply
		if err == nil {
			r, err = h.core.Reply(a, request, signed)
		}
		if err == nil && r.Refusal != wire.RefusalWrongEpoch {
			return h.placed(a, s, request, signed, r)
		}
		if err == nil { // the panel is not drawn yet
			wait = askPause(a, devices)
		}
		if !h.pause(over, early, wait) {
			return nil // what was set aside is taken back in the next epoch
		}
		select {
		case <-early: // from here on the answer is there
			early, pause = nil, firstPause
		default:
		}
	}
}

// placed makes a definite answer durable.
func (h *Host) placed(a *device.Announced, s *seat, request, signed []byte, r *wire.EnrolReply) error {
	state := s.now()
	if did := state.Contradicts(r, true); did != "" {
		_, err := h.provedOld(fmt.Sprintf("in epoch %d the shuffler %s (device %d)", a.Epoch, did, state.Number))
		return err
	}
	seed, err := h.core.Drawn(a, state, request, signed, r)
	if err == nil {
		err = h.heard(a, state.Number, seed, request, signed)
	}
	var proof *device.Evidence
	if errors.As(err, &proof) {
		if err := h.accuse(proof); err != nil {
			return err
		}
		return h.refused(a, s, r, because(NotAdmitted, "%v", proof))
	}
	if err != nil {
		return err
	}
	switch r.Refusal {
	case wire.NoRefusal:
		_, err := h.promise(a, s, r)
		if err == nil {
			h.joined(a)
		}
		return err
	case wire.RefusalNotDrawn:
		return h.refused(a, s, r, because(NotDrawn, "the device is not in the panel of epoch %d", a.Epoch))
	case wire.RefusalNotRegistered:
		return h.refused(a, s, r, because(NotDrawn, "the device registered after the panel of epoch %d was drawn from",
			a.Epoch))
	}
	return h.refused(a, s, r, because(NotAdmitted, "the shuffler refused: %s", r.Refusal))
}

// joined counts a device of this host in the panel.
func (h *Host) joined(a *device.Announced) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.current == a {
		h.news.members++
	}
}

// refused takes back what was set aside for a place that is not given.
func (h *Host) refused(a *device.Announced, s *seat, r *wire.EnrolReply, why error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.why = why
	next, err := s.state.Answered(a, r).Release(a)
	if err == nil {
		err = h.keep(s, next)
	}
	if err != nil {
		return fmt.Errorf("the shuffler's answer cannot be kept: %w", err)
	}
	return nil
}

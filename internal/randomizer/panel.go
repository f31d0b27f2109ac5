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
// announcement comes, and again until there is an answer (attendance). Nothing that a person does has a part in when it
// asks. A decision asks nothing.

const (
	// patientAsks is how often all devices of a host together ask for a registration that was refused, at most.
	patientAsks = 50 // a second
	// hostAsks is how long a host of many devices waits at least before one of them asks again for a panel that is not
	// drawn yet.
	hostAsks = time.Second
)

// askPause is how long a host waits before one of its devices asks again for a panel that is not drawn yet: a sixteenth
// of the reward window, between 20 ms and a minute; on a host of many devices, whose people wait together, no longer
// than a second.
func askPause(a *device.Announced, devices int) time.Duration {
	pause := min(max(a.Timing.RewardWindow/16, 20*time.Millisecond), time.Minute)
	return max(pause/time.Duration(max(1, devices)), min(pause, hostAsks))
}

// refusedPause is how long a device waits before it asks again for a registration that was refused: an epoch waits for
// registrations, so that no other occasion need come, and the reason may pass.
func (h *Host) refusedPause() time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	return max(longestPause, time.Duration(len(h.devices))*time.Second/patientAsks)
}

// drawsPanels reports whether the deployment's cohorts are drawn from registered devices.
func (h *Host) drawsPanels() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.panels
}

// news is what a host has heard of the epoch's panel. The host's lock guards it.
type news struct {
	drawn   bool             // there was an answer
	seed    panel.Seed       // that the panel follows from; zero before an answer told
	reply   []byte           // the signed one that did
	members int              // of the host's devices in the panel
	whys    map[string]error // why devices are in no panel, by text
}

// mostWhys bounds the texts that are shared in an epoch.
const mostWhys = 64

// shared is an error with the same text for all devices that have it: most of a host's devices are in no panel for the
// same reason.
func (h *Host) shared(why error) error {
	text := why.Error()
	h.mu.Lock()
	defer h.mu.Unlock()
	n := h.news
	if n == nil {
		return why
	}
	if kept := n.whys[text]; kept != nil {
		return kept
	}
	if n.whys == nil {
		n.whys = map[string]error{}
	}
	if len(n.whys) < mostWhys {
		n.whys[text] = why
	}
	return why
}

// takePart brings a device's errand on: it ends what the device owes of earlier epochs, registers it, and asks for its
// place in the panel. again is when to come back, or never, or inTurn.
func (h *Host) takePart(s *seat, e *errand) (again time.Duration, err error) {
	a := e.a
	if e.step == tidying {
		if err := h.tidy(a, s); err != nil {
			return never, err
		}
		if !a.Panels() || a.Weak != nil {
			return never, nil
		}
		e.step = registering
	}
	if h.isOver(a) {
		return never, nil // what was set aside is taken back in the next epoch
	}
	if e.step == registering {
		again, err := h.register(s, e)
		if again != 0 || err != nil {
			return again, err
		}
		e.step, e.pause = placing, firstPause
		if first := a.AskAfter(s.now().Number); first > 0 {
			return first, nil
		}
	}
	return h.place(s, e)
}

// isOver reports whether the announcement is not in force any more, or the host asks no more.
func (h *Host) isOver(a *device.Announced) bool {
	select {
	case <-h.over(a):
		return true
	case <-h.life.Done():
		return true
	default:
		return false
	}
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
	s.why = h.shared(because(NotDrawn, "it is not known yet whether the device is in the panel of epoch %d", a.Epoch))
	next := s.state.Expire(a)
	if len(next.Ledger.Entries) == len(s.state.Ledger.Entries) {
		return nil
	}
	if err := h.keep(s, next); err != nil {
		return fmt.Errorf("what was set aside for earlier epochs cannot be taken back: %w", err)
	}
	return nil
}

// later is the pause before an errand is tried again; it doubles.
func (e *errand) later() time.Duration {
	pause := e.pause
	e.pause = min(2*pause, longestPause)
	return pause
}

// register asks once for the device's registration. again is 0 where the device is registered.
func (h *Host) register(s *seat, e *errand) (again time.Duration, err error) {
	if !s.now().Registered() && !h.mayAsk(e, 0) {
		return inTurn, nil
	}
	s.mu.Lock()
	state := s.state
	asking := state.Register()
	e.heard = e.heard || state.Registering() // by an earlier process, or under an earlier announcement
	if !state.Registered() && !state.Registering() {
		err = h.keep(s, asking)
	}
	s.mu.Unlock()
	if err != nil {
		return never, fmt.Errorf("the device's wish to be registered cannot be kept: %w", err)
	}
	if state.Registered() {
		return 0, nil
	}
	request, err := h.core.Registration(asking)
	if err != nil {
		return never, err
	}
	signed, err := h.exchange(h.life, request)
	var r *wire.EnrolReply
	again = inTurn
	if err == nil {
		if r, err = h.core.Registered(request, signed); err != nil {
			again = e.later()
		}
	}
	switch {
	case err == nil && r.Refusal != wire.RefusalWrongEpoch: // else the shuffler is not ready
		h.attendance.answered()
		ok, err := h.registered(s, r, signed, e.heard)
		if ok || err != nil {
			return 0, err
		}
		e.heard = false
		return h.refusedPause(), nil
	case err != nil && !unheard(err):
		e.heard = true
	}
	if again == inTurn {
		h.attendance.unanswered()
	}
	if !e.heard { // so that what is kept says no more than what the shuffler can have heard
		return again, h.giveUp(s, e)
	}
	return again, nil
}

// giveUp takes back the wish to be registered of which the shuffler has not heard.
func (h *Host) giveUp(s *seat, e *errand) error {
	if e.step != registering || e.heard {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.state.Registering() {
		return nil
	}
	return h.keep(s, s.state.Unasked())
}

// unheard reports whether an error says that the shuffler did not hear a request. Only the broker knows that.
func unheard(err error) bool {
	return errors.Is(err, bus.ErrNoShuffler) || errors.Is(err, bus.ErrForbidden) || errors.Is(err, bus.ErrTooLarge) ||
		errors.Is(err, errNoKeys)
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

// mayAsk reports whether a device may ask now: it is its turn to ask for all, or there is none to keep.
func (h *Host) mayAsk(e *errand, pause time.Duration) bool {
	turn := e.turn
	e.turn = false
	return turn || h.attendance.mayAsk(pause)
}

// place asks whether the device is in the panel, once, unless others of this host have asked just now and heard that it
// is not drawn.
func (h *Host) place(s *seat, e *errand) (again time.Duration, err error) {
	a := e.a
	h.mu.Lock()
	drawn, devices := h.news.drawn, len(h.devices)
	h.mu.Unlock()
	state := s.now()
	if known, why := knows(a, state, h.c.Clock.Now()); known {
		s.mu.Lock()
		s.why = h.shared(why)
		s.mu.Unlock()
		if took := state.Enrolment; took != nil && took.Epoch == a.Epoch && !state.Owes(a) { // else recall went on with it
			h.joined(a)
		}
		return never, nil
	}
	pause := time.Duration(0)
	if !drawn {
		pause = askPause(a, devices)
	}
	if !h.mayAsk(e, pause) {
		return inTurn, nil
	}
	s.mu.Lock()
	state = s.state
	next, err := state.Ask(a, h.c.Clock.Now())
	if err == nil && !state.Asked(a.Epoch) {
		err = h.keep(s, next)
	}
	s.mu.Unlock()
	if err != nil {
		return never, fmt.Errorf("the device's question cannot be kept: %w", err)
	}
	request, err := h.core.Request(a, state.Number)
	if err != nil {
		return never, err
	}
	signed, err := h.exchange(h.life, request)
	if err != nil {
		h.attendance.unanswered()
		return inTurn, nil
	}
	r, err := h.core.Reply(a, request, signed)
	switch {
	case err != nil:
		return e.later(), nil
	case r.Refusal == wire.RefusalWrongEpoch && h.isDrawn(): // others have an answer
		h.attendance.unanswered()
		return inTurn, nil
	}
	h.attendance.answered()
	if r.Refusal == wire.RefusalWrongEpoch { // the panel is not drawn yet
		return inTurn, nil
	}
	h.answers(a)
	return never, h.placed(a, s, request, signed, r)
}

// knows reports whether a device need not ask under an announcement, and why it is in no panel that it could report in.
func knows(a *device.Announced, state device.State, now time.Time) (known bool, why error) {
	if took := state.Enrolment; took != nil && took.Epoch == a.Epoch { // an earlier process knew it
		return true, because(WindowOver, "the report of epoch %d has left", a.Epoch)
	}
	if _, err := state.Ask(a, now); err != nil {
		return true, because(RecordUsed, "%v", err)
	}
	return false, nil
}

// isDrawn reports whether the shuffler has answers for the panel in force.
func (h *Host) isDrawn() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.news.drawn
}

// answers notes that the shuffler has answers for the epoch's panel.
func (h *Host) answers(a *device.Announced) {
	h.mu.Lock()
	first := h.current == a && !h.news.drawn
	if first {
		h.news.drawn = true
	}
	h.mu.Unlock()
	if first {
		h.attendance.drawn()
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
	s.why = h.shared(why)
	next, err := s.state.Answered(a, r).Release(a)
	if err == nil {
		err = h.keep(s, next)
	}
	if err != nil {
		return fmt.Errorf("the shuffler's answer cannot be kept: %w", err)
	}
	return nil
}

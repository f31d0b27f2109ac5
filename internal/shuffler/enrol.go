package shuffler

import (
	"errors"
	"time"

	"github.com/riffle-dp/riffle/pkg/wire"
)

// enrol answers one request. Its error is fatal.
func (s *Shuffler) enrol(signed []byte) ([]byte, error) {
	defer s.c.Steps.Since(stepEnrolment, s.c.Clock.Now())
	s.c.Enrolments.Received(1)
	reply := &wire.EnrolReply{}
	given, digest, err := s.admitDevice(signed)
	reply.Request = digest[:]
	var refused *Refused
	switch {
	case errors.As(err, &refused):
		reply.Refusal = refused.Reason
		if refused.Reason == wire.RefusalNotDrawn {
			reply.Pool, reply.Draw = given.pool, given.draw
		}
		s.c.Enrolments.Refused(err, 1)
	case err != nil:
		return nil, err
	default:
		reply.Enrolled, reply.Slot, reply.Held = true, given.slot, given.held
		reply.ReportAfter = max(0, given.after.Truncate(time.Millisecond))
		reply.Commitment, reply.Pool, reply.Draw = given.commitment, given.pool, given.draw
		s.c.Enrolments.Released(1)
	}
	b, _, err := wire.Sign(reply, s.c.Identity)
	return b, err
}

// given is a device's slot, when its report is due from now on, and whether the device held the slot before it asked. Of a
// panel, which is drawn before anyone asks, a device held its slot if it has reported.
type given struct {
	slot  uint32
	after time.Duration
	held  bool
	// of the channel
	commitment []byte
	// of the panel
	pool, draw []byte
}

func (s *Shuffler) admitDevice(signed []byte) (g given, digest [32]byte, err error) {
	e, err := s.admitted.OpenEnrolRequest(signed)
	if err != nil {
		return given{}, e.Digest, refuse(wire.Reason(err), "%v", err)
	}
	id := DeviceID{e.HostKey, e.Request.Device}
	if e.Request.Epoch == 0 {
		g.held, err = s.register(id)
		return g, e.Digest, err
	}
	err = s.decide(func(state *State) (*Event, error) {
		now, _ := s.clock.now()
		slot, reportAt, ev, err := state.Enrol(id, e.Request.Epoch, Digest(e.Request.Announcement), now)
		g = given{slot: slot, after: reportAt.Sub(now), held: ev == nil}
		g.pool, g.draw = state.statements()
		if g.pool != nil {
			g.held = err == nil && state.epoch.reported(slot)
		}
		if err == nil {
			first := state.epoch.rounds[0]
			g.commitment = s.mixing(first.layout).Commitment(first.digest)
		}
		return ev, err
	})
	s.dominated()
	return g, e.Digest, err
}

// register enters a device among those that panels are drawn from. What this shuffler knows of them may be less than it
// knew before, until it was held against the audit log: till then no device registers.
func (s *Shuffler) register(id DeviceID) (held bool, err error) {
	err = s.decide(func(state *State) (ev *Event, err error) {
		if !s.recalled || s.trouble != nil {
			return nil, refuse(wire.RefusalWrongEpoch, "the journal is not held against the audit log yet")
		}
		held, ev, err = state.Register(id)
		return ev, err
	})
	return held, err
}

// dominated warns once in each epoch where one host holds most of the cohort. It does not name the host: the journal
// has it.
func (s *Shuffler) dominated() {
	s.mu.Lock()
	f, ok := s.state.Filling()
	warn := ok && f.Dominated() && s.warned != f.Epoch
	if warn {
		s.warned = f.Epoch
	}
	s.mu.Unlock()
	if warn {
		s.c.Log.Warn().Uint64("epoch", f.Epoch).Int("slots", f.Largest).Int("of", f.Slots).Uint32("size", f.Size).
			Msg("one host holds more than half of the cohort's slots: the other devices are hidden among few that " +
				"this host does not know; admission.host_share limits what one host may hold")
	}
}

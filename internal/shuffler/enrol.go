package shuffler

import (
	"errors"
	"time"

	"github.com/riffle-dp/riffle/pkg/wire"
)

// enrol answers one request, of one device or of several. Its error is fatal.
func (s *Shuffler) enrol(signed []byte) ([]byte, error) {
	defer s.c.Steps.Since(stepEnrolment, s.c.Clock.Now())
	e, err := s.admitted.OpenEnrolRequest(signed)
	if err != nil {
		s.c.Enrolments.Received(1)
		return s.reply(e.Digest, []given{{err: refuse(wire.Reason(err), "%v", err)}})
	}
	devices := e.Request.Devices()
	s.c.Enrolments.Received(len(devices))
	all := make([]given, len(devices))
	for i, number := range devices {
		all[i] = s.admitDevice(DeviceID{e.HostKey, number}, e.Request)
	}
	s.dominated()
	for _, g := range all { // what they rest on is durable, with one write for all
		if err := g.wait(); err != nil {
			return nil, err
		}
	}
	return s.reply(e.Digest, all)
}

// reply signs what is answered to a request's devices, and counts it.
func (s *Shuffler) reply(request [32]byte, all []given) ([]byte, error) {
	var whole *wire.EnrolReply
	for _, given := range all {
		one, err := s.answer(given)
		if err != nil {
			return nil, err
		}
		if whole == nil {
			whole = one
		} else {
			whole.Add(one)
		}
	}
	whole.Request = request[:]
	b, _, err := wire.Sign(whole, s.c.Identity)
	return b, err
}

// answer is the reply to one device, without the request.
func (s *Shuffler) answer(given given) (*wire.EnrolReply, error) {
	var refused *Refused
	switch {
	case errors.As(given.err, &refused):
		s.c.Enrolments.Refused(given.err, 1)
		reply := &wire.EnrolReply{Refusal: refused.Reason}
		if refused.Reason == wire.RefusalNotDrawn {
			reply.Pool, reply.Draw = given.pool, given.draw
		}
		return reply, nil
	case given.err != nil:
		return nil, given.err
	}
	s.c.Enrolments.Released(1)
	return &wire.EnrolReply{
		Enrolled: true, Slot: given.slot, Held: given.held, ReportAfter: max(0, given.after.Truncate(time.Millisecond)),
		Commitment: given.commitment, Pool: given.pool, Draw: given.draw,
	}, nil
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

	err     error        // why it is refused, or fatal
	durable func() error // what the answer rests on; nil: nothing
}

// wait returns once what the answer rests on is durable. Its error is fatal.
func (g given) wait() error {
	if g.durable == nil {
		return nil
	}
	if err := g.durable(); err != nil {
		return fatal(err)
	}
	return nil
}

func (s *Shuffler) admitDevice(id DeviceID, r *wire.EnrolRequest) (g given) {
	if r.Epoch == 0 {
		g.held, g.durable, g.err = s.register(id)
		return g
	}
	g.durable, g.err = s.begin(func(state *State) (*Event, error) {
		if len(r.Further) > 0 && state.draws() {
			return nil, refuse(wire.RefusalMalformed, "one request for %d devices, where panels are drawn",
				len(r.Further)+1)
		}
		now, _ := s.clock.now()
		slot, reportAt, ev, err := state.Enrol(id, r.Epoch, Digest(r.Announcement), now)
		g.slot, g.after, g.held = slot, reportAt.Sub(now), ev == nil
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
	return g
}

// register enters a device among those that panels are drawn from. What this shuffler knows of them may be less than it
// knew before, until it was held against the audit log: till then no device registers.
func (s *Shuffler) register(id DeviceID) (held bool, durable func() error, err error) {
	durable, err = s.begin(func(state *State) (ev *Event, err error) {
		if !s.recalled || s.trouble != nil {
			return nil, refuse(wire.RefusalWrongEpoch, "the journal is not held against the audit log yet")
		}
		if s.fixing && !state.registered.has(id) {
			return nil, refuse(wire.RefusalWrongEpoch, "a pool is being fixed: ask again")
		}
		held, ev, err = state.Register(id)
		return ev, err
	})
	return held, durable, err
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

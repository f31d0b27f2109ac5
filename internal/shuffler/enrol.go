package shuffler

import (
	"errors"
	"time"

	"github.com/riffle-dp/riffle/internal/shuffler/cohort"
	"github.com/riffle-dp/riffle/pkg/seal"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// enrolments answers devices that ask to take part.
type enrolments struct {
	*core
	requests *seal.RequestOpener
	admitted *wire.Credentials // that the registrar admits
	covered  cohort.Covered    // by the latest credential of each host; guarded by mu
}

// asked answers one request as it came. Its error is fatal.
//
// What could be opened is answered sealed and at one size, whatever the answer. What could not, as a request in the
// clear, is answered with a signed refusal of these bytes, which a host takes for no answer: the broker may have kept
// this shuffler's later keys from it.
func (s *enrolments) asked(request []byte) ([]byte, error) {
	defer s.c.Steps.Since(stepEnrolment, s.c.Clock.Now())
	opened, err := wire.OpenSealedRequest(request, s.requests)
	if opened == nil {
		return s.enrol(wire.Enrolment{Digest: wire.RequestDigest(request)}, err)
	}
	e, bad := s.admitted.OpenEnrolRequest(opened.Signed)
	if err == nil {
		err = bad
	}
	signed, err := s.enrol(e, err)
	if err != nil {
		return nil, err
	}
	return opened.SealReply(signed)
}

// enrol answers one request, of one device or of several; wrong says why it is none, nil that it was verified. Its
// error is fatal.
func (s *enrolments) enrol(e wire.Enrolment, wrong error) ([]byte, error) {
	if wrong != nil {
		s.c.Enrolments.Received(1)
		return s.reply(e.Digest, []given{{err: cohort.Refuse(wire.Reason(wrong), "%v", wrong)}})
	}
	devices := e.Request.Devices()
	s.c.Enrolments.Received(len(devices))
	all := make([]given, len(devices))
	s.mu.Lock()
	err := s.covered.Refuse(e)
	s.mu.Unlock()
	if err != nil {
		for i := range all {
			all[i].err = err
		}
		return s.reply(e.Digest, all)
	}
	for i, number := range devices {
		all[i] = s.admitDevice(e, i, number)
	}
	if len(all) == 1 && e.Request.Epoch > 0 && all[0].err == nil {
		ticket := wire.NewTicket(s.c.Ticket, s.c.Deployment, e.Request.Epoch, all[0].slot)
		all[0].ticket = ticket[:]
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
func (s *enrolments) reply(request [32]byte, all []given) ([]byte, error) {
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
func (s *enrolments) answer(given given) (*wire.EnrolReply, error) {
	var refused *cohort.Refused
	switch {
	case errors.As(given.err, &refused):
		s.c.Enrolments.Refused(given.err, 1)
		if refused.Reason == wire.RefusalCapacity {
			s.noticeCapacity()
		}
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
		Commitment: given.commitment, Pool: given.pool, Draw: given.draw, Ticket: given.ticket,
	}, nil
}

// given is a device's slot, when its report is due from now on, and whether the device held the slot before it asked,
// because of another request. Of a panel, which is drawn before anyone asks, a device held its slot if it has reported.
type given struct {
	slot  uint32
	after time.Duration
	held  bool
	// of the channel
	commitment []byte
	// of the panel
	pool, draw []byte
	ticket     []byte // with which the slot's reports pass an ingress; nil where several devices ask together

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

// admitDevice answers one device, in its place in the request.
func (s *enrolments) admitDevice(e wire.Enrolment, place int, number uint32) (g given) {
	id, r, nonce := cohort.DeviceID{Host: e.HostKey, Number: number}, e.Request, e.Request.NonceOf(place)
	if r.Epoch == 0 {
		g.held, g.durable, g.err = s.register(id, e.Admission, nonce)
		return g
	}
	_, g.durable, g.err = s.begin(func(state *cohort.State) (*cohort.Event, error) {
		now, _ := s.clock.now()
		given, ev, err := state.Grant(cohort.Request{
			Device: id, By: e.Issuer, Epoch: r.Epoch, Announcement: cohort.Digest(r.Announcement), Nonce: nonce,
			Together: len(r.Further) + 1,
		}, now)
		g.slot, g.after, g.held, g.pool, g.draw = given.Slot, given.ReportAt.Sub(now), given.Held, given.Pool,
			given.Draw
		if err == nil {
			first := state.Begins()
			g.commitment = s.mixing(first.Layout).Commitment(first.Digest)
		}
		return ev, err
	})
	return g
}

// register enters a device among those that panels are drawn from. What this shuffler knows of them may be less than it
// knew before, until it was held against the audit log: till then no device registers.
func (s *enrolments) register(id cohort.DeviceID, by wire.Admission, nonce uint32) (
	held bool, durable func() error, err error,
) {
	_, durable, err = s.begin(func(state *cohort.State) (ev *cohort.Event, err error) {
		if last, _ := state.Last(); by.In(max(1, last.Epoch)) != nil {
			return nil, cohort.Refuse(wire.RefusalNoCredential, "the credential does not admit in epoch %d", last.Epoch)
		}
		if !s.recalled || s.trouble != nil {
			return nil, cohort.Refuse(wire.RefusalWrongEpoch, "the journal is not held against the audit log yet")
		}
		if nonce == 0 {
			return nil, cohort.Refuse(wire.RefusalMalformed, "a registration without a nonce")
		}
		if s.fixing && !state.Holds(id) {
			return nil, cohort.Refuse(wire.RefusalWrongEpoch, "a pool is being fixed: ask again")
		}
		held, ev, err = state.Enter(id, by.Issuer, nonce)
		return ev, err
	})
	return held, durable, err
}

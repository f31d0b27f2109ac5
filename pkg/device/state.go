package device

import (
	"bytes"
	"errors"
	"fmt"
	"time"

	"github.com/riffle-dp/riffle/pkg/privacy"
	"github.com/riffle-dp/riffle/pkg/seal"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// ErrRolledBack says that the state is older than what its owner has done: it was restored from a copy, or two
// processes run under one identity. A ledger that forgot what was spent would let a person report twice, so the owner
// must stop for good.
var ErrRolledBack = errors.New("the state of this host is older than what it has done; nothing more is sent")

// State is what one device has promised and spent. It holds nothing of a record. Every step returns the state to keep,
// which must be durable before what it allows leaves the device: Ask before the request, Promise before anything else
// is done with the reply, and what Core.Report returns before the report.
type State struct {
	Number uint32         `json:"number"` // of the devices of one identity
	Ledger privacy.Ledger `json:"ledger"`
	// Enrolment is the slot in the latest cohort that the device took.
	Enrolment *Enrolment `json:"enrolment,omitempty"`
	// Request is the latest that may have left.
	Request Request `json:"wish,omitzero"`
	// Registration is there from before the device first asked to be registered, where panels are drawn.
	Registration *Registration `json:"registration,omitempty"`
}

// Request is what a device asks the shuffler for: a slot in an epoch's cohort, or to be registered. It has one nonce,
// however often it is sent. The shuffler remembers the nonce of the request to which it gave something, and says of
// another one that it comes too late.
type Request struct {
	Epoch uint64 `json:"epoch,omitempty"` // 0: to be registered
	Nonce uint32 `json:"nonce,omitempty"` // drawn once for the epoch; 0: there is no request
	// Unsure says that a request was taken back because the broker said that no shuffler had heard of it, which it may
	// say of one that has: what the shuffler says of earlier epochs proves nothing then.
	Unsure bool `json:"unsure,omitempty"`
}

// withRequest is a state with a request for an epoch, the one that it has already if there is one.
func (s State) withRequest(epoch uint64) State {
	if s.Request.Nonce == 0 || s.Request.Epoch != epoch {
		s.Request = Request{Epoch: epoch, Nonce: seal.Nonce(), Unsure: s.Request.Unsure}
	}
	return s
}

// nonce is that of the request for an epoch; 0, with which nobody can ask, where there is none.
func (s State) nonce(epoch uint64) uint32 {
	if s.Request.Epoch != epoch {
		return 0
	}
	return s.Request.Nonce
}

// Registration is what a device knows of its being registered at the shuffler.
type Registration struct {
	Reply []byte `json:"reply,omitempty"` // the shuffler's signed word for it; empty while none came
	// Since is the first epoch in which the shuffler answered, after Reply, whether the device is in the panel: it must
	// know the device in every later one. 0: none yet.
	Since uint64 `json:"since,omitempty"`
}

// Enrolment is a device's promise to report.
type Enrolment struct {
	Epoch    uint64    `json:"epoch"`
	Slot     uint32    `json:"slot"`
	ReportAt time.Time `json:"report_at"`
	Reported int       `json:"reported"` // rounds whose report was made
	// Commitment is what the shuffler's reply said of the channel.
	Commitment []byte `json:"commitment,omitempty"`
	// Ticket is what the shuffler's reply gave for the ingress.
	Ticket []byte `json:"ticket,omitempty"`
}

// place is that of the latest enrolment.
func (s State) place() *Place {
	e := s.Enrolment
	return &Place{Epoch: e.Epoch, Slot: e.Slot, Ticket: bytes.Clone(e.Ticket), ReportAt: e.ReportAt}
}

// NewState is the state of a device that has done nothing.
func (c *Core) NewState(number uint32) State {
	l := c.c.Limits
	return State{Number: number, Ledger: privacy.Ledger{
		Epsilon: l.Epsilon, Delta: l.Delta, Records: l.Records, EpsilonAlone: l.EpsilonAlone,
	}}
}

// Restored is a state that was kept, under the limits of now where these are stricter: a person who lowers a limit
// means all that is released from then on. A ledger keeps the limits that it began with where those are.
func (c *Core) Restored(s State) State {
	l := c.c.Limits
	s.Ledger.Epsilon, s.Ledger.Delta = min(s.Ledger.Epsilon, l.Epsilon), min(s.Ledger.Delta, l.Delta)
	if l.Records > 0 {
		s.Ledger.Records = min(max(1, s.Ledger.Records), l.Records)
	}
	if alone := s.Ledger.EpsilonAlone; l.EpsilonAlone > 0 && !(alone > 0 && alone < l.EpsilonAlone) {
		s.Ledger.EpsilonAlone = l.EpsilonAlone
	}
	return s
}

// Register notes that the device is about to ask the shuffler to register it.
func (s State) Register() State {
	if s.Registration == nil {
		s = s.withRequest(0)
		s.Registration = &Registration{}
	}
	return s
}

// Confirm keeps the shuffler's signed word that the device is registered.
func (s State) Confirm(reply []byte) State {
	if !s.Registered() {
		s.Registration = &Registration{Reply: bytes.Clone(reply)}
	}
	return s
}

// Unregister takes back what Register noted, where the shuffler has refused.
func (s State) Unregister() State {
	if s.Registering() {
		s.Registration = nil
	}
	return s
}

// Unasked is Unregister where the broker says that the shuffler has not heard.
func (s State) Unasked() State {
	if s.Registering() {
		s.Registration, s.Request.Unsure = nil, true
	}
	return s
}

// Registered reports whether the device holds the shuffler's word that it is registered.
func (s State) Registered() bool { return s.Registration != nil && len(s.Registration.Reply) > 0 }

// Registering reports whether the device asked to be registered and knows no answer.
func (s State) Registering() bool { return s.Registration != nil && !s.Registered() }

// wasKnown reports whether the shuffler must know in an epoch that the device is registered.
func (s State) wasKnown(epoch uint64) bool {
	return s.Registered() && s.Registration.Since > 0 && s.Registration.Since < epoch
}

// Answered notes that the shuffler has said in an epoch whether a registered device is in the panel: it must know the
// device from then on. Other answers change nothing.
func (s State) Answered(a *Announced, r *wire.EnrolReply) State {
	says := r.Enrolled || r.Refusal == wire.RefusalNotDrawn || r.Refusal == wire.RefusalNotRegistered
	if says && a.Panels() && s.Registered() && s.Registration.Since == 0 {
		s.Registration = &Registration{Reply: s.Registration.Reply, Since: a.Epoch}
	}
	return s
}

// Panels counts the panels in which the device reported.
func (s State) Panels() (n int) {
	if s.Registration == nil {
		return 0
	}
	for _, e := range s.Ledger.Entries {
		if e.State == privacy.Spent {
			n++
		}
	}
	return n
}

// Expire takes back what was set aside for epochs before the announced one, where panels are drawn and no report has
// left: which of these epochs a device would have reported in is public, so that nothing is known of it by that. The
// caller has ended what it promised under them.
func (s State) Expire(a *Announced) State {
	if s.Registration == nil {
		return s
	}
	s.Ledger = s.Ledger.Expire(a.Epoch)
	return s
}

// Asked reports whether the device asked for a slot in an epoch's cohort and knows no answer.
func (s State) Asked(epoch uint64) bool { return s.Ledger.State(epoch) == privacy.Asked }

// Ask sets the guarantees of the announced epoch aside, at a time by the device's own clock. An error is the ledger's:
// privacy.ErrRecordUsed or privacy.ErrBudget; or says that the device is not registered, where panels are drawn. Where
// the device has asked before and knows no answer the state stays as it is.
func (s State) Ask(a *Announced, now time.Time) (next State, err error) {
	if s.Asked(a.Epoch) {
		return s, nil
	}
	next = s
	if a.Panels() {
		if !s.Registered() {
			return s, errors.New("the device is not registered yet")
		}
		next = s.Expire(a)
		next.Ledger = next.Ledger.Under(a.Plan.PerPerson(), int(a.Plan.Period), a.Span)
	} else {
		next = next.withRequest(a.Epoch)
	}
	next.Ledger, err = next.Ledger.Ask(a.Epoch, now, a.Releases, a.Guarantee(), a.Alone())
	if err != nil {
		return s, err
	}
	return next, nil
}

// Promise enters the slot that the shuffler gave: from here on there will be a report at ReportAt, a null record's if
// need be.
func (s State) Promise(a *Announced, reply *wire.EnrolReply, now time.Time) (next State, err error) {
	next = s.Answered(a, reply)
	due := now.Add(reply.ReportAfter)
	if next.Ledger, err = s.Ledger.Promise(a.Epoch, due); err != nil {
		return s, fmt.Errorf("the ledger changed while the shuffler was asked: %w", err)
	}
	next.Enrolment = &Enrolment{
		Epoch: a.Epoch, Slot: reply.Slot, ReportAt: due, Commitment: reply.Commitment,
		Ticket: reply.Ticket,
	}
	return next, nil
}

// Release takes back what was set aside for a slot that will certainly not be given, or that the device does not take.
func (s State) Release(a *Announced) (next State, err error) {
	next = s
	next.Ledger, err = s.Ledger.Release(a.Epoch)
	return next, err
}

// Withdraw takes back what was set aside for a slot of which the broker says that the shuffler has not heard.
func (s State) Withdraw(a *Announced) (next State, err error) {
	next, err = s.Release(a)
	next.Request.Unsure = true
	return next, err
}

// reported marks the report of one more round as made.
func (s State) reported(epoch uint64) (next State, err error) {
	next = s
	if next.Ledger, err = s.Ledger.Spend(epoch); err != nil {
		return s, fmt.Errorf("a report without a reservation: %w", err)
	}
	e := *s.Enrolment
	e.Reported++
	next.Enrolment = &e
	return next, nil
}

// Done forgets of an enrolment what only its reports needed: all of them were made.
func (s State) Done() State {
	if e := s.Enrolment; e != nil {
		s.Enrolment = &Enrolment{Epoch: e.Epoch, Reported: e.Reported}
	}
	return s
}

// Owes reports whether a device that was restarted still owes the report of the announced round.
func (s State) Owes(a *Announced) bool {
	e := s.Enrolment
	return e != nil && !a.Final && e.Epoch == a.Epoch && e.Reported < len(a.Plan.Rounds) && e.Reported >= int(a.Round)
}

// Contradicts tells what the shuffler says that the device did and its state does not know: proof that the state is
// old; "" where there is none. heard says that the shuffler may have heard a request of the open question to which no
// answer came: then its words prove nothing.
//
// "Held" speaks of another request than the open question's, whose nonce is kept from before it first left: a request
// that comes twice is not told so. An entry that was asked for without an answer stays in the ledger for ever, so
// "already enrolled" is proof where the ledger holds no entry but the open question's, and none was taken back upon the
// broker's word. Where panels are drawn an entry is taken back, and "already enrolled" proves nothing. There a device
// holds its slot if the shuffler has its report, and one that has reported does not ask: that is proof whatever was
// heard.
func (s State) Contradicts(reply *wire.EnrolReply, heard bool) string {
	switch {
	case s.Registration != nil:
		if reply.Enrolled && reply.Held {
			return "has a report of this device, which it has not made"
		}
	case heard:
	case reply.Enrolled && reply.Held:
		return "gave this device a place in the cohort before it was first asked for one"
	case reply.Refusal == wire.RefusalAlreadyEnrolled && len(s.Ledger.Entries) == 1 && !s.Request.Unsure:
		return "enrolled this device in an earlier cohort, in which it never asked for a place"
	}
	return ""
}

// Unregistered tells, like Contradicts, what a reply to a registration proves of the state. The shuffler remembers the
// nonces of registrations for two epochs only.
func (s State) Unregistered(reply *wire.EnrolReply, heard bool) string {
	if !heard && !s.Request.Unsure && reply.Enrolled && reply.Held {
		return "had registered this device before it was first asked to"
	}
	return ""
}

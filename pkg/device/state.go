package device

import (
	"errors"
	"fmt"
	"time"

	"github.com/riffle-dp/riffle/pkg/privacy"
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
}

// Enrolment is a device's promise to report.
type Enrolment struct {
	Epoch    uint64    `json:"epoch"`
	Slot     uint32    `json:"slot"`
	ReportAt time.Time `json:"report_at"`
	Reported int       `json:"reported"` // rounds whose report was made
	// Commitment is what the shuffler's reply said of the channel.
	Commitment []byte `json:"commitment,omitempty"`
}

// NewState is the state of a device that has done nothing.
func (c *Core) NewState(number uint32) State {
	l := c.c.Limits
	return State{Number: number, Ledger: privacy.Ledger{
		Epsilon: l.Epsilon, Delta: l.Delta, Records: l.Records, EpsilonAlone: l.EpsilonAlone,
	}}
}

// Restored is a state that was kept, under the limits of now where these are stricter: a person who lowers a limit means
// all that is released from then on. A ledger keeps the limits that it began with where those are.
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

// Asked tells whether the device asked for a slot in an epoch's cohort and knows no answer.
func (s State) Asked(epoch uint64) bool { return s.Ledger.State(epoch) == privacy.Asked }

// Ask sets the guarantees of the announced epoch aside. An error is the ledger's: privacy.ErrRecordUsed or
// privacy.ErrBudget. Where the device has asked before and knows no answer the state stays as it is.
func (s State) Ask(a *Announced) (next State, err error) {
	if s.Asked(a.Epoch) {
		return s, nil
	}
	next = s
	next.Ledger, err = s.Ledger.Ask(a.Epoch, a.Releases, a.Guarantee, a.Alone)
	return next, err
}

// Promise enters the slot that the shuffler gave: from here on there will be a report at ReportAt, a null record's if
// need be.
func (s State) Promise(a *Announced, reply *wire.EnrolReply, now time.Time) (next State, err error) {
	next = s
	if next.Ledger, err = s.Ledger.Promise(a.Epoch); err != nil {
		return s, fmt.Errorf("the ledger changed while the shuffler was asked: %w", err)
	}
	next.Enrolment = &Enrolment{
		Epoch: a.Epoch, Slot: reply.Slot, ReportAt: now.Add(reply.ReportAfter), Commitment: reply.Commitment,
	}
	return next, nil
}

// Release takes back what was set aside for a slot that will certainly not be given.
func (s State) Release(a *Announced) (next State, err error) {
	next = s
	next.Ledger, err = s.Ledger.Release(a.Epoch)
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

// Owes tells whether a device that was restarted still owes the report of the announced round.
func (s State) Owes(a *Announced) bool {
	e := s.Enrolment
	return e != nil && !a.Final && e.Epoch == a.Epoch && e.Reported < len(a.Plan.Rounds) && e.Reported >= int(a.Round)
}

// Contradicts tells what the shuffler says that the device did and its state does not know: proof that the state is
// old; "" where there is none. heard says that the shuffler may have heard a request of the open question to which no
// answer came: then its words prove nothing.
//
// An entry that was asked for without an answer stays in the ledger for ever, so "already enrolled" is proof where the
// ledger holds no entry but the open question's.
func (s State) Contradicts(reply *wire.EnrolReply, heard bool) string {
	switch {
	case heard:
	case reply.Enrolled && reply.Held:
		return "gave this device a place in the cohort before it was first asked for one"
	case reply.Refusal == wire.RefusalAlreadyEnrolled && len(s.Ledger.Entries) == 1:
		return "enrolled this device in an earlier cohort, in which it never asked for a place"
	}
	return ""
}

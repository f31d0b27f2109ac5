package simulation

import (
	"context"
	"encoding/json"
	"slices"
	"time"
	"unsafe"

	"github.com/riffle-dp/riffle/internal/bus"
	hoststore "github.com/riffle-dp/riffle/internal/randomizer/store"
	"github.com/riffle-dp/riffle/internal/shuffler/cohort"
	"github.com/riffle-dp/riffle/internal/testing/testbed"
	"github.com/riffle-dp/riffle/pkg/privacy"
	"github.com/riffle-dp/riffle/pkg/seal"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// What a role says rests on what its disk has: the oracle compares the two at the moment in which it is said.

// ReceiveReports implements shuffler.Broker, and sees each acknowledgement.
func (b shufflerBroker) ReceiveReports(ctx context.Context, handler func(*bus.Delivery)) error {
	return b.Broker.ReceiveReports(ctx, func(d *bus.Delivery) { handler(bus.NewDelivery(*d, settler{d, b.i})) })
}

// settler is a delivery whose acknowledgement the oracle sees.
type settler struct {
	*bus.Delivery
	i *incarnation
}

// Ack implements bus.Settler.
func (s settler) Ack() error {
	s.i.w.oracle.acknowledged(s.i, s.Sequence)
	return s.Delivery.Ack()
}

// NakWithDelay implements bus.Settler.
func (s settler) NakWithDelay(after time.Duration) error { return s.Retry(after) }

// InProgress implements bus.Settler.
func (settler) InProgress() error { return nil } // the shuffler does not use it

// ServeEnrol implements shuffler.Broker, and sees each reply.
func (b shufflerBroker) ServeEnrol(
	ctx context.Context, workers int, handler func(context.Context, []byte) ([]byte, error),
) error {
	return b.Broker.ServeEnrol(ctx, workers, func(ctx context.Context, request []byte) ([]byte, error) {
		reply, err := handler(ctx, request)
		if err == nil {
			b.i.w.oracle.replied(b.i, request, reply)
		}
		return reply, err
	})
}

// events are what a shuffler's disk has of its journal.
func (i *incarnation) events() (all []*cohort.Event) {
	i.disk.contents(func(where string, b []byte) {
		if where != journalFile {
			return
		}
		if ev := i.w.oracle.event(b); ev != nil {
			all = append(all, ev)
		}
	})
	return all
}

// event decodes an entry of a shuffler's journal; nil where it is none. Entries never change where they are, and each
// is looked at after every write.
func (o *oracle) event(entry []byte) *cohort.Event {
	at := unsafe.SliceData(entry)
	o.decoding.Lock()
	defer o.decoding.Unlock()
	ev, known := o.events[at]
	if !known {
		var err error
		if ev, err = cohort.DecodeEvent(entry); err != nil {
			ev = nil
		}
		o.events[at] = ev
	}
	return ev
}

// committed reports whether the membership of a round that is released is durable.
func (i *incarnation) committed(epoch uint64, number uint32) (committed bool) {
	open := uint64(0)
	for _, ev := range i.events() {
		switch {
		case ev.Opened != nil:
			open = ev.Opened.Epoch
		case ev.Committed != nil && open == epoch && ev.Committed.Round == number:
			committed = ev.Committed.Outcome == wire.Released
		}
	}
	return committed
}

// acknowledged sees that the broker need not deliver a report again. If it is admitted, that is durable.
//
// A shuffler whose state was set back may not know yet which panel it drew. Nobody has a slot then: what it
// acknowledges are refusals, and it takes these reports in from the stream once it has the draw again.
func (o *oracle) acknowledged(i *incarnation, sequence uint64) {
	slots := false
	for _, ev := range i.events() {
		switch {
		case ev.Admitted != nil && ev.Admitted.Sequence == sequence:
			return
		case ev.Opened != nil && ev.Opened.Round == 0:
			slots = false
		case ev.Enrolled != nil, ev.Drawn != nil:
			slots = true
		}
	}
	if !slots && i.p.back && o.w.list.Panel {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.early[i] == nil {
		o.early[i] = map[uint64]bool{}
	}
	o.early[i][sequence] = true
}

// wrote sees what a shuffler makes durable: an admission must be before its report is acknowledged.
func (o *oracle) wrote(i *incarnation, name string, entries []*line) {
	if name != journalFile {
		return
	}
	all := i.events()
	o.mu.Lock()
	defer o.mu.Unlock()
	n := 0
	for _, e := range entries {
		n += max(1, len(e.all))
	}
	o.inTime(all, n)
	for _, e := range entries {
		ev := o.event(e.b)
		if ev != nil && ev.Admitted != nil && o.early[i][ev.Admitted.Sequence] {
			o.w.violated("acknowledged", "report %d is admitted, and was acknowledged before that was durable",
				ev.Admitted.Sequence)
		}
	}
}

// inTime sees when the membership of a release is fixed without all whose devices hold a slot: not before the last of
// them could report, whatever the clocks of the shuffler's machine say. The last n events are new.
func (o *oracle) inTime(all []*cohort.Event, n int) {
	epoch, enrolled, admitted := uint64(0), 0, 0
	for k, ev := range all {
		switch {
		case ev.Opened != nil:
			epoch, enrolled, admitted = ev.Opened.Epoch, 0, 0
		case ev.Enrolled != nil:
			enrolled++
		case ev.Admitted != nil:
			admitted++
		case ev.Committed != nil && k >= len(all)-n && admitted < enrolled && time.Now().Before(o.due[epoch]):
			o.w.violated("window", "the membership of epoch %d is fixed with %d of %d reports, %v before the last "+
				"is due", epoch, admitted, enrolled, time.Until(o.due[epoch]))
		}
	}
}

// replied sees what a device is told: the slot that it gets is in the journal.
func (o *oracle) replied(i *incarnation, request, sealed []byte) {
	opened, err := o.w.openRequest(request)
	if err != nil {
		return // it is answered with a refusal of these bytes
	}
	if len(sealed) != wire.SealedReplySize {
		o.w.violated("reply", "a reply to a request for enrolment has %d bytes", len(sealed))
	}
	signed, err := opened.OpenReply(sealed)
	if err != nil {
		o.w.violated("reply", "a reply to a request for enrolment does not open: %v", err)
		return
	}
	reply, err := wire.OpenEnrolReply(signed, o.w.keys.shuffler.Public(), wire.RequestDigest(opened.Signed))
	if err != nil {
		return
	}
	most, given, after, epoch := -1, 0, time.Duration(0), uint64(0)
	for n := range len(reply.Further) + 1 {
		if one := reply.Of(n); one.Enrolled {
			most, after = max(most, int(one.Slot)), max(after, one.ReportAfter)
		}
	}
	for _, ev := range i.events() {
		switch {
		case ev.Opened != nil && ev.Opened.Round == 0:
			given, epoch = 0, ev.Opened.Epoch
		case ev.Enrolled != nil:
			given++
		}
	}
	if due := time.Now().Add(after); most >= 0 {
		o.mu.Lock()
		if due.After(o.due[epoch]) {
			o.due[epoch] = due
		}
		o.mu.Unlock()
	}
	if most >= given && !o.w.list.Panel {
		o.w.violated("enrolment", "slot %d is given to a device, and the journal has only %d", most, given)
	}
}

// EnrolOnce implements randomizer.Broker, and sees each request.
func (b hostBroker) EnrolOnce(ctx context.Context, request []byte) ([]byte, error) {
	b.i.w.oracle.asked(b.i, request)
	return b.Broker.EnrolOnce(ctx, request)
}

// openRequest opens a sealed request for enrolment with any of the shuffler's keys.
func (w *World) openRequest(sealed []byte) (*wire.OpenedRequest, error) {
	opener, err := seal.NewRequestOpener(testbed.Deployment, w.keys.reports...)
	if err != nil {
		return nil, err
	}
	return wire.OpenSealedRequest(sealed, opener)
}

// asked sees what a host asks for its devices: the shuffler must know of no request that the host's disk does not have.
func (o *oracle) asked(i *incarnation, sealed []byte) {
	if len(sealed) != wire.SealedRequestSize {
		o.w.violated("request", "a request of %s has %d bytes", i.p.name, len(sealed))
	}
	opened, err := o.w.openRequest(sealed)
	if err != nil {
		o.w.violated("request", "%s sends what does not open: %v", i.p.name, err)
		return
	}
	e, err := o.credentials.OpenEnrolRequest(opened.Signed)
	if err != nil {
		o.w.violated("request", "%s sends what is no request: %v", i.p.name, err)
		return
	}
	known := map[uint32]bool{}
	i.disk.contents(func(where string, b []byte) {
		var d hoststore.Device
		if where != storeFile || json.Unmarshal(b, &d) != nil {
			return
		}
		known[d.Number] = d.Registration != nil ||
			slices.ContainsFunc(d.Ledger.Entries, func(entry privacy.Entry) bool {
				return entry.Epoch == e.Request.Epoch
			})
	})
	for _, number := range e.Request.Devices() {
		if !known[number] {
			o.w.violated("wish", "%s asks for device %d in epoch %d, and its disk does not know of it", i.p.name,
				number, e.Request.Epoch)
		}
	}
}

package device

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/strict"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// Errors of a Device. Each is wrapped in a sentence that says more.
var (
	// ErrNoPlace says that the device can ask for no slot in a cohort now.
	ErrNoPlace = errors.New("no slot can be asked for")
	// ErrNoReport says that no report is due.
	ErrNoReport = errors.New("no report is due")
	// ErrNoPolicy says that no announcement was followed yet.
	ErrNoPolicy = errors.New("no policy has been announced yet")
	// ErrNoKeys says that nothing can be sealed.
	ErrNoKeys = errors.New("the shuffler's keys are not known yet")
	// ErrOver says that the last policy was announced.
	ErrOver = errors.New("learning is over")
	// ErrSaved says that Open was given something else than what Save returned.
	ErrSaved = errors.New("device: the saved state cannot be read")
)

// Device is one device with an identity of its own. One goroutine at a time.
//
// Whatever a call returns may leave the device once what Save returns after the call is durable. Save holds the record
// of the open promise, so that a reward may come after a restart: keep it where nobody but the device's owner reads it,
// and replace what was kept before. A device that is opened with an older copy, of any step since it asked for its
// slot, reports the same record under the same announcement with the same noise.
type Device struct {
	core   *Core
	state  State
	last   *Announced   // that was followed; nil before the first
	keys   *wire.KeySet // the shuffler's latest; nil before the first
	record *Record      // of the open promise
	due    time.Time    // of its next report
	kept   saved        // what was signed

	request *wire.SealedRequest // of the open question, once it was asked in this process
	heard   bool                // the shuffler may have heard a request of the open question to which no answer came

	registering *wire.SealedRequest // the request to be registered, once it left in this process
	unanswered  bool                // the shuffler may have heard a request to register to which no answer came
	handles     []uint64            // of the record's decisions
	deposit     []byte              // the record's report, until a mailbox has it
}

// saved is what survives a restart.
type saved struct {
	State        State     `json:"state"`
	Announcement []byte    `json:"announcement,omitempty"` // signed
	Keys         []byte    `json:"keys,omitempty"`         // signed
	Due          time.Time `json:"due"`
	Deposit      []byte    `json:"deposit,omitempty"` // the null record's report, until a mailbox has it
	// From before a slot is first asked for until there is no report to make: what the noise of the reports comes from.
	Secret []byte `json:"secret,omitempty"`
	Record []byte `json:"record,omitempty"` // of the open promise (kept.go)
	// proof that the state was older than what the device had done
	RolledBack string `json:"rolled_back,omitempty"`
	// the first one that the shuffler gave
	Evidence *Evidence `json:"evidence,omitempty"`
}

// Open opens a device of the identity with what Save returned, nothing for a new one. number is its number under the
// identity's credential, for a new one.
func Open(c Config, number uint32, save []byte) (*Device, error) {
	core, err := New(c)
	if err != nil {
		return nil, err
	}
	d := &Device{core: core, state: core.NewState(number)}
	if len(save) == 0 {
		return d, nil
	}
	if err := strict.Kept(save, &d.kept); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrSaved, err)
	}
	d.state, d.due = core.Restored(d.kept.State), d.kept.Due
	if len(d.kept.Keys) > 0 {
		if d.keys, err = core.Keys(d.kept.Keys); err != nil {
			return nil, fmt.Errorf("%w: its keys: %w", ErrSaved, err)
		}
	}
	if len(d.kept.Announcement) > 0 {
		if d.last, err = d.judge(d.kept.Announcement); err != nil {
			return nil, fmt.Errorf("%w: its announcement: %w", ErrSaved, err)
		}
		d.recall()
		d.heard = d.state.Asked(d.last.Epoch)
	}
	return d, nil
}

// Save returns what must survive a restart, as JSON. Until its report is made for good, or given up, it holds the
// record of the open promise, and the secret that the report's noise comes from.
func (d *Device) Save() ([]byte, error) {
	d.kept.State, d.kept.Due, d.kept.Record = d.state, d.due, d.keep()
	if open := d.record != nil && !d.record.Over(); !open && (d.last == nil || !d.state.Asked(d.last.Epoch)) {
		d.kept.Secret = nil
	}
	return json.Marshal(d.kept)
}

func (d *Device) judge(signed []byte) (*Announced, error) {
	a, digest, err := wire.Open[plan.Announcement](signed, d.core.party(d.core.c.Analyzer))
	if err != nil {
		return nil, err
	}
	return d.core.judge(a, digest)
}

// Follow takes the next signed announcement of the chain, which begins with round 0 of epoch 1; fresh reports whether
// it is now in force. One that comes before it changes nothing. Another one for the same round, and one that does not
// continue the chain, are ErrRewound.
func (d *Device) Follow(signed []byte, now time.Time) (fresh bool, err error) {
	d.expire(now)
	a, err := d.judge(signed)
	switch {
	case err != nil:
		return false, err
	case a.After(d.last):
		err = a.Follows(d.last)
	case a.Epoch == d.last.Epoch && a.Round == d.last.Round && a.Digest != d.last.Digest:
		err = fmt.Errorf("%w: round %d of epoch %d had another digest before", ErrRewound, a.Round, a.Epoch)
	default:
		return false, nil
	}
	if err != nil {
		return false, err
	}
	switch r := d.record; {
	case r == nil:
	case d.last.Epoch != a.Epoch, a.Weak() != nil:
		d.forget()
	case r.Reported() == int(a.Round):
		d.due = now.Add(a.Jitter(d.state.Enrolment.Slot))
	}
	if d.last != nil && d.last.Epoch != a.Epoch {
		d.state, d.kept.Deposit = d.state.Expire(a), nil
	}
	d.request, d.heard = nil, false // a question that is open has no answer any more
	d.last, d.kept.Announcement = a, signed
	return true, nil
}

func (d *Device) begin() {
	r := d.state.Begin(d.last)
	d.record, d.handles = &r, nil
	d.draw()
}

// forget wipes the record of a promise that will not be kept.
func (d *Device) forget() {
	if d.record != nil {
		d.record.Wipe()
		d.record, d.handles, d.deposit = nil, nil, nil
	}
}

// expire wipes the record once a mailbox has sent what it has of it.
func (d *Device) expire(now time.Time) {
	if d.record != nil && d.record.open().deposit == placed && !now.Before(d.due) {
		d.forget()
	}
}

// Forget overwrites the record of the open promise, whose report will be that of the null record. Replace what Save
// returned before.
func (d *Device) Forget() {
	if d.record != nil {
		d.record.Forget()
		d.handles, d.deposit = nil, nil
	}
}

// Close wipes the record of the open promise in memory. Call Save before, not after.
func (d *Device) Close() { d.forget() }

// Keys takes a signed set of the shuffler's keys: reports are sealed to the newest one seen. An earlier set is
// ErrRewound.
func (d *Device) Keys(signed []byte) error {
	set, err := d.core.Keys(signed)
	if err != nil {
		return err
	}
	newer, err := Newer(set, d.keys)
	if newer {
		d.keys, d.kept.Keys = set, signed
	}
	return err
}

// seal seals a request to the shuffler's newest key.
func (d *Device) seal(request []byte) (*wire.SealedRequest, error) {
	if d.keys == nil {
		return nil, fmt.Errorf("%w: %w", ErrNoPlace, ErrNoKeys)
	}
	return d.core.Seal(request, d.keys.Keys[0])
}

// Enrol returns the sealed request, made now, for a slot in the cohort in force. Call it before the arms of the
// decision are known, and again where no answer came. Where panels are drawn it asks whether the device is in the
// epoch's: call it once Follow has said that an announcement is fresh, at a time that depends on nothing that the
// person does, and again until there is an answer. ErrNoPlace says why there is nothing to ask.
func (d *Device) Enrol(now time.Time) (request []byte, err error) {
	a := d.last
	switch {
	case d.kept.RolledBack != "":
		err = fmt.Errorf("%w: %s", ErrRolledBack, d.kept.RolledBack)
	case a == nil:
		err = ErrNoPolicy
	case a.Final:
		err = ErrOver
	case a.Round > 0:
		err = fmt.Errorf("the cohort of epoch %d is closed and answers further rounds", a.Epoch)
	default:
		err = a.Weak()
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNoPlace, err)
	}
	next, err := d.state.Ask(a, now)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNoPlace, err)
	}
	var signed []byte
	if a.Panels() {
		signed, err = d.core.Request(a, next.Number)
	} else {
		signed, err = d.core.Requests(a, next)
	}
	if err != nil {
		return nil, err
	}
	sealed, err := d.seal(signed)
	if err != nil {
		return nil, err
	}
	d.heard = d.heard || d.request != nil
	d.state, d.request = next, sealed
	d.draw()
	return sealed.Sealed, nil
}

// Answer is what the shuffler said.
type Answer struct {
	Enrolled bool   `json:"enrolled"`
	*Place          // where it is
	Refusal  string `json:"refusal,omitempty"`
	Again    bool   `json:"again,omitempty"` // no answer: the shuffler is not in this epoch; call Enrol again
}

// Place is where and when a promised report goes, as the ingress or a mailbox is told with it.
type Place struct {
	Epoch    uint64    `json:"epoch"`
	Slot     uint32    `json:"slot"`
	Ticket   []byte    `json:"ticket,omitempty"` // wire.TicketSize bytes; none where the deployment has no ingress
	ReportAt time.Time `json:"report_at"`        // the end of the reward window, by the device's clock
}

// Answer takes the shuffler's reply to the latest request. wire.ErrUnopened is no answer: the shuffler did not open the
// request, because the device has not seen its later keys. ErrRolledBack says that it proves the device's state to be
// older than what the device has done: the device takes no further part in the deployment. *Evidence says that the
// shuffler's word on a panel cannot be true: the device takes no part in this epoch.
func (d *Device) Answer(reply []byte, now time.Time) (Answer, error) {
	if d.kept.RolledBack != "" {
		return Answer{}, fmt.Errorf("%w: %s", ErrRolledBack, d.kept.RolledBack)
	}
	if d.request == nil {
		return Answer{}, errors.New("device: nothing was asked")
	}
	signed, err := d.core.Unseal(d.request, reply)
	if err != nil {
		return Answer{}, err
	}
	request := d.request.Signed
	r, err := d.core.Reply(d.last, request, signed)
	if err != nil {
		return Answer{}, err
	}
	if r.Refusal == wire.RefusalWrongEpoch {
		d.request = nil
		return Answer{Refusal: r.Refusal.String(), Again: true}, nil
	}
	if _, err := d.core.Drawn(d.last, d.state, request, signed, r); err != nil {
		return Answer{}, d.accuse(err)
	}
	if did := d.state.Contradicts(r, d.heard); did != "" { // a device that has promised nothing in this epoch
		d.kept.RolledBack = fmt.Sprintf("in epoch %d the shuffler %s", d.last.Epoch, did)
		return Answer{}, fmt.Errorf("%w: %s", ErrRolledBack, d.kept.RolledBack)
	}
	var next State
	if r.Enrolled {
		next, err = d.state.Promise(d.last, r, now)
	} else {
		next, err = d.state.Answered(d.last, r).Release(d.last)
	}
	if err != nil {
		return Answer{}, fmt.Errorf("device: %w", err)
	}
	d.state, d.request, d.heard = next, nil, false
	if !r.Enrolled {
		return Answer{Refusal: r.Refusal.String()}, nil
	}
	d.due = next.Enrolment.ReportAt
	d.begin()
	return Answer{Enrolled: true, Place: d.state.place()}, nil
}

// Report makes the report that is due, sealed to the shuffler. Keep it together with what Save returns, and send the
// same bytes until the broker has them. ErrNoReport says that none is due yet, or any more.
func (d *Device) Report(now time.Time) (envelope []byte, err error) {
	switch {
	case d.kept.RolledBack != "":
		return nil, fmt.Errorf("%w: %w: %s", ErrNoReport, ErrRolledBack, d.kept.RolledBack)
	case d.record == nil || d.record.Over() || d.record.Reported() != int(d.last.Round):
		return nil, ErrNoReport
	case now.Before(d.due):
		return nil, fmt.Errorf("%w before %s", ErrNoReport, d.due.Format(time.RFC3339Nano))
	case d.last.Weak() != nil:
		return nil, fmt.Errorf("%w: %w", ErrNoReport, d.last.Weak())
	case d.keys == nil:
		return nil, fmt.Errorf("device: %w", ErrNoKeys)
	}
	envelope, next, err := d.core.report(d.state, *d.record, d.last, d.keys.Keys[0], d.noise(false))
	if err != nil {
		return nil, err
	}
	d.state = next
	d.record.Made()
	return envelope, nil
}

//go:build cgo || js

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/riffle-dp/riffle/internal/role/entropy"
	"github.com/riffle-dp/riffle/pkg/device"
	"github.com/riffle-dp/riffle/pkg/privacy"
	"github.com/riffle-dp/riffle/pkg/seal"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// A stack trace shows arguments, and arguments are records.
func init() { debug.SetTraceback("none") }

// argument is what a call takes after the handle.
type argument int

const (
	aStatement argument = iota // bytes that the deployment sent
	aText                      // JSON
	aDecision                  // the handle of one, a whole number
	aReward                    // a number
	aTime                      // milliseconds since 1970 in UTC
)

// arguments are those of one call. What it does not take is zero.
type arguments struct {
	statement []byte
	text      string
	decision  uint64
	reward    float64
	now       time.Time
}

// calls are all that can be asked of an open device, by name.
var calls = map[string]struct {
	takes []argument
	do    func(d *device.Device, a arguments) (any, error)
}{
	// save returns what must be durable before anything that an earlier call returned leaves the machine. It holds the
	// record of the open promise: it is for the device's own disk, and replaces what it returned before.
	"save": {nil, func(d *device.Device, _ arguments) (any, error) { return d.Save() }},

	// status returns device.Status. Nothing in it depends on a record.
	"status": {nil, func(d *device.Device, _ arguments) (any, error) { return d.Status(), nil }},

	// follow takes the next signed announcement. The result is {"fresh": whether it is now in force}.
	"follow": {[]argument{aStatement, aTime}, func(d *device.Device, a arguments) (any, error) {
		fresh, err := d.Follow(a.statement, a.now)
		return map[string]bool{"fresh": fresh}, err
	}},

	// begin takes a signed announcement as the first that the device follows, with the proof that witnesses saw it in
	// the analyzer's log, which is text: Device.Begin says what that means.
	"begin": {[]argument{aText, aStatement}, func(d *device.Device, a arguments) (any, error) {
		return nil, d.Begin([]byte(a.text), a.statement)
	}},

	// keys takes a signed set of the shuffler's keys.
	"keys": {[]argument{aStatement}, func(d *device.Device, a arguments) (any, error) {
		return nil, d.Keys(a.statement)
	}},

	// register returns the request to be registered, where panels are drawn from registered devices. Call it once the
	// device follows the deployment, and again where no answer came.
	"register": {nil, func(d *device.Device, _ arguments) (any, error) { return d.Register() }},

	// registered takes the shuffler's signed reply to register. The result is {"registered", "refusal", "again"};
	// again says that it is no answer.
	"registered": {[]argument{aStatement}, func(d *device.Device, a arguments) (any, error) {
		refusal, again, err := d.Registered(a.statement)
		return map[string]any{"registered": refusal == "", "refusal": refusal, "again": again}, err
	}},

	// enrol returns the request for a slot in the cohort. Call it before the arms of the decision are known. Where
	// panels are drawn it asks whether the device is in the epoch's: call it whenever follow says that an announcement
	// is fresh, at a time that depends on nothing that the person does.
	"enrol": {[]argument{aTime}, func(d *device.Device, a arguments) (any, error) { return d.Enrol(a.now) }},

	// answer takes the shuffler's signed reply to enrol and returns device.Answer.
	"answer": {[]argument{aStatement, aTime}, func(d *device.Device, a arguments) (any, error) {
		return d.Answer(a.statement, a.now)
	}},

	// decide takes arms, a list of lists of numbers, or {"arms": that list, "default": index, "exclude": [index,
	// ...]}: the arm that is played today, else the first, and arms that must not be played, such as those whose limit
	// in the schema is reached. It returns device.Decision.
	"decide": {[]argument{aText}, func(d *device.Device, a arguments) (any, error) {
		arms, of, unreadable := readArms(a.text)
		made, err := d.DecideFor(arms, of, entropy.New()) // it notes that arms are known, readable or not
		if unreadable != nil {
			return nil, unreadable
		}
		return made, err
	}},

	// encode makes vectors of arms, for decide, as the announced schema of features says, of {"context": {name: value,
	// ...}, "arms": [{"id": text, name: value, ...}, ...]}. It returns a list of lists of numbers, in the order of the
	// arms.
	"encode": {[]argument{aText}, func(d *device.Device, a arguments) (any, error) {
		about, unreadable := readAsked(a.text)
		arms, err := d.Encode(about.Context, about.Arms) // as above
		if unreadable != nil {
			return nil, unreadable
		}
		return arms, err
	}},

	// reward takes the reward of the decision with that handle, also after a restart. It returns device.Acceptance.
	"reward": {[]argument{aDecision, aReward, aTime}, func(d *device.Device, a arguments) (any, error) {
		return d.Reward(a.decision, a.reward, a.now)
	}},

	// forget overwrites the record: its report is that of the null record. Then replace what save returned before.
	"forget": {nil, func(d *device.Device, _ arguments) (any, error) {
		d.Forget()
		return nil, nil
	}},

	// report returns the sealed report that is due. Keep it with what save returns, and send the same bytes until the
	// broker has them.
	"report": {[]argument{aTime}, func(d *device.Device, a arguments) (any, error) {
		return d.Report(a.now)
	}},

	// deposit returns the sealed report that a mailbox is to have now, where the device may be gone when it is due:
	// once before the arms are known, of the null record, and once after the reward. Keep what save returns before the
	// first leaves. It takes the place of report.
	"deposit": {[]argument{aTime}, func(d *device.Device, a arguments) (any, error) {
		return d.Deposit(a.now)
	}},

	// deposited says that the mailbox has what deposit returned last. Only then the device reports on a decision.
	"deposited": {nil, func(d *device.Device, _ arguments) (any, error) {
		d.Deposited()
		return nil, nil
	}},
}

var (
	errClosed = errors.New("the handle is that of no device")
	errFailed = errors.New("the library failed; the device of this handle should be closed")
)

// one is a device and its lock.
type one struct {
	mu     sync.Mutex
	device *device.Device
}

var (
	devices sync.Map // handle -> *one
	handles atomic.Int64
)

// open opens a device. sign is nil where the configuration holds a seed.
func open(text string, saved []byte, sign func(message []byte) ([]byte, error)) (handle int64, err error) {
	c, err := readConfig(text)
	if err != nil {
		return 0, err
	}
	by, err := c.signer(sign)
	if err != nil {
		return 0, fmt.Errorf("config: identity: %w", err)
	}
	witnesses, err := c.witnesses()
	if err != nil {
		return 0, err
	}
	d, err := device.Open(device.Config{
		Deployment: c.Deployment, Analyzer: c.Analyzer, Shuffler: c.Shuffler, Identity: by, Credential: c.Credential,
		Limits: c.Limits, Witnesses: witnesses,
	}, c.Number, saved)
	if err != nil {
		return 0, err
	}
	handle = handles.Add(1)
	devices.Store(handle, &one{device: d})
	return handle, nil
}

// public is the public half of a seed, by which an issuer admits the device.
func public(seed []byte) (any, error) {
	id, err := seal.NewIdentity(seed)
	if err != nil {
		return nil, err
	}
	return id.Public(), nil
}

// closed forgets a device and wipes its record. A handle that is closed already is no error.
func closed(handle int64) {
	if v, ok := devices.LoadAndDelete(handle); ok {
		o := v.(*one)
		o.mu.Lock()
		defer o.mu.Unlock()
		o.device.Close()
	}
}

// ask is what a call returns of the device of a handle, alone: bytes of the wire, or text.
func ask(handle int64, name string, a arguments) (any, error) {
	v, ok := devices.Load(handle)
	if !ok {
		return nil, fmt.Errorf("%w: %d", errClosed, handle)
	}
	o := v.(*one)
	o.mu.Lock()
	defer o.mu.Unlock()
	out, err := calls[name].do(o.device, a)
	if err != nil || out == nil {
		return nil, err
	}
	if b, raw := out.([]byte); raw {
		return b, nil
	}
	b, err := json.Marshal(out)
	return string(b), err
}

// guarded turns a panic into errFailed.
func guarded(f func() error) (err error) {
	defer func() {
		if recover() != nil {
			err = errFailed
		}
	}()
	return f()
}

// reasons are the words for errors. An error has the first that fits: the more precise ones come first.
var reasons = []struct {
	word string
	err  error
}{
	{"closed", errClosed},
	{"failed", errFailed},
	{"saved", device.ErrSaved},
	{"rolled_back", device.ErrRolledBack},
	{"rewound", device.ErrRewound},
	{"begin", device.ErrBegin},
	{"no_policy", device.ErrNoPolicy},
	{"no_schema", device.ErrNoSchema},
	{"no_keys", device.ErrNoKeys},
	{"over", device.ErrOver},
	{"budget", privacy.ErrBudget},
	{"budget", privacy.ErrRecordUsed},
	{"unopened", wire.ErrUnopened},   // take the shuffler's newer keys, and ask again
	{"foreign", wire.ErrForeign},     // the expected party did not sign it
	{"signature", seal.ErrSignature}, // the device's own key did not sign
	{"late", device.ErrLate},
	{"bad_reward", device.ErrReward},
	{"no_place", device.ErrNoPlace},
	{"no_report", device.ErrNoReport},
}

// reasonOf is the word for an error; empty where there is none.
func reasonOf(err error) string {
	if proof := (*device.Evidence)(nil); errors.As(err, &proof) {
		return "contradiction" // what the shuffler signed cannot be true
	}
	if weak := (*device.WeakPlan)(nil); errors.As(err, &weak) {
		return "weak"
	}
	for _, r := range reasons {
		if errors.Is(err, r.err) {
			return r.word
		}
	}
	return ""
}

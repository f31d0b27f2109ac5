// Package outcome keeps account of what became of the items that a role receives.
//
// Every role of Riffle keeps the identity
//
//	resumed + received = released + refused{reason} + pending
//
// for each kind of item that it handles (reports, bit messages). Received, released and refused items are counted
// here, as they happen; pending items are counted by the role itself, out of the place where it holds them. So the
// identity is not true by construction: an item that is lost, or counted twice, shows as unaccounted, on /metrics and
// in Check.
//
// A role declares its reasons as constants of type Reason. A reason is the error that the refusing function returns,
// the label of the metric and the field of a log line at once, so the three cannot drift apart:
//
//	const Duplicate outcome.Reason = "duplicate" // a report of this slot was admitted before
//
//	return fmt.Errorf("%w: release %s", Duplicate, release) // errors.Is(err, Duplicate)
//	reason := reports.Refused(err, 1)                       // riffle_refused_total{reason="duplicate"}
//	log.Warn().Str(outcome.Field, string(reason))
//
// Prefer the totals, which the start-up shell logs at intervals, to a line per item: the lines of a log are in order,
// and the order in which items arrived is not shown.
package outcome

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
)

// A Reason is why an item was refused, dropped or tried again. Its text is lower_case.
type Reason string

// Error is the text of the reason.
func (r Reason) Error() string { return string(r) }

// Unlisted counts refusals whose error holds none of the reasons that the role declared. It is a mistake in the role;
// the items are still accounted for.
const Unlisted Reason = "unlisted"

// Field is the log field that a reason goes into.
const Field = "reason"

var form = regexp.MustCompile(`^[a-z][a-z0-9]*(_[a-z0-9]+)*$`)

// Outcomes counts what became of one kind of item. Safe for concurrent use. A call costs one lock: on a hot path
// count a batch first and tell it once. A nil *Outcomes counts nothing, for roles whose surroundings want no account.
type Outcomes struct {
	item    string
	reasons []Reason
	held    func() int64
	descs   descriptions

	mu                          sync.Mutex
	received, resumed, released uint64
	refused, retried            []uint64 // by index in reasons
}

type descriptions struct {
	received, resumed, released, refused, retried, pending, unaccounted *prometheus.Desc
}

// New registers the account of item ("report", "bit_message") at role. held tells how many items the role holds at the
// moment, counted where it holds them; nil means that it never holds any between calls.
func New(reg prometheus.Registerer, role, item string, held func() int64, reasons ...Reason) (*Outcomes, error) {
	reasons = append(slices.Clone(reasons), Unlisted)
	for i, r := range reasons {
		if !form.MatchString(string(r)) {
			return nil, fmt.Errorf("outcome: the reason %q of %s %s must be lower_case", string(r), role, item)
		}
		if slices.Contains(reasons[:i], r) {
			return nil, fmt.Errorf("outcome: the reason %q of %s %s is declared twice", string(r), role, item)
		}
	}
	if held == nil {
		held = func() int64 { return 0 }
	}
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("riffle_"+name, help, labels, prometheus.Labels{"role": role, "item": item})
	}
	o := &Outcomes{item: item, reasons: reasons, held: held,
		refused: make([]uint64, len(reasons)), retried: make([]uint64, len(reasons)),
		descs: descriptions{
			received: desc("received_total", "Items that came in."),
			resumed:  desc("resumed_items", "Items that were already held when the process started."),
			released: desc("released_total", "Items that went on to the next tier, or into a result."),
			refused:  desc("refused_total", "Items that were refused or dropped, by reason.", "reason"),
			retried: desc("retried_total", "Steps that were tried again, by reason; a retry is no outcome.",
				"reason"),
			pending: desc("pending_items", "Items held at the moment."),
			unaccounted: desc("unaccounted_items",
				"resumed + received - released - refused - pending. It may leave 0 for moments while items are on "+
					"their way; if it stays away from 0, items were lost or counted twice."),
		}}
	if err := reg.Register(o); err != nil {
		return nil, fmt.Errorf("outcome: %s %s: %w", role, item, err)
	}
	return o, nil
}

// Item is the kind of item that is counted.
func (o *Outcomes) Item() string { return o.item }

// Received counts n items that came in, whatever becomes of them.
func (o *Outcomes) Received(n int) {
	if o != nil {
		o.count(&o.received, n)
	}
}

// Resumed counts n items that an earlier process received and that this one found in its store.
func (o *Outcomes) Resumed(n int) {
	if o != nil {
		o.count(&o.resumed, n)
	}
}

// Released counts n items that went on.
func (o *Outcomes) Released(n int) {
	if o != nil {
		o.count(&o.released, n)
	}
}

// Refused counts n items refused for the reason that err holds, and returns that reason: Unlisted if err holds none
// of the declared ones.
func (o *Outcomes) Refused(err error, n int) Reason {
	if o == nil {
		return reasonIn(err)
	}
	i := o.index(err)
	o.count(&o.refused[i], n)
	return o.reasons[i]
}

// Retried counts one step that is tried again because of err. The items that it handles stay pending.
func (o *Outcomes) Retried(err error) Reason {
	if o == nil {
		return reasonIn(err)
	}
	i := o.index(err)
	o.count(&o.retried[i], 1)
	return o.reasons[i]
}

func (o *Outcomes) count(counter *uint64, n int) {
	if n <= 0 {
		return
	}
	o.mu.Lock()
	*counter += uint64(n)
	o.mu.Unlock()
}

// reasonIn is the reason that err holds, whether or not it was declared.
func reasonIn(err error) Reason {
	reason := Unlisted
	errors.As(err, &reason)
	return reason
}

func (o *Outcomes) index(err error) int {
	var reason Reason
	if errors.As(err, &reason) {
		if i := slices.Index(o.reasons, reason); i >= 0 {
			return i
		}
	}
	return len(o.reasons) - 1 // Unlisted
}

// A Count is how many items one reason took.
type Count struct {
	Reason Reason
	Items  uint64
}

// A Balance is an account at one moment. Refused and Retried have every declared reason, in the order of declaration,
// and Unlisted at the end.
type Balance struct {
	Received, Resumed, Released uint64
	Refused, Retried            []Count
	Pending                     int64
}

// Unaccounted is what the identity is off by: positive if items were lost, negative if items were counted twice.
func (b Balance) Unaccounted() int64 {
	rest := int64(b.Resumed+b.Received) - int64(b.Released) - b.Pending
	for _, c := range b.Refused {
		rest -= int64(c.Items)
	}
	return rest
}

// Balance reads the account.
func (o *Outcomes) Balance() Balance {
	pending := o.held() // before the lock: held takes the locks of the role, under which the role may count
	o.mu.Lock()
	defer o.mu.Unlock()
	b := Balance{Received: o.received, Resumed: o.resumed, Released: o.released, Pending: pending}
	for i, r := range o.reasons {
		b.Refused = append(b.Refused, Count{r, o.refused[i]})
		b.Retried = append(b.Retried, Count{r, o.retried[i]})
	}
	return b
}

// Check returns an error if the identity does not hold, or if a refusal had no declared reason. Call it when nothing
// is on its way: at the end of a test, of a release, of a process.
func (o *Outcomes) Check() error {
	b := o.Balance()
	var faults []error
	if u := b.Unaccounted(); u != 0 {
		faults = append(faults, fmt.Errorf("outcome: %d items %s unaccounted for: resumed %d + received %d != "+
			"released %d + refused %v + pending %d",
			u, o.item, b.Resumed, b.Received, b.Released, b.Refused, b.Pending))
	}
	if n := b.Refused[len(b.Refused)-1].Items; n > 0 {
		faults = append(faults, fmt.Errorf("outcome: %d items %s refused without a declared reason", n, o.item))
	}
	return errors.Join(faults...)
}

// Describe is for prometheus.
func (o *Outcomes) Describe(ch chan<- *prometheus.Desc) {
	d := o.descs
	for _, desc := range []*prometheus.Desc{d.received, d.resumed, d.released, d.refused, d.retried, d.pending,
		d.unaccounted} {
		ch <- desc
	}
}

// Collect is for prometheus. Every reason is there from the start, at 0, so that an alert on its increase sees the
// first.
func (o *Outcomes) Collect(ch chan<- prometheus.Metric) {
	b := o.Balance()
	counter := func(d *prometheus.Desc, n uint64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(n), labels...)
	}
	gauge := func(d *prometheus.Desc, n int64) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, float64(n))
	}
	counter(o.descs.received, b.Received)
	counter(o.descs.released, b.Released)
	gauge(o.descs.resumed, int64(b.Resumed))
	gauge(o.descs.pending, b.Pending)
	gauge(o.descs.unaccounted, b.Unaccounted())
	for i := range b.Refused {
		counter(o.descs.refused, b.Refused[i].Items, string(b.Refused[i].Reason))
		counter(o.descs.retried, b.Retried[i].Items, string(b.Retried[i].Reason))
	}
}

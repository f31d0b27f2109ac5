package privacy

import (
	"errors"
	"fmt"
	"slices"
	"time"
)

// Errors of the ledger. Each is wrapped in a sentence with the numbers.
var (
	// ErrBudget says that a record would exceed the budget. Nothing was set aside.
	ErrBudget = errors.New("privacy: past the budget")
	// ErrRecordUsed says that the person's one record was used already. Nothing was set aside.
	ErrRecordUsed = errors.New("privacy: the record is used already")
	// ErrEntry says that the named entry does not exist or is not in the state that the call needs.
	ErrEntry = errors.New("privacy: no such ledger entry")
)

// EntryState tells how far one entry of a ledger has come.
type EntryState string

const (
	// Asked: a slot in the epoch's cohort was asked for, and it is not known whether it was given: the device may be
	// in the cohort without having heard so. Nothing has left the device. The guarantee counts as spent all the same,
	// for ever if no answer comes (but see Expire).
	Asked EntryState = "asked"
	// Reserved: the device has promised to report, and nothing has left it. The guarantee counts as spent all the same.
	Reserved EntryState = "reserved"
	// Spent: a report has left the device, or may have. It cannot be undone.
	Spent EntryState = "spent"
)

// Entry is the use of one record of a person in all the releases of one epoch. Where devices are drawn for panels, a
// record is everything that the person did in the epoch.
type Entry struct {
	Epoch     uint64     `json:"epoch"`
	Releases  int        `json:"releases"` // releases that use the record
	Guarantee Guarantee  `json:"guarantee"`
	State     EntryState `json:"state"`
	// Alone is the guarantee that is left if no other device is honest. Nil: there is none.
	Alone *Guarantee `json:"alone,omitempty"`
	// At is the latest time, by the device's own clock, that the entry is about: when its place was asked for, and once
	// it is promised, when its report is due. Zero in a ledger without a Span.
	At time.Time `json:"at,omitzero"`
}

// alone is the guarantee that is left if no other device is honest.
func (e Entry) alone() Guarantee {
	if e.Alone == nil {
		return NoGuarantee()
	}
	return *e.Alone
}

// Ledger is what one person has promised and spent over a deployment. It is a value: every method that changes it
// returns what to store, and the caller makes that durable before acting on it. An entry begins with Ask, before any
// other party hears of the device's request to take part. If the answer is no, Release removes the entry; if it is yes,
// Promise and then Spend follow. Without an answer the entry stays, since after a crash it cannot be known that nothing
// was promised.
//
// Entries compose: a person with m records in m different cohorts has mu*sqrt(m) (group privacy stated, not hidden).
//
// With a Period the limits hold for every Period epochs that follow each other, and for every Span of time by the
// device's own clock: another party sets how long epochs are. Nothing limits what all periods amount to together: that
// is a budget per period, and Total and Explain say what it has come to.
type Ledger struct {
	Epsilon float64 `json:"epsilon"` // the person's limit, at Delta, over all entries that count together
	Delta   float64 `json:"delta"`
	// Records is how many records of this person may be used in the deployment, or in a period; 0 means 1.
	Records int     `json:"records,omitempty"`
	Entries []Entry `json:"entries,omitempty"`
	// EpsilonAlone is the person's limit, at Delta and over all entries that count together, on what is revealed if no
	// other device is honest; 0: no limit.
	EpsilonAlone float64 `json:"epsilon_alone,omitempty"`
	// Period is the number of epochs in a row whose entries count together; 0: all entries do.
	Period int `json:"period,omitempty"`
	// Span is the time within which entries count together as well, whatever their epochs: none is asked for until all
	// that would count together with it, ended (Entry.At) so long ago. 0: epochs alone decide.
	Span time.Duration `json:"span,omitempty"`
}

// Under is the ledger under a plan that uses so many records of one person in every period epochs in a row, 0 for the
// whole deployment, where these are no less than span. The entries and the person's limits stay; Ask compares them with
// what they were in each period.
func (l Ledger) Under(records, period int, span time.Duration) Ledger {
	l.Records, l.Period, l.Span = records, max(0, period), max(0, span)
	return l
}

// records is how many entries the person agrees to, of those that count together.
func (l Ledger) records() int { return max(1, l.Records) }

// window is a set of entries that count together.
type window struct {
	entries []Entry
	within  string // in what they do: the rest of a sentence, empty for the deployment
	timed   bool   // in Span, and not in Period
}

// windows are the sets of entries that an entry of the epoch, asked for at a time, would count together with: one of
// all entries, or where there is a Period one for each run of so many epochs that holds the epoch, and one of those
// that ended less than Span before. Of the runs only those that begin with an entry matter: between two of them the set
// gets no larger. An entry that ends later than the new one begins, as after a clock was set back, is in the last of
// them.
func (l Ledger) windows(epoch uint64, at time.Time) (out []window) {
	if l.Period <= 0 {
		return []window{{entries: l.Entries}}
	}
	period := uint64(l.Period)
	starts := []uint64{epoch}
	for _, e := range l.Entries {
		if e.Epoch <= epoch && epoch-e.Epoch < period {
			starts = append(starts, e.Epoch)
		}
	}
	within := fmt.Sprintf(" in any %s in a row", count(l.Period, "epoch"))
	for _, start := range starts {
		those := l.those(func(e Entry) bool { return e.Epoch >= start && e.Epoch-start < period })
		out = append(out, window{entries: those, within: within})
	}
	if l.Span > 0 {
		those := l.those(func(e Entry) bool { return at.Before(e.At.Add(l.Span)) })
		out = append(out, window{entries: those, within: " in any " + spell(l.Span), timed: true})
	}
	return out
}

// those are the entries of which something holds.
func (l Ledger) those(holds func(Entry) bool) (out []Entry) {
	for _, e := range l.Entries {
		if holds(e) {
			out = append(out, e)
		}
	}
	return out
}

// next is the epoch after all entries, and the time at which the last of them ends: what is said to be left is left
// there.
func (l Ledger) next() (epoch uint64, at time.Time) {
	for _, e := range l.Entries {
		epoch = max(epoch, e.Epoch)
		if e.At.After(at) {
			at = e.At
		}
	}
	return epoch + 1, at
}

// latest are the entries that one of the next epoch would count together with.
func (l Ledger) latest() (out []Entry) {
	for _, w := range l.windows(l.next()) {
		if len(w.entries) > len(out) {
			out = w.entries
		}
	}
	return out
}

// composed is the guarantee of some entries, and alone what is left of it if no other device is honest.
func composed(entries []Entry) (all, alone Guarantee) {
	gs, as := make([]Guarantee, len(entries)), make([]Guarantee, len(entries))
	for i, e := range entries {
		gs[i], as[i] = e.Guarantee, e.alone()
	}
	return Compose(gs...), Compose(as...)
}

// Total is the guarantee of everything asked for, promised and spent, in all periods.
func (l Ledger) Total() Guarantee {
	g, _ := composed(l.Entries)
	return g
}

// TotalAlone is the guarantee of everything asked for, promised and spent, in all periods, that is left if no other
// device is honest: none if one entry has none.
func (l Ledger) TotalAlone() Guarantee {
	_, g := composed(l.Entries)
	return g
}

// Ask sets the guarantees of an epoch's releases aside, before a slot in its cohort is asked for at that time: together
// while the noise of the others is there, alone if no other device is honest (NoGuarantee where that leaves none). It
// refuses (ErrRecordUsed, ErrBudget) what would exceed the person's limits, and a guarantee that promises nothing where
// there is a limit: always for together, and for alone where EpsilonAlone is set.
//
// Where there is a Period, each run of so many epochs that holds this one must keep to the limits, and so must what
// ended within Span before.
func (l Ledger) Ask(epoch uint64, at time.Time, releases int, together, alone Guarantee) (Ledger, error) {
	if i := l.find(epoch); i >= 0 {
		return l, fmt.Errorf("%w: epoch %d is in the ledger as %s", ErrRecordUsed, epoch, l.Entries[i].State)
	}
	for _, w := range l.windows(epoch, at) {
		if err := l.room(epoch, w, together, alone); err != nil {
			return l, err
		}
	}
	entry := Entry{Epoch: epoch, Releases: releases, Guarantee: together, State: Asked}
	if l.Span > 0 {
		entry.At = at
	}
	if alone.promises() { // JSON has no number for the other
		entry.Alone = &alone
	}
	l.Entries = append(slices.Clone(l.Entries), entry)
	return l, nil
}

// room refuses an entry of the epoch that would exceed the person's limits together with those of a window.
func (l Ledger) room(epoch uint64, w window, g, alone Guarantee) error {
	within := w.within
	if n, used := l.records(), len(w.entries); used >= n {
		return fmt.Errorf("%w: %s of %d allowed%s; the last one in epoch %d", ErrRecordUsed, count(used, "record"), n,
			within, w.entries[used-1].Epoch)
	}
	so, soAlone := composed(w.entries)
	after := Compose(g, so)
	if eps := after.Epsilon(l.Delta); !(eps <= l.Epsilon) {
		return fmt.Errorf("%w: epoch %d would bring epsilon to %s at delta %g%s, the limit is %g; so far %s",
			ErrBudget, epoch, Spell(eps), l.Delta, within, l.Epsilon, Spell(so.Epsilon(l.Delta)))
	}
	if l.EpsilonAlone == 0 { // a limit that is not a number is one that nothing keeps
		return nil
	}
	after = Compose(alone, soAlone)
	if eps := after.Epsilon(l.Delta); !(eps <= l.EpsilonAlone) {
		return fmt.Errorf("%w: if no other device is honest, epoch %d would bring epsilon to %s at delta %g%s, the "+
			"limit is %g; so far %s", ErrBudget, epoch, Spell(eps), l.Delta, within, l.EpsilonAlone,
			Spell(soAlone.Epsilon(l.Delta)))
	}
	return nil
}

// Promise marks what was asked for as given: the device will report, and what it reports on ends at due. Promising
// again is no error; an epoch that was not asked for, or is spent, is ErrEntry.
func (l Ledger) Promise(epoch uint64, due time.Time) (Ledger, error) {
	i := l.find(epoch)
	if i < 0 || l.Entries[i].State == Spent {
		return l, fmt.Errorf("%w: epoch %d was not asked for", ErrEntry, epoch)
	}
	l.Entries = slices.Clone(l.Entries)
	l.Entries[i].State = Reserved
	if l.Span > 0 && due.After(l.Entries[i].At) {
		l.Entries[i].At = due
	}
	return l, nil
}

// Spend marks an epoch's promise as spent: call it before the first report of the epoch leaves. Spending again is no
// error; an epoch that was not promised is ErrEntry.
func (l Ledger) Spend(epoch uint64) (Ledger, error) {
	i := l.find(epoch)
	if i < 0 || l.Entries[i].State == Asked {
		return l, fmt.Errorf("%w: epoch %d was never promised", ErrEntry, epoch)
	}
	l.Entries = slices.Clone(l.Entries)
	l.Entries[i].State = Spent
	return l, nil
}

// Release removes what was asked for and will certainly not be given. A promise cannot be removed: that is ErrEntry.
func (l Ledger) Release(epoch uint64) (Ledger, error) {
	i := l.find(epoch)
	if i < 0 || l.Entries[i].State != Asked {
		return l, fmt.Errorf("%w: epoch %d has no open question", ErrEntry, epoch)
	}
	l.Entries = slices.Delete(slices.Clone(l.Entries), i, i+1)
	return l, nil
}

// Expire takes back what was asked for or promised in epochs before this one. It is for panels only, once those epochs
// are over: membership depends on nothing that the person did, so that a device from which no report left has revealed
// nothing and never will. Where devices enrol as they arrive a promise is never taken back. What is spent stays.
func (l Ledger) Expire(epoch uint64) Ledger {
	l.Entries = slices.DeleteFunc(slices.Clone(l.Entries), func(e Entry) bool {
		return e.Epoch < epoch && e.State != Spent
	})
	return l
}

// State tells how far the entry of an epoch has come; "" where there is none.
func (l Ledger) State(epoch uint64) EntryState {
	if i := l.find(epoch); i >= 0 {
		return l.Entries[i].State
	}
	return ""
}

func (l Ledger) find(epoch uint64) int {
	return slices.IndexFunc(l.Entries, func(e Entry) bool { return e.Epoch == epoch })
}

package privacy

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
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
	// for ever if no answer comes.
	Asked EntryState = "asked"
	// Reserved: the device has promised to report, and nothing has left it. The guarantee counts as spent all the same.
	Reserved EntryState = "reserved"
	// Spent: a report has left the device, or may have. It cannot be undone.
	Spent EntryState = "spent"
)

// Entry is the use of one record of a person in all the releases of one epoch.
type Entry struct {
	Epoch     uint64     `json:"epoch"`
	Releases  int        `json:"releases"` // releases that use the record
	Guarantee Guarantee  `json:"guarantee"`
	State     EntryState `json:"state"`
	// Alone is the guarantee that is left if no other device is honest. Nil: there is none, or the entry is of a version
	// that did not know of it.
	Alone *Guarantee `json:"alone,omitempty"`
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
// other party hears of the device's wish to take part. If the answer is no, Release removes the entry; if it is yes,
// Promise and then Spend follow. Without an answer the entry stays, since after a crash it cannot be known that nothing
// was promised.
//
// Entries compose: a person with m records in m different cohorts has mu*sqrt(m) (group privacy stated, not hidden).
type Ledger struct {
	Epsilon float64 `json:"epsilon"` // the person's limit, at Delta, over all entries
	Delta   float64 `json:"delta"`
	// Records is how many records of this person may be used in the deployment; 0 means 1.
	Records int     `json:"records,omitempty"`
	Entries []Entry `json:"entries,omitempty"`
	// EpsilonAlone is the person's limit, at Delta and over all entries, on what is revealed if no other device is
	// honest; 0: no limit.
	EpsilonAlone float64 `json:"epsilon_alone,omitempty"`
}

// records is how many entries the person agrees to.
func (l Ledger) records() int { return max(1, l.Records) }

// Total is the guarantee of everything asked for, promised and spent.
func (l Ledger) Total() Guarantee {
	gs := make([]Guarantee, len(l.Entries))
	for i, e := range l.Entries {
		gs[i] = e.Guarantee
	}
	return Compose(gs...)
}

// TotalAlone is the guarantee of everything asked for, promised and spent that is left if no other device is honest:
// none if one entry has none.
func (l Ledger) TotalAlone() Guarantee {
	gs := make([]Guarantee, len(l.Entries))
	for i, e := range l.Entries {
		gs[i] = e.alone()
	}
	return Compose(gs...)
}

// Ask sets the guarantees of an epoch's releases aside, before a slot in its cohort is asked for: together while the
// noise of the others is there, alone if no other device is honest (NoGuarantee where that leaves none). It refuses
// (ErrRecordUsed, ErrBudget) what would exceed the person's limits, and a guarantee that promises nothing where there
// is a limit: always for together, and for alone where EpsilonAlone is set.
func (l Ledger) Ask(epoch uint64, releases int, together, alone Guarantee) (Ledger, error) {
	if i := l.find(epoch); i >= 0 {
		return l, fmt.Errorf("%w: epoch %d is in the ledger as %s", ErrRecordUsed, epoch, l.Entries[i].State)
	}
	if n := l.records(); len(l.Entries) >= n {
		return l, fmt.Errorf("%w: %s of %d allowed; the last one in epoch %d",
			ErrRecordUsed, count(len(l.Entries), "record"), n, l.Entries[len(l.Entries)-1].Epoch)
	}
	after := Compose(together, l.Total())
	if eps := after.Epsilon(l.Delta); !(eps <= l.Epsilon) {
		return l, fmt.Errorf("%w: epoch %d would bring epsilon to %s at delta %g, the limit is %g; so far %s",
			ErrBudget, epoch, Spell(eps), l.Delta, l.Epsilon, Spell(l.Total().Epsilon(l.Delta)))
	}
	if l.EpsilonAlone != 0 { // a limit that is not a number is one that nothing keeps
		after := Compose(alone, l.TotalAlone())
		if eps := after.Epsilon(l.Delta); !(eps <= l.EpsilonAlone) {
			return l, fmt.Errorf("%w: if no other device is honest, epoch %d would bring epsilon to %s at delta %g, the "+
				"limit is %g; so far %s", ErrBudget, epoch, Spell(eps), l.Delta, l.EpsilonAlone,
				Spell(l.TotalAlone().Epsilon(l.Delta)))
		}
	}
	entry := Entry{Epoch: epoch, Releases: releases, Guarantee: together, State: Asked}
	if alone.promises() { // JSON has no number for the other
		entry.Alone = &alone
	}
	l.Entries = append(slices.Clone(l.Entries), entry)
	return l, nil
}

// Promise marks what was asked for as given: the device will report. Promising again is no error; an epoch that was not
// asked for, or is spent, is ErrEntry.
func (l Ledger) Promise(epoch uint64) (Ledger, error) {
	i := l.find(epoch)
	if i < 0 || l.Entries[i].State == Spent {
		return l, fmt.Errorf("%w: epoch %d was not asked for", ErrEntry, epoch)
	}
	l.Entries = slices.Clone(l.Entries)
	l.Entries[i].State = Reserved
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

// Explain says in words what was spent, what is promised or may be, and what is left.
func (l Ledger) Explain() string {
	var b strings.Builder
	total := l.Total().Epsilon(l.Delta)
	fmt.Fprintf(&b, "Limit: epsilon %g at delta %g, %s.\n", l.Epsilon, l.Delta, count(l.records(), "record"))
	if l.EpsilonAlone > 0 {
		fmt.Fprintf(&b, "Limit if no other device is honest: epsilon %g at delta %g.\n", l.EpsilonAlone, l.Delta)
	}
	if len(l.Entries) == 0 {
		b.WriteString("Nothing was spent or promised: no report about this person has left the device.\n")
		return b.String()
	}
	for _, e := range l.Entries {
		what := "a report has left the device"
		switch e.State {
		case Reserved:
			what = "promised; no report has left the device yet"
		case Asked:
			what = "a place was asked for and no answer has come, so this counts as a promise, which may " +
				"not be kept; no report has left the device"
		}
		fmt.Fprintf(&b, "Epoch %d: epsilon %s over %s; %s.\n",
			e.Epoch, Spell(e.Guarantee.Epsilon(l.Delta)), count(e.Releases, "release"), what)
	}
	fmt.Fprintf(&b, "Together: epsilon %s of %g. ", Spell(total), l.Epsilon)
	if l.EpsilonAlone != 0 {
		fmt.Fprintf(&b, "If no other device is honest: epsilon %s of %g. ", Spell(l.TotalAlone().Epsilon(l.Delta)),
			l.EpsilonAlone)
	}
	if left := l.records() - len(l.Entries); left > 0 {
		fmt.Fprintf(&b, "%s may still be used; the next one at epsilon %.3f at most.\n",
			count(left, "record"), math.Floor(l.Left()*1000)/1000)
	} else {
		fmt.Fprintf(&b, "Nothing more will be sent: %s used.\n", count(len(l.Entries), "record"))
	}
	if alone := Spell(l.TotalAlone().Epsilon(l.Delta)); alone != Spell(math.Inf(1)) {
		fmt.Fprintf(&b, "If no other device is honest: epsilon %s.\n", alone)
	} else {
		b.WriteString("If no other device is honest, nothing bounds what is revealed.\n")
	}
	return b.String()
}

// Left is the largest epsilon, at the ledger's Delta and rounded down, that one more record may have within the limit;
// 0 if there may be no more records. Guarantees do not subtract: two records of epsilon 0.7 are about one of epsilon 1.
// It answers for an entry with a Mu, as the channels' have. In a ledger with a Rho that holds for an entry with a Rho
// too: at the same epsilon it has less zCDP. Ask decides in any case.
func (l Ledger) Left() float64 {
	total := l.Total()
	if len(l.Entries) >= l.records() || !(total.Epsilon(l.Delta) <= l.Epsilon) {
		return 0
	}
	allowed := func(mu float64) bool {
		return Compose(total, Guarantee{Mu: mu}).Epsilon(l.Delta) <= l.Epsilon
	}
	most, err := MuFor(l.Epsilon, l.Delta)
	if err != nil {
		return 0
	}
	lo, hi := 0.0, most
	for range 60 {
		if mid := (lo + hi) / 2; allowed(mid) {
			lo = mid
		} else {
			hi = mid
		}
	}
	return math.Max(0, Guarantee{Mu: lo}.Epsilon(l.Delta)*(1-1e-9))
}

func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

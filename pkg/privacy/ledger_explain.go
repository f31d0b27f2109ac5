package privacy

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
)

// Explain says in words what was spent, what is promised or may be, and what is left.
func (l Ledger) Explain() string {
	var b strings.Builder
	if l.Period > 0 {
		fmt.Fprintf(&b,
			"Limit: epsilon %g at delta %g, %s, in any %s in a row%s. This is a budget per period, and not for the "+
				"whole deployment.\n", l.Epsilon, l.Delta, count(l.records(), "record"), count(l.Period, "epoch"),
			l.andSpan())
	} else {
		fmt.Fprintf(&b, "Limit: epsilon %g at delta %g, %s.\n", l.Epsilon, l.Delta, count(l.records(), "record"))
	}
	if l.EpsilonAlone > 0 {
		fmt.Fprintf(&b, "Limit if no other device is honest: epsilon %g at delta %g.\n", l.EpsilonAlone, l.Delta)
	}
	if len(l.Entries) == 0 {
		b.WriteString("Nothing was spent or promised: no report about this person has left the device.\n")
		return b.String()
	}
	for _, e := range l.Entries {
		fmt.Fprintf(&b, "Epoch %d: epsilon %s over %s; %s.\n",
			e.Epoch, Spell(e.Guarantee.Epsilon(l.Delta)), count(e.Releases, "release"), e.State.means())
	}
	latest := l.latest()
	total, alone := composed(latest)
	if l.Period > 0 {
		next, _ := l.next()
		fmt.Fprintf(&b, "In the period that epoch %d would belong to: epsilon %s of %g. ", next,
			Spell(total.Epsilon(l.Delta)), l.Epsilon)
	} else {
		fmt.Fprintf(&b, "Together: epsilon %s of %g. ", Spell(total.Epsilon(l.Delta)), l.Epsilon)
	}
	if l.EpsilonAlone != 0 {
		fmt.Fprintf(&b, "If no other device is honest: epsilon %s of %g. ", Spell(alone.Epsilon(l.Delta)),
			l.EpsilonAlone)
	}
	switch left := l.records() - len(latest); {
	case left > 0:
		fmt.Fprintf(&b, "%s may still be used; the next one at epsilon %.3f at most.\n",
			count(left, "record"), math.Floor(l.Left()*1000)/1000)
	case l.Period > 0:
		fmt.Fprintf(&b, "Nothing more will be sent before %s: %s used.\n", l.until(), count(len(latest), "record"))
	default:
		fmt.Fprintf(&b, "Nothing more will be sent: %s used.\n", count(len(latest), "record"))
	}
	if l.Period > 0 {
		fmt.Fprintf(&b, "All periods so far together: epsilon %s, which no limit bounds.\n",
			Spell(l.Total().Epsilon(l.Delta)))
	}
	if alone := Spell(l.TotalAlone().Epsilon(l.Delta)); alone != Spell(math.Inf(1)) {
		fmt.Fprintf(&b, "If no other device is honest: epsilon %s.\n", alone)
	} else {
		b.WriteString("If no other device is honest, nothing bounds what is revealed.\n")
	}
	return b.String()
}

// andSpan continues a number of epochs in a row.
func (l Ledger) andSpan() string {
	if l.Span == 0 {
		return ""
	}
	return ", and in any " + spell(l.Span) + " by this device's clock"
}

// until says before which epoch, and before which time, a ledger with a Period that is used up takes no entry.
func (l Ledger) until() string {
	var all []string
	for _, w := range l.windows(l.next()) {
		n := len(w.entries) - l.records()
		switch {
		case n < 0:
		case !w.timed:
			all = append(all, fmt.Sprintf("epoch %d", w.entries[n].Epoch+uint64(l.Period)))
		default:
			ends := make([]time.Time, len(w.entries))
			for i, e := range w.entries {
				ends[i] = e.At
			}
			slices.SortFunc(ends, time.Time.Compare)
			all = append(all, ends[n].Add(l.Span).UTC().Format(time.RFC3339))
		}
	}
	return strings.Join(slices.Compact(all), " and ")
}

// spell writes a time in days where it is a whole number of them.
func spell(d time.Duration) string {
	if day := 24 * time.Hour; d%day == 0 {
		return count(int(d/day), "day")
	}
	return d.String()
}

// means continues a sentence about an entry.
func (s EntryState) means() string {
	switch s {
	case Reserved:
		return "promised; no report has left the device yet"
	case Asked:
		return "a place was asked for and no answer has come, so this counts as a promise, which may " +
			"not be kept; no report has left the device"
	}
	return "a report has left the device"
}

// Left is the largest epsilon, at the ledger's Delta and rounded down, that a record of the epoch after all entries may
// have within the limit; 0 if there may be none. Guarantees do not subtract: two records of epsilon 0.7 are about one
// of epsilon 1. It answers for an entry with a Mu, as the channels' have. In a ledger with a Rho that holds for an
// entry with a Rho too: at the same epsilon it has less zCDP. Ask decides in any case.
func (l Ledger) Left() float64 {
	latest := l.latest()
	total, _ := composed(latest)
	if len(latest) >= l.records() || !(total.Epsilon(l.Delta) <= l.Epsilon) {
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

package privacy

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// keeps says, by looking at every run of a period's epochs, whether a ledger's entries keep its limits.
func keeps(l Ledger) bool {
	for start := range uint64(40) {
		var g, alone []Guarantee
		for _, e := range l.Entries {
			if e.Epoch >= start && e.Epoch < start+uint64(l.Period) || l.Period == 0 {
				g, alone = append(g, e.Guarantee), append(alone, e.alone())
			}
		}
		if len(g) > l.records() || !(Compose(g...).Epsilon(l.Delta) <= l.Epsilon) ||
			l.EpsilonAlone > 0 && !(Compose(alone...).Epsilon(l.Delta) <= l.EpsilonAlone) {
			return false
		}
	}
	return true
}

// In any order of epochs an entry is taken exactly if every run of a period's epochs keeps the limits with it.
func TestLedgerOfAPeriodTakesExactlyWhatItsWindowsAllow(t *testing.T) {
	taken, refused := 0, 0
	rapid.Check(t, func(rt *rapid.T) {
		l := Ledger{Epsilon: 1, Delta: 1e-6, EpsilonAlone: rapid.SampledFrom([]float64{0, 2}).Draw(rt, "alone")}.Under(
			rapid.IntRange(1, 4).Draw(rt, "records"), rapid.IntRange(0, 7).Draw(rt, "period"), 0)
		for range rapid.IntRange(1, 25).Draw(rt, "asked") {
			epoch := rapid.Uint64Range(1, 30).Draw(rt, "epoch")
			if l.State(epoch) != "" {
				continue
			}
			g := Guarantee{Mu: rapid.SampledFrom([]float64{0.01, 0.1, 0.14, 0.2, 0.23}).Draw(rt, "mu"), TailDelta: 1e-8}
			alone := Guarantee{Mu: 2 * g.Mu, TailDelta: 1e-8}
			would := l
			would.Entries = append(slices.Clone(l.Entries), Entry{Epoch: epoch, Guarantee: g, Alone: &alone})
			after, err := l.Ask(epoch, time.Time{}, 2, g, alone)
			if (err == nil) != keeps(would) {
				rt.Fatalf("epoch %d with mu %v in %+v: %v", epoch, g.Mu, l, err)
			}
			if err == nil {
				taken++
			} else {
				refused++
			}
			if l = after; !keeps(l) {
				rt.Fatalf("past the limits: %+v", l)
			}
		}
	})
	if !testing.Short() && (taken < 100 || refused < 100) { // a short run has a fifth of the ledgers
		t.Errorf("%d were taken and %d refused", taken, refused)
	}
}

// In any order of times, clocks that are set back among them, an entry is taken exactly if it and all that ended less
// than a span before it began keep the limits, however far apart their epochs are.
func TestLedgerOfASpanTakesExactlyWhatLaterTimesAllow(t *testing.T) {
	const span = 40 * time.Hour
	taken, refused := 0, 0
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	rapid.Check(t, func(rt *rapid.T) {
		l := Ledger{Epsilon: 1, Delta: 1e-6}.Under(rapid.IntRange(1, 4).Draw(rt, "records"), 1, span)
		for epoch := range uint64(rapid.IntRange(1, 25).Draw(rt, "asked")) {
			at := start.Add(time.Duration(rapid.IntRange(0, 300).Draw(rt, "hour")) * time.Hour)
			due := at.Add(time.Duration(rapid.IntRange(-1, 9).Draw(rt, "due")) * time.Hour)
			g := Guarantee{Mu: rapid.SampledFrom([]float64{0.01, 0.1, 0.14, 0.2, 0.23}).Draw(rt, "mu"), TailDelta: 1e-8}
			with := []Guarantee{g}
			for _, e := range l.Entries {
				if at.Sub(e.At) < span {
					with = append(with, e.Guarantee)
				}
			}
			may := len(with) <= l.records() && Compose(with...).Epsilon(l.Delta) <= l.Epsilon
			next, err := l.Ask(epoch+1, at, 2, g, NoGuarantee())
			if (err == nil) != may {
				rt.Fatalf("at %v in %+v: %v", at, l, err)
			}
			if err != nil {
				if refused++; !strings.Contains(err.Error(), " in any 40h0m0s") {
					rt.Fatal(err)
				}
				continue
			}
			taken++
			if l, err = next.Promise(epoch+1, due); err != nil {
				rt.Fatal(err)
			}
			if got, want := l.Entries[len(l.Entries)-1].At, slices.MaxFunc([]time.Time{at, due},
				time.Time.Compare); got != want {
				rt.Fatalf("what is asked for at %v and due at %v ends at %v", at, due, got)
			}
		}
	})
	if !testing.Short() && (taken < 100 || refused < 100) { // a short run has a fifth of the ledgers
		t.Errorf("%d were taken and %d refused", taken, refused)
	}
}

// A ledger of a span says until when nothing more is sent, by epoch and by time: the later counts.
func TestLedgerOfASpanExplains(t *testing.T) {
	l, g := budgeted(t, 1)
	l = l.Under(1, 4, 96*time.Hour)
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	var err error
	if l, err = l.Ask(3, at, 2, g, NoGuarantee()); err != nil {
		t.Fatal(err)
	}
	if l, err = l.Promise(3, at.Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"1 record, in any 4 epochs in a row, and in any 4 days by this device's clock. This is a budget per period",
		"Nothing more will be sent before epoch 7 and 2026-01-05T01:00:00Z: 1 record used.",
	} {
		if s := l.Explain(); !strings.Contains(s, want) {
			t.Errorf("%q is not in:\n%s", want, s)
		}
	}
}

// One record in four epochs at the whole budget: what was spent counts for four epochs and no longer, and a person is
// told that this is a budget per period, and what all periods have come to.
func TestLedgerOfAPeriodExplains(t *testing.T) {
	l, g := budgeted(t, 1)
	l = l.Under(1, 4, 0)
	if s := l.Explain(); !strings.Contains(s,
		"1 record, in any 4 epochs in a row. This is a budget per period, and not") {
		t.Error(s)
	}
	var err error
	for _, epoch := range []uint64{3, 7, 11} {
		if l, err = l.Ask(epoch, time.Time{}, 2, g, NoGuarantee()); err != nil {
			t.Fatal(err)
		}
		for next := epoch + 1; next < epoch+4; next++ {
			if _, err := l.Ask(next, time.Time{}, 2, g, NoGuarantee()); !errors.Is(err, ErrRecordUsed) ||
				!strings.Contains(err.Error(), "in any 4 epochs in a row") {
				t.Fatalf("epoch %d after %d: %v", next, epoch, err)
			}
		}
	}
	s := l.Explain()
	for _, want := range []string{
		"In the period that epoch 12 would belong to: epsilon 1.0000 of 1.",
		"Nothing more will be sent before epoch 15: 1 record used.",
		"All periods so far together: epsilon " + Spell(Repeat(g, 3).Epsilon(l.Delta)) + ", which no limit bounds.",
	} {
		if !strings.Contains(s, want) {
			t.Errorf("%q is not in:\n%s", want, s)
		}
	}
	if l.Left() != 0 {
		t.Errorf("left is %v", l.Left())
	}
	half := Guarantee{Mu: g.Mu / 2, TailDelta: g.TailDelta / 4}
	l = Ledger{Epsilon: 1, Delta: 1e-6}.Under(2, 4, 0)
	if l, err = l.Ask(1, time.Time{}, 2, half, NoGuarantee()); err != nil {
		t.Fatal(err)
	}
	if s := l.Explain(); !strings.Contains(s, "1 record may still be used; the next one at epsilon 0.8") {
		t.Error(s)
	}
}

// What is taken back is what was asked for or promised in epochs that are over, and nothing that was spent.
func TestLedgerExpires(t *testing.T) {
	l := Ledger{Epsilon: 4, Delta: 1e-6}.Under(9, 0, 0)
	g := Guarantee{Mu: 0.1}
	var err error
	step := func(next Ledger, why error) {
		t.Helper()
		if l, err = next, why; err != nil {
			t.Fatal(err)
		}
	}
	for epoch := range uint64(6) {
		step(l.Ask(epoch+1, time.Time{}, 2, g, NoGuarantee()))
	}
	step(l.Promise(2, time.Time{}))
	step(l.Promise(3, time.Time{}))
	step(l.Spend(3))
	step(l.Promise(5, time.Time{}))
	before := l.Explain()
	after := l.Expire(5)
	for epoch, want := range map[uint64]EntryState{1: "", 2: "", 3: Spent, 4: "", 5: Reserved, 6: Asked} {
		if got := after.State(epoch); got != want {
			t.Errorf("epoch %d is %q, want %q", epoch, got, want)
		}
	}
	if l.Explain() != before {
		t.Error("Expire changed the ledger it was called on")
	}
	if _, err := after.Ask(4, time.Time{}, 2, g, NoGuarantee()); err != nil {
		t.Errorf("what was taken back cannot be asked for again: %v", err)
	}
}

// A ledger without a period means one record over the deployment where it names no number, and is written as it was.
func TestALedgerWithoutAPeriodKeepsItsMeaning(t *testing.T) {
	for text, records := range map[string]int{
		`{"epsilon":1,"delta":0.000001,"entries":[{"epoch":3,"releases":2,` +
			`"guarantee":{"mu":0.1,"tail_delta":0},"state":"spent"}]}`: 1,
		`{"epsilon":1,"delta":0.000001,"records":3}`: 3,
	} {
		var l Ledger
		if err := json.Unmarshal([]byte(text), &l); err != nil {
			t.Fatal(err)
		}
		if l.records() != records || l.Period != 0 {
			t.Errorf("%s: %d records, period %d", text, l.records(), l.Period)
		}
		if b, err := json.Marshal(l); err != nil || strings.Replace(string(b), "1e-6", "0.000001", 1) != text {
			t.Errorf("%s is written as %s, %v", text, b, err)
		}
		for epoch := uint64(10); ; epoch++ {
			next, err := l.Ask(epoch, time.Time{}, 2, Guarantee{Mu: 0.001}, NoGuarantee())
			if err != nil {
				if len(l.Entries) != records || !errors.Is(err, ErrRecordUsed) {
					t.Errorf("%s: %d entries, %v", text, len(l.Entries), err)
				}
				break
			}
			l = next
		}
	}
	if l := (Ledger{}).Under(3, -1, -1); l.Period != 0 || l.Span != 0 || l.Records != 3 {
		t.Errorf("a period below 0: %+v", l)
	}
}

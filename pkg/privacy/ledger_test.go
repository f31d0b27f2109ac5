package privacy

import (
	"encoding/json"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func budgeted(t *testing.T, epsilon float64) (Ledger, Guarantee) {
	t.Helper()
	mu, err := MuFor(epsilon, 0.98e-6)
	if err != nil {
		t.Fatal(err)
	}
	return Ledger{Epsilon: epsilon, Delta: 1e-6}, Guarantee{Mu: mu, TailDelta: 0.02e-6}
}

// spend promises and spends what was asked for in an epoch.
func spend(t *testing.T, l Ledger, epoch uint64) Ledger {
	t.Helper()
	l, err := l.Promise(epoch, time.Time{})
	if err == nil {
		l, err = l.Spend(epoch)
	}
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func TestLedgerOneRecordPerPerson(t *testing.T) {
	l, g := budgeted(t, 1)
	l, err := l.Ask(3, time.Time{}, 2, g, NoGuarantee())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := l.Ask(4, time.Time{}, 2, g, NoGuarantee()); !errors.Is(err, ErrRecordUsed) {
		t.Fatalf("second record: %v", err)
	}
	if _, err := l.Ask(3, time.Time{}, 2, g, NoGuarantee()); !errors.Is(err, ErrRecordUsed) {
		t.Fatalf("same epoch again: %v", err)
	}
	if _, err := l.Spend(3); !errors.Is(err, ErrEntry) {
		t.Fatalf("spending what was not promised: %v", err)
	}
	promised, err := l.Promise(3, time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	if l.State(3) != Asked || promised.State(3) != Reserved || l.State(4) != "" {
		t.Fatal("Promise changed the ledger it was called on")
	}
	spent, err := promised.Spend(3)
	if err != nil {
		t.Fatal(err)
	}
	if promised.State(3) != Reserved {
		t.Fatal("Spend changed the ledger it was called on")
	}
	for name, kept := range map[string]Ledger{"promised": promised, "spent": spent} {
		if _, err := kept.Release(3); !errors.Is(err, ErrEntry) {
			t.Fatalf("giving back what is %s: %v", name, err)
		}
		if _, err := kept.Ask(4, time.Time{}, 2, g, NoGuarantee()); !errors.Is(err, ErrRecordUsed) {
			t.Fatalf("second record after one that is %s: %v", name, err)
		}
	}
	if _, err := spent.Spend(3); err != nil {
		t.Fatalf("spending again: %v", err)
	}
	if _, err := spent.Promise(3, time.Time{}); !errors.Is(err, ErrEntry) {
		t.Fatalf("promising what is spent: %v", err)
	}
	back, err := l.Release(3)
	if err != nil || len(back.Entries) != 0 {
		t.Fatalf("release: %+v, %v", back, err)
	}
	if _, err := back.Ask(4, time.Time{}, 2, g, NoGuarantee()); err != nil {
		t.Fatalf("after the release: %v", err)
	}
}

func TestLedgerRefusesPastTheBudget(t *testing.T) {
	l, g := budgeted(t, 1)
	for name, worse := range map[string]Guarantee{
		"a little more mu": {Mu: g.Mu * 1.001, TailDelta: g.TailDelta},
		"more tail":        {Mu: g.Mu, TailDelta: 2e-6},
		"NaN":              {Mu: math.NaN(), TailDelta: 0},
		"infinite":         {Mu: math.Inf(1), TailDelta: 0},
		"nothing promised": NoGuarantee(),
		"negative":         {Mu: -1, TailDelta: 0},
	} {
		if after, err := l.Ask(1, time.Time{}, 1, worse, NoGuarantee()); !errors.Is(err, ErrBudget) ||
			len(after.Entries) != 0 {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := l.Ask(1, time.Time{}, 1, g, NoGuarantee()); err != nil {
		t.Errorf("exactly the budget: %v", err)
	}
	nan := Ledger{Epsilon: math.NaN(), Delta: 1e-6}
	if _, err := nan.Ask(1, time.Time{}, 1, g, NoGuarantee()); !errors.Is(err, ErrBudget) {
		t.Errorf("a limit that is no number: %v", err)
	}
}

// Several records of one person compose like the square root (group privacy), and the ledger stops exactly where the
// limit is.
func TestLedgerSeveralRecords(t *testing.T) {
	l, g := budgeted(t, 1)
	l.Records = 10
	g.Mu /= 2
	var err error
	// An epoch is one record, however many the person allows and however little this one reveals.
	if once, err := l.Ask(1, time.Time{}, 2, Guarantee{Mu: g.Mu / 10}, NoGuarantee()); err != nil {
		t.Fatal(err)
	} else if _, err := once.Ask(1, time.Time{}, 2, Guarantee{Mu: g.Mu / 10}, NoGuarantee()); !errors.Is(err,
		ErrRecordUsed) {
		t.Fatalf("a second record of one epoch: %v", err)
	} else if spent := spend(t, once, 1); spent.State(1) != Spent {
		t.Fatalf("%+v", spent)
	} else if _, err := spent.Ask(1, time.Time{}, 2, Guarantee{Mu: g.Mu / 10}, NoGuarantee()); !errors.Is(err,
		ErrRecordUsed) {
		t.Fatalf("a second record of an epoch that is spent: %v", err)
	}
	for epoch := range uint64(4) { // mu*sqrt(4)/2 is the whole budget
		if l, err = l.Ask(epoch+1, time.Time{}, 2, Guarantee{Mu: g.Mu, TailDelta: g.TailDelta / 4},
			NoGuarantee()); err != nil {
			t.Fatalf("record %d: %v", epoch+1, err)
		}
	}
	if _, err := l.Ask(5, time.Time{}, 2, g, NoGuarantee()); !errors.Is(err, ErrBudget) {
		t.Fatalf("fifth record: %v", err)
	}
	if eps := l.Total().Epsilon(l.Delta); eps > 1 || eps < 0.999 {
		t.Fatalf("four halves make epsilon %v", eps)
	}
}

// Whatever is asked for, promised, spent and given back, in any order: the total never passes the limit, and what was
// promised stays.
func TestLedgerNeverPassesItsLimit(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		l := Ledger{Epsilon: rapid.Float64Range(0.1, 4).Draw(rt, "epsilon"), Delta: 1e-6,
			Records: rapid.IntRange(0, 5).Draw(rt, "records")}
		kept := map[uint64]EntryState{}
		for range rapid.IntRange(1, 30).Draw(rt, "operations") {
			epoch := rapid.Uint64Range(1, 6).Draw(rt, "epoch")
			var err error
			switch rapid.IntRange(0, 3).Draw(rt, "operation") {
			case 0:
				l, _ = l.Ask(epoch, time.Time{}, 1, Guarantee{Mu: rapid.Float64Range(0, 1).Draw(rt, "mu"),
					Rho:       rapid.SampledFrom([]float64{0, 0, 1e-6, 0.01, 0.2}).Draw(rt, "rho"),
					TailDelta: rapid.Float64Range(0, 1e-6).Draw(rt, "tail")}, NoGuarantee())
			case 1:
				if l, err = l.Spend(epoch); err == nil {
					kept[epoch] = Spent
				}
			case 3:
				if l, err = l.Promise(epoch, time.Time{}); err == nil {
					kept[epoch] = Reserved
				}
			case 2:
				l, _ = l.Release(epoch)
			}
			if eps := l.Total().Epsilon(l.Delta); len(l.Entries) > 0 && !(eps <= l.Epsilon) {
				rt.Fatalf("total epsilon %v above the limit %v", eps, l.Epsilon)
			}
			if len(l.Entries) > l.records() {
				rt.Fatalf("%d entries of %d allowed", len(l.Entries), l.records())
			}
			for e, state := range kept {
				if l.State(e) != state {
					rt.Fatalf("epoch %d was %s and is %q", e, state, l.State(e))
				}
			}
		}
	})
}

func TestLedgerExplains(t *testing.T) {
	l, g := budgeted(t, 1)
	for _, want := range []string{"epsilon 1 at delta 1e-06", "Nothing was spent"} {
		if !strings.Contains(l.Explain(), want) {
			t.Errorf("%q is not in:\n%s", want, l.Explain())
		}
	}
	l, err := l.Ask(7, time.Time{}, 2, g, NoGuarantee())
	if err != nil {
		t.Fatal(err)
	}
	if s := l.Explain(); !strings.Contains(s,
		"Epoch 7: epsilon 1.0000 over 2 releases; a place was asked for and no answer has come") ||
		strings.Contains(s, "Nothing was spent") {
		t.Error(s)
	}
	if l, err = l.Promise(7, time.Time{}); err != nil {
		t.Fatal(err)
	}
	if s := l.Explain(); !strings.Contains(s, "Epoch 7: epsilon 1.0000 over 2 releases; promised") {
		t.Error(s)
	}
	l, err = l.Spend(7)
	if err != nil {
		t.Fatal(err)
	}
	if s := l.Explain(); !strings.Contains(s, "a report has left the device") ||
		!strings.Contains(s, "Nothing more will be sent") {
		t.Error(s)
	}
}

// What is left is what can still be reserved, and nothing more; with one record used up there is nothing.
func TestLedgerLeft(t *testing.T) {
	l, g := budgeted(t, 1)
	if left := l.Left(); !(left <= 1 && left > 0.9999) {
		t.Errorf("of an empty ledger: %v", left)
	}
	one, err := l.Ask(1, time.Time{}, 2, g, NoGuarantee())
	if err != nil {
		t.Fatal(err)
	}
	if left := one.Left(); left != 0 {
		t.Errorf("after the only record: %v", left)
	}
	l.Records = 3
	if l, err = l.Ask(1, time.Time{}, 2, Guarantee{Mu: g.Mu / math.Sqrt2, TailDelta: g.TailDelta},
		NoGuarantee()); err != nil {
		t.Fatal(err)
	}
	left := l.Left()
	mu, err := MuFor(left, l.Delta)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := l.Ask(2, time.Time{}, 2, Guarantee{Mu: mu}, NoGuarantee()); err != nil {
		t.Errorf("what is left, epsilon %v, is refused: %v", left, err)
	}
	if _, err := l.Ask(2, time.Time{}, 2, Guarantee{Mu: mu * 1.001}, NoGuarantee()); !errors.Is(err, ErrBudget) {
		t.Errorf("more than what is left, epsilon %v, is accepted", left)
	}
	if !(left > 0.6 && left < 0.75) {
		t.Errorf("half of mu^2 left is epsilon %v", left)
	}
	if s := l.Explain(); !strings.Contains(s, "2 records may still be used; the next one at epsilon 0.6") {
		t.Error(s)
	}
	for name, broken := range map[string]Ledger{"no limit": {Epsilon: math.NaN(), Delta: 1e-6},
		"no delta": {Epsilon: 1, Delta: 0}, "below zero": {Epsilon: -1, Delta: 1e-6}} {
		if left := broken.Left(); left != 0 {
			t.Errorf("%s: %v", name, left)
		}
	}
}

// A ledger survives being written down, whatever is in it, and refuses afterwards what it refused before.
func TestLedgerSurvivesARestart(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		l := Ledger{Epsilon: rapid.Float64Range(0.1, 4).Draw(rt, "epsilon"), Delta: 1e-6,
			Records: rapid.IntRange(0, 3).Draw(rt, "records")}
		for epoch := range rapid.Uint64Range(0, 4).Draw(rt, "entries") {
			l, _ = l.Ask(epoch+1, time.Time{}, 2, Guarantee{Mu: rapid.Float64Range(0, 1).Draw(rt, "mu"),
				TailDelta: rapid.Float64Range(0, 1e-7).Draw(rt, "tail")}, NoGuarantee())
			if rapid.Bool().Draw(rt, "promised") {
				l, _ = l.Promise(epoch+1, time.Time{})
			}
			if rapid.Bool().Draw(rt, "spent") {
				l, _ = l.Spend(epoch + 1)
			}
		}
		b, err := json.Marshal(l)
		if err != nil {
			rt.Fatal(err)
		}
		var back Ledger
		if err := json.Unmarshal(b, &back); err != nil {
			rt.Fatal(err)
		}
		if back.Explain() != l.Explain() || back.Total() != l.Total() {
			rt.Fatalf("%s\ncame back as\n%s", l.Explain(), back.Explain())
		}
		g := Guarantee{Mu: rapid.Float64Range(0, 1).Draw(rt, "next")}
		_, before := l.Ask(9, time.Time{}, 1, g, NoGuarantee())
		_, after := back.Ask(9, time.Time{}, 1, g, NoGuarantee())
		if (before == nil) != (after == nil) {
			rt.Fatalf("before: %v, after: %v", before, after)
		}
	})
}

// Changing a ledger never changes the one it came from: the caller keeps the old one until the new one is on the disk.
func TestLedgerIsAValue(t *testing.T) {
	l, g := budgeted(t, 1)
	l.Records = 5
	g.Mu, g.TailDelta = g.Mu/4, g.TailDelta/8
	for epoch := uint64(1); epoch <= 3; epoch++ {
		l, _ = l.Ask(epoch, time.Time{}, 2, g, NoGuarantee())
	}
	before := l.Explain()
	one, err := l.Ask(4, time.Time{}, 2, g, NoGuarantee())
	if err != nil {
		t.Fatal(err)
	}
	if other, err := l.Ask(5, time.Time{}, 2, g, NoGuarantee()); err != nil || one.State(4) != Asked ||
		one.State(5) != "" || other.State(4) != "" || other.State(5) != Asked {
		t.Errorf("two that came from one: %+v, %+v, %v", one.Entries, other.Entries, err)
	}
	if _, err := l.Promise(1, time.Time{}); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Release(1); err != nil {
		t.Fatal(err)
	}
	if l.Explain() != before {
		t.Errorf("%s\nbecame\n%s", before, l.Explain())
	}
	if _, err := l.Spend(7); !errors.Is(err, ErrEntry) {
		t.Errorf("spending what was never promised: %v", err)
	}
	if _, err := l.Release(7); !errors.Is(err, ErrEntry) {
		t.Errorf("giving back what was never asked for: %v", err)
	}
	// The tails add up as well: a reservation that is fine by itself can pass the delta together with the others.
	wide := Ledger{Epsilon: 1, Delta: 1e-6, Records: 2}
	wide, err = wide.Ask(1, time.Time{}, 1, Guarantee{Mu: 0.01, TailDelta: 0.6e-6}, NoGuarantee())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := wide.Ask(2, time.Time{}, 1, Guarantee{Mu: 0.01, TailDelta: 0.6e-6}, NoGuarantee()); !errors.Is(err,
		ErrBudget) {
		t.Errorf("tails of 1.2e-6 within a delta of 1e-6: %v", err)
	}
}

// A person is told what is left of the promise if no other device is honest, and the limit on it.
func TestLedgerExplainsWhatIsLeftAlone(t *testing.T) {
	l, g := budgeted(t, 1)
	one, err := l.Ask(7, time.Time{}, 2, g, NoGuarantee())
	if err != nil {
		t.Fatal(err)
	}
	if s := one.Explain(); !strings.Contains(s, "If no other device is honest, nothing bounds") ||
		strings.Contains(s, "Limit if no other") {
		t.Error(s)
	}
	l.EpsilonAlone = 2
	if one, err = l.Ask(7, time.Time{}, 2, g, g); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"Limit if no other device is honest: epsilon 2 at delta 1e-06.",
		"If no other device is honest: epsilon 1.0000."} {
		if s := one.Explain(); !strings.Contains(s, want) {
			t.Errorf("%q is not in:\n%s", want, s)
		}
	}
}

package privacy

import (
	"encoding/json"
	"errors"
	"math"
	"strings"
	"testing"
	"time"
)

// A pure release beside a Gaussian one: the exact delta of both together, from the laws themselves, is at most the
// bound, and the bound is reached by the epsilons' sum only.
func TestPurePartsAdd(t *testing.T) {
	const mu, pure = 0.8, 0.5
	g := Compose(Guarantee{Mu: mu}, Guarantee{Pure: 0.2}, Guarantee{Pure: 0.3})
	if math.Abs(g.Pure/pure-1) > 1e-12 || g.Pure < pure || g.Mu < mu || g.TailDelta != 0 {
		t.Fatalf("composed %+v", g)
	}
	// Randomised response has likelihood ratios e^pure and e^-pure; the Gaussian is cut into narrow cells.
	yes := math.Exp(pure) / (1 + math.Exp(pure))
	exact := func(epsilon float64) (delta float64) {
		const step = 1e-3
		for x := -12.0; x < 12; x += step {
			p, q := lowerTail(x+step)-lowerTail(x), lowerTail(x+step-mu)-lowerTail(x-mu)
			for _, r := range [][2]float64{{yes, 1 - yes}, {1 - yes, yes}} {
				delta += math.Max(0, q*r[0]-math.Exp(epsilon)*p*r[1])
			}
		}
		return delta
	}
	for _, epsilon := range []float64{0, 0.3, pure, 0.7, 1, 1.5, 2, 3, 5} {
		if d, bound := exact(epsilon), g.Delta(epsilon); !(d <= bound*(1+1e-6)+1e-9) {
			t.Errorf("epsilon %v: exactly delta %v, the bound is %v", epsilon, d, bound)
		}
	}
	gaussian := Guarantee{Mu: g.Mu, TailDelta: g.TailDelta}
	for _, delta := range []float64{1e-9, 1e-6, 1e-3} {
		e := g.Epsilon(delta)
		if want := gaussian.Epsilon(delta) + pure; !(e >= want) || e > want*(1+1e-9) {
			t.Errorf("delta %v: epsilon %v, want %v", delta, e, want)
		}
		if !(g.Delta(e) <= delta*(1+1e-6)) {
			t.Errorf("epsilon %v has delta %v, want %v", e, g.Delta(e), delta)
		}
	}
	alone := Guarantee{Pure: pure}
	if e := alone.Epsilon(0); e != pure || alone.Delta(pure) != 0 || alone.Delta(pure/2) != 1 {
		t.Errorf("pure alone: epsilon %v, delta %v and %v", e, alone.Delta(pure), alone.Delta(pure/2))
	}
	if e := alone.Epsilon(-1); !math.IsInf(e, 1) {
		t.Errorf("delta below 0: epsilon %v", e)
	}
}

// What ledgers and statuses have stored keeps its bytes and its meaning.
func TestGuaranteesWithoutAPurePartKeepTheirJSON(t *testing.T) {
	b, err := json.Marshal(Entry{Epoch: 3, Releases: 2, Guarantee: Guarantee{Mu: 0.2, TailDelta: 1e-8}, State: Spent})
	want := `{"epoch":3,"releases":2,"guarantee":{"mu":0.2,"tail_delta":1e-8},"state":"spent"}`
	if err != nil || string(b) != want {
		t.Errorf("%s, %v; want %s", b, err, want)
	}
	b, err = json.Marshal(Ledger{Epsilon: 1, Delta: 1e-6})
	if want := `{"epsilon":1,"delta":0.000001}`; err != nil || string(b) != want {
		t.Errorf("%s, %v; want %s", b, err, want)
	}
}

// The limit if no other device is honest holds over all entries, and an entry of which nothing is known counts as none.
func TestLedgerLimitsWhatIsLeftAlone(t *testing.T) {
	l, g := budgeted(t, 1)
	l.Records, l.EpsilonAlone = 3, 2
	small := Guarantee{Mu: g.Mu / 10, TailDelta: 1e-10}
	for name, alone := range map[string]Guarantee{
		"none": NoGuarantee(), "NaN": {Mu: math.NaN()}, "too weak": {Mu: g.Mu * 2.5}, "pure": {Pure: 2.1},
	} {
		if after, err := l.Ask(1, time.Time{}, 2, small, alone); !errors.Is(err, ErrBudget) ||
			len(after.Entries) != 0 ||
			!strings.Contains(err.Error(), "no other device is honest") {
			t.Errorf("%s: %v", name, err)
		}
	}
	first, err := l.Ask(1, time.Time{}, 2, small, Guarantee{Mu: g.Mu * 1.5})
	if err != nil {
		t.Fatal(err)
	}
	if s := first.Explain(); !strings.Contains(s, "If no other device is honest: epsilon 1.") ||
		!strings.Contains(s, " of 2. ") {
		t.Errorf("the ledger says %s", s)
	}
	stored, err := json.Marshal(first)
	if err != nil {
		t.Fatal(err)
	}
	var back Ledger
	if err := json.Unmarshal(stored, &back); err != nil || back.TotalAlone() != first.TotalAlone() ||
		back.EpsilonAlone != 2 {
		t.Fatalf("stored as %s: %v", stored, err)
	}
	if _, err := back.Ask(2, time.Time{}, 2, small, Guarantee{Mu: g.Mu * 1.5}); !errors.Is(err, ErrBudget) {
		t.Errorf("the second one passes the limit together with the first: %v", err)
	}
	if _, err := back.Ask(2, time.Time{}, 2, small, Guarantee{Mu: g.Mu / 10}); err != nil {
		t.Errorf("a small second one: %v", err)
	}

	// Without a limit nothing is asked of alone, and what has no guarantee is stored as nothing, for JSON has no
	// infinity.
	free := l
	free.EpsilonAlone = 0
	free, err = free.Ask(1, time.Time{}, 2, small, NoGuarantee())
	if err != nil || free.Entries[0].Alone != nil {
		t.Fatalf("without a limit: %+v, %v", free, err)
	}
	if _, err := json.Marshal(free); err != nil {
		t.Error(err)
	}
	free.EpsilonAlone = 1e9 // the old entry is no guarantee
	if _, err := free.Ask(2, time.Time{}, 2, small, small); !errors.Is(err, ErrBudget) {
		t.Errorf("after an entry without a guarantee: %v", err)
	}
	free.EpsilonAlone = math.NaN()
	if _, err := free.Ask(2, time.Time{}, 2, small, small); !errors.Is(err, ErrBudget) {
		t.Errorf("a limit that is not a number: %v", err)
	}
}

package fit

import (
	"bytes"
	"errors"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/riffle-dp/riffle/pkg/privacy"
)

// spentOf is a fit of some guarantee.
func spentOf(g privacy.Guarantee) Spent {
	return Spent{At: time.Unix(1_700_000_000, 0).UTC(), Family: Linear, Trust: "central", Target: "y",
		Features: []string{"x"}, Rows: 100, Guarantee: g}
}

// However fits follow each other, what a ledger allows is within its epsilon at its delta, as the composition of all of
// them says it; and what it refuses would exceed the limit of zCDP or of the tails.
func TestALedgerKeepsToItsBudget(t *testing.T) {
	draw := rand.New(rand.NewPCG(29, 5))
	for range 15 {
		l := Ledger{Epsilon: math.Exp(3*draw.Float64() - 1), Delta: math.Pow(10, -3-6*draw.Float64())}
		most, mostTail := l.budget()
		refused := 0
		for refused < 5 {
			g := privacy.Guarantee{Rho: most * draw.Float64() / 3}
			if draw.IntN(2) == 0 {
				g = privacy.Guarantee{Mu: math.Sqrt(2 * g.Rho), TailDelta: mostTail * draw.Float64() / 3}
			}
			if draw.IntN(10) == 0 {
				g = privacy.Guarantee{Pure: math.Sqrt(2 * most * draw.Float64() / 3)}
			}
			after, err := l.Add(spentOf(g))
			if err == nil {
				l = after
				continue
			}
			refused++
			rho, tail := l.spent()
			more, moreTail := cost(g)
			if !errors.Is(err, ErrSpent) || rho+more <= most*(1-1e-12) && tail+moreTail <= mostTail*(1-1e-12) {
				t.Fatalf("%+v after rho %v of %v, tail %v of %v: %v", g, rho, most, tail, mostTail, err)
			}
		}
		var all []privacy.Guarantee
		pure := false
		for _, s := range l.Fits {
			pure = pure || s.Guarantee.Pure > 0
			all = append(all, s.Guarantee)
		}
		if e := privacy.Compose(all...).Epsilon(l.Delta); !pure && e > l.Epsilon {
			t.Errorf("fits of epsilon %v at delta %v were allowed under %+v", e, l.Delta, l)
		}
		if e := l.SpentEpsilon(); e > l.Epsilon || e == 0 {
			t.Errorf("epsilon %v was spent of %v", e, l.Epsilon)
		}
	}
}

// A fit of the whole budget is allowed, once, and a larger one is not. What is left is allowed, and twice as much is
// not.
func TestALedgerSaysWhatIsLeft(t *testing.T) {
	for _, epsilon := range []float64{0.01, 0.5, 1, 3, 20} {
		l := Ledger{Epsilon: epsilon, Delta: 1e-6}
		fit := func(epsilon float64) Spent {
			rho, err := privacy.RhoFor(epsilon, l.FitDelta(false))
			if err != nil {
				t.Fatal(err)
			}
			return spentOf(privacy.Guarantee{Rho: rho * (1 - 1e-12)})
		}
		if left := l.Left(false); left != epsilon {
			t.Errorf("of %v nothing was spent, and %v is left", epsilon, left)
		}
		if _, err := l.Add(fit(1.001 * epsilon)); !errors.Is(err, ErrSpent) {
			t.Errorf("epsilon %v: a larger fit: %v", epsilon, err)
		}
		whole, err := l.Add(fit(epsilon))
		if err != nil || whole.Left(false) != 0 {
			t.Errorf("epsilon %v: the whole budget: %v, %v is left", epsilon, err, whole.Left(false))
		}
		if l, err = l.Add(fit(epsilon / 2)); err != nil {
			t.Fatal(err)
		}
		left := l.Left(false)
		if _, err := l.Add(fit(left)); err != nil || !(left > epsilon/2) || !(left < epsilon) {
			t.Errorf("epsilon %v: %v is left: %v", epsilon, left, err)
		}
		if _, err := l.Add(fit(1.02 * left)); !errors.Is(err, ErrSpent) {
			t.Errorf("epsilon %v: more than is left: %v", epsilon, err)
		}
		mu, err := privacy.MuFor(l.Left(true), (1-privacy.TailShare)*l.FitDelta(true))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := l.Add(spentOf(privacy.Guarantee{Mu: mu,
			TailDelta: privacy.TailShare * l.FitDelta(true)})); err != nil {
			t.Errorf("epsilon %v: what is left of binomial noise: %v", epsilon, err)
		}
		for _, nothing := range []privacy.Guarantee{privacy.NoGuarantee(), {Rho: math.Inf(1)}, {Rho: math.NaN()}} {
			if _, err := l.Add(spentOf(nothing)); !errors.Is(err, ErrSpent) {
				t.Errorf("a fit that promises nothing was allowed: %+v", nothing)
			}
		}
	}
}

// A table is one of the ledger's if it has as many rows as one before, or all columns of one.
func TestALedgerKnowsItsTables(t *testing.T) {
	l := Ledger{Epsilon: 1, Delta: 1e-6}
	if err := l.Knows(7, []string{"z"}); err != nil {
		t.Errorf("the first table: %v", err)
	}
	s := spentOf(privacy.Guarantee{Rho: 1e-6})
	s.By = "site"
	l.Fits = []Spent{s}
	for name, c := range map[string]struct {
		rows   int
		header string
		known  bool
	}{
		"the same":            {100, "x y site", true},
		"more rows":           {120, "y site x", true},
		"more columns":        {120, "age y site x", true},
		"other columns":       {100, "age", true},
		"others":              {120, "x y", false},
		"others altogether":   {120, "age dose", false},
		"other capitals only": {99, "X y site", false},
	} {
		if err := l.Knows(c.rows, strings.Fields(c.header)); (err == nil) != c.known ||
			err != nil && !errors.Is(err, ErrOther) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// The lines of a ledger, to the byte: a file that was begun by another version is read as it was meant, or not at all.
func TestLinesOfALedger(t *testing.T) {
	l := Ledger{Epsilon: 3, Delta: 1e-6}
	head, err := l.Head()
	if want := `{"format":"riffle fit ledger 1","epsilon":3,"delta":0.000001}` + "\n"; err != nil || string(head) != want {
		t.Errorf("%s, %v", head, err)
	}
	line, err := spentOf(privacy.Guarantee{Rho: 0.02}).Line()
	want := `{"at":"2023-11-14T22:13:20Z","family":"linear","trust":"central","target":"y","features":["x"],` +
		`"rows":100,"guarantee":{"mu":0,"tail_delta":0,"rho":0.02}}` + "\n"
	if err != nil || string(line) != want {
		t.Errorf("%s, %v", line, err)
	}
}

// FuzzFitLedger reads any bytes as a ledger: what is taken is within the ranges that can be stated, its whole lines
// are written as a ledger that reads the same, and what follows them counts for nothing.
func FuzzFitLedger(f *testing.F) {
	l := Ledger{Epsilon: 3, Delta: 1e-6}
	head, err := l.Head()
	if err != nil {
		f.Fatal(err)
	}
	line, err := spentOf(privacy.Guarantee{Mu: 0.1, TailDelta: 1e-9}).Line()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(append(bytes.Clone(head), line...))
	f.Add(append(bytes.Clone(head), line[:20]...))
	f.Add(head[:10])
	f.Add([]byte("\n\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		l, whole, err := DecodeLedger(text)
		if err != nil {
			if !errors.Is(err, ErrLedger) || len(l.Fits) > 0 {
				t.Fatal(err)
			}
			return
		}
		if whole == 0 {
			return
		}
		if err := l.Check(); err != nil {
			t.Fatal(err)
		}
		again, err := l.Head()
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range l.Fits {
			if rho, tail := cost(s.Guarantee); !(rho > 0 && tail <= 1.1) {
				t.Fatalf("a fit that cost %v and %v", rho, tail)
			}
			line, err := s.Line()
			if err != nil {
				t.Fatal(err)
			}
			again = append(again, line...)
		}
		other, n, err := DecodeLedger(append(bytes.Clone(again), "{"...))
		if err != nil || n != len(again) || len(other.Fits) != len(l.Fits) || other.Epsilon != l.Epsilon {
			t.Fatalf("%q is read as %+v and %d bytes, %v", again, other, n, err)
		}
		_ = l.SpentEpsilon()
		if _, err := l.Add(spentOf(privacy.NoGuarantee())); !errors.Is(err, ErrSpent) {
			t.Fatal(err)
		}
	})
}

package fit

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/riffle-dp/riffle/pkg/privacy"
	"github.com/riffle-dp/riffle/pkg/strict"
)

// Errors of ledgers.
var (
	// ErrLedger wraps every reason to refuse the text of a ledger.
	ErrLedger = errors.New("ledger")
	// ErrSpent says that a fit would exceed the budget. Nothing was spent.
	ErrSpent = errors.New("the ledger's budget does not allow this fit")
	// ErrOther says that a table is not one that the ledger knows.
	ErrOther = errors.New("the ledger is for another table")
)

// format names what the lines of a ledger mean. Another meaning needs another name.
const format = "riffle fit ledger 1"

// Spent is a fit that was counted. It holds what the fit's result says publicly, and nothing that depends on a value of
// the table.
type Spent struct {
	At        time.Time         `json:"at"`
	Family    string            `json:"family"`
	Trust     string            `json:"trust"`
	Target    string            `json:"target"`
	Features  []string          `json:"features,omitempty"`
	By        string            `json:"by,omitempty"`
	Rows      int               `json:"rows"`
	Guarantee privacy.Guarantee `json:"guarantee"`
}

// columns are those that the fit used.
func (s Spent) columns() []string {
	out := append([]string{s.Target}, s.Features...)
	if s.By != "" {
		out = append(out, s.By)
	}
	return out
}

// Ledger is a budget for all fits about the same people, and what was spent of it.
//
// It is a privacy filter. Each fit counts as zCDP, after an event of small probability has been given up (only the
// binomial noise of shuffle and shares has one), and a fit whose sum with those before exceeds the budget of either is
// refused. Fits may be chosen by the results of earlier ones, and so may their epsilons: what all of them reveal
// together is then within the budget all the same (Whitehouse, Ramdas, Rogers and Wu, "Fully-adaptive composition in
// differential privacy", 2023; for Renyi divergences Feldman and Zrnic, "Individual privacy accounting via a Renyi
// filter", 2021). Proof sketch: of every order a > 1, e to (a-1) times (the loss so far less a times the zCDP so far)
// has a conditional mean of at most 1 in each step, however the step was chosen, and the sum of zCDP never exceeds the
// budget; the probabilities given up add to at most theirs. That both limits are fixed when the ledger begins is what
// the proof needs: a limit on the epsilon of both together would not do.
//
// Nothing tells whether a table is about the ledger's people. A digest of the table would, and would confirm a guess of
// somebody's row to whoever sees the ledger, with a salt in it as well. So the ledger has columns and numbers of rows,
// which results publish anyway, and recognises tables by them (Knows).
type Ledger struct {
	Epsilon float64 // of all fits together, at Delta
	Delta   float64
	Fits    []Spent
}

// head is the first line of a ledger.
type head struct {
	Format  string  `json:"format"`
	Epsilon float64 `json:"epsilon"`
	Delta   float64 `json:"delta"`
}

// binomialFits is how many fits with binomial noise a ledger has room for: each gives up as much of delta.
const binomialFits = 20

// FitDelta is the delta that one fit is planned for. Without binomial noise it is such that a fit can have all of the
// ledger's budget: what is left of delta is for the events of small probability.
func (l Ledger) FitDelta(binomial bool) float64 {
	if binomial {
		return l.Delta / binomialFits
	}
	return (1 - privacy.TailShare) * l.Delta
}

// cost is a guarantee as zCDP, after an event of the probability tail; rounded up. A pure epsilon is epsilon^2/2-zCDP
// (Bun and Steinke, "Concentrated Differential Privacy", 2016, Proposition 1.4).
func cost(g privacy.Guarantee) (rho, tail float64) {
	if !g.Promises() {
		return math.Inf(1), 1
	}
	const up = 1 + 1e-14
	return (g.Mu*g.Mu/2 + g.Pure*g.Pure/2 + g.Rho) * up, g.TailDelta * up
}

// spent is the cost of all fits.
func (l Ledger) spent() (rho, tail float64) {
	for _, s := range l.Fits {
		r, t := cost(s.Guarantee)
		rho, tail = rho+r, tail+t
	}
	up := 1 + float64(len(l.Fits))*0x1p-52
	return rho * up, tail * up
}

// Check refuses limits that cannot be stated.
func (l Ledger) Check() error {
	if err := privacy.CheckTarget(l.Epsilon, l.Delta); err != nil {
		return err
	}
	return privacy.CheckTarget(l.Epsilon, l.FitDelta(true))
}

// budget is what all fits together may cost.
func (l Ledger) budget() (rho, tail float64) {
	rho, err := privacy.RhoFor(l.Epsilon, l.FitDelta(false))
	if err != nil { // Check has passed
		return 0, 0
	}
	return rho, privacy.TailShare * l.Delta
}

// SpentEpsilon bounds what all fits together have revealed, at Delta. It is below Epsilon.
func (l Ledger) SpentEpsilon() float64 {
	rho, tail := l.spent()
	return privacy.Guarantee{Rho: rho, TailDelta: tail}.Epsilon(l.Delta)
}

// leastLeft is the part of a ledger's epsilon below which nothing is left: rounding leaves as much.
const leastLeft = 1e-3

// Left is the largest epsilon of one more fit, rounded down to three digits. For binomial noise, whose zCDP is larger
// at the same epsilon, it is smaller.
func (l Ledger) Left(binomial bool) float64 {
	all, allTail := l.budget()
	rho, tail := l.spent()
	left := privacy.Guarantee{Rho: math.Max(0, all-rho)}
	switch {
	case binomial && tail+privacy.TailShare*l.FitDelta(true) > allTail:
		return 0
	case binomial:
		left = privacy.Guarantee{Mu: math.Sqrt(2 * left.Rho)}
	case len(l.Fits) == 0:
		return l.Epsilon
	}
	delta := l.FitDelta(binomial)
	if binomial {
		delta *= 1 - privacy.TailShare
	}
	epsilon := math.Min(l.Epsilon, left.Epsilon(delta))
	if !(epsilon > leastLeft*l.Epsilon) {
		return 0
	}
	digits := math.Pow10(2 - int(math.Floor(math.Log10(epsilon))))
	return math.Floor(epsilon*digits) / digits
}

// Add counts one more fit, or refuses it with ErrSpent.
func (l Ledger) Add(s Spent) (Ledger, error) {
	after := l
	after.Fits = append(slices.Clone(l.Fits), s)
	most, mostTail := l.budget()
	if rho, tail := after.spent(); !(rho <= most && tail <= mostTail) {
		binomial := s.Guarantee.Mu > 0
		remedy := "nothing can be fitted any more"
		if left := l.Left(binomial); left > 0 {
			remedy = fmt.Sprintf("take --epsilon %g or less", left)
		}
		return l, fmt.Errorf("%w: %s spent epsilon %s of %g at delta %g: %s", ErrSpent, number(len(l.Fits), "fit"),
			privacy.Spell(l.SpentEpsilon()), l.Epsilon, l.Delta, remedy)
	}
	return after, nil
}

// Knows refuses, with ErrOther, a table that has neither as many rows nor all columns of any fit before.
func (l Ledger) Knows(rows int, header []string) error {
	if len(l.Fits) == 0 {
		return nil
	}
	for _, s := range l.Fits {
		missing := slices.ContainsFunc(s.columns(), func(c string) bool { return !slices.Contains(header, c) })
		if s.Rows == rows || !missing {
			return nil
		}
	}
	last := l.Fits[len(l.Fits)-1]
	return fmt.Errorf("%w: of %d rows with the columns %s; this one has %d rows, and not all of these columns. One "+
		"ledger is for all tables about the same people: name theirs, or keep those columns in the table", ErrOther,
		last.Rows, strict.List(last.columns(), "and"), rows)
}

// Line is a fit as a line of a ledger.
func (s Spent) Line() ([]byte, error) { return line(s) }

// Head is the first line of a ledger.
func (l Ledger) Head() ([]byte, error) { return line(head{format, l.Epsilon, l.Delta}) }

func line(v any) ([]byte, error) {
	text, err := json.Marshal(v)
	return append(text, '\n'), err
}

// DecodeLedger reads a ledger, and says how many bytes of it are whole lines: a crash may leave a part of a line at the
// end, of a fit that drew no noise. It counts for nothing. A last line that lacks only its line break is refused: an
// editor may have taken it, of a fit that was made. Without a whole first line no ledger has begun: that is a length of
// 0.
func DecodeLedger(text []byte) (l Ledger, whole int, err error) {
	whole = bytes.LastIndexByte(text, '\n') + 1
	if whole > 0 && json.Valid(text[whole:]) {
		return Ledger{}, 0, fmt.Errorf("%w: its last line has no line break, and nobody knows whether that fit was "+
			"made: put the line break back, and it counts", ErrLedger)
	}
	for i, line := range bytes.SplitAfter(text[:whole], []byte("\n")) {
		switch {
		case len(line) == 0:
		case i == 0:
			var h head
			if err := strict.Unmarshal(line, &h, strict.Options{}); err != nil || h.Format != format {
				return Ledger{}, 0, fmt.Errorf("%w: line 1 is not that of a %s: is this the right file?", ErrLedger,
					format)
			}
			l.Epsilon, l.Delta = h.Epsilon, h.Delta
			if err := l.Check(); err != nil {
				return Ledger{}, 0, fmt.Errorf("%w: line 1: %w", ErrLedger, err)
			}
		default:
			var s Spent
			err := strict.Unmarshal(line, &s, strict.Options{})
			if rho, _ := cost(s.Guarantee); err != nil || !(rho > 0 && !math.IsInf(rho, 1)) || s.Rows < 1 ||
				s.Target == "" {
				return Ledger{}, 0, fmt.Errorf("%w: line %d is no fit that was counted: restore what was there, or "+
					"nobody knows what was spent", ErrLedger, i+1)
			}
			l.Fits = append(l.Fits, s)
		}
	}
	return l, whole, nil
}

// number counts things.
func number(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

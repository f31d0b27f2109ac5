package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/riffle-dp/riffle/internal/evaluate/fit"
	"github.com/riffle-dp/riffle/pkg/privacy"
)

// Fits under a ledger are counted until the budget is gone; then one is refused, and the ledger is as it was. What is
// left is what the refusal names, and a fit of it is allowed.
func TestALedgerAllowsFitsUntilItsBudgetIsSpent(t *testing.T) {
	csv, _, bounds := fitFiles(t, 200)
	ledger := filepath.Join(t.TempDir(), "people.ledger")
	args := []string{csv, "--target", "pressure", "--bounds-file", bounds, "--ledger", ledger}
	with := func(more ...string) []string { return append(append([]string(nil), args...), more...) }
	if _, err := runFit(t, with("--epsilon", "1")...); err == nil || !strings.Contains(err.Error(), "--budget") {
		t.Errorf("a ledger that is not there: %v", err)
	}
	if _, err := runFit(t, with("--epsilon", "3", "--budget", "2")...); !errors.Is(err, fit.ErrSpent) {
		t.Errorf("more than the budget: %v", err)
	}
	if _, err := runFit(t, with("--epsilon", "1")...); err == nil {
		t.Error("a refused fit has begun a ledger")
	}
	text, err := runFit(t, with("--epsilon", "1", "--budget", "2", "--delta", "1e-5")...)
	if err != nil || !strings.Contains(text, "The ledger has 1 fit") {
		t.Fatalf("%v\n%s", err, text)
	}
	if _, err := runFit(t, with("--epsilon", "1", "--budget", "2")...); err == nil ||
		!strings.Contains(err.Error(), "leave --budget out") {
		t.Errorf("a ledger that has begun: %v", err)
	}
	if _, err := runFit(t, with("--epsilon", "1", "--delta", "1e-6")...); err == nil ||
		!strings.Contains(err.Error(), "leave --delta out") {
		t.Errorf("another delta: %v", err)
	}
	text, err = runFit(t, with("--epsilon", "1", "--json")...)
	var r fit.Result
	if err != nil || json.Unmarshal([]byte(text), &r) != nil || r.Ledger == nil || r.Ledger.Fits != 2 ||
		r.Delta != 1e-5 {
		t.Fatalf("%v\n%s", err, text)
	}
	before, err := os.ReadFile(ledger)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := runFit(t, with("--epsilon", "1.9")...); !errors.Is(err, fit.ErrSpent) ||
		!strings.Contains(err.Error(), "take --epsilon") {
		t.Errorf("past the budget: %v", err)
	}
	if _, err := runFit(t, with("--epsilon", "1.9", "--dry-run")...); !errors.Is(err, fit.ErrSpent) {
		t.Errorf("past the budget, in a dry run: %v", err)
	}
	if text, err := runFit(t, with("--epsilon", "0.1", "--dry-run")...); err != nil ||
		!strings.Contains(text, "The ledger allows this fit. After it: The ledger has 3 fits") {
		t.Errorf("a dry run: %v\n%s", err, text)
	}
	if after, err := os.ReadFile(ledger); err != nil || !bytes.Equal(before, after) {
		t.Errorf("a fit that was not made has changed the ledger: %v", err)
	}
	if text, err := runFit(t, "--ledger", ledger); err != nil ||
		!strings.Contains(text, "linear of pressure on age, dose") {
		t.Errorf("%v\n%s", err, text)
	}
	for range 3 {
		if r.Ledger.Left == 0 {
			break
		}
		text, err = runFit(t, with("--json", "--epsilon", fmt.Sprint(r.Ledger.Left))...)
		if err != nil {
			t.Fatalf("what is left is refused: %v", err)
		}
		if err := json.Unmarshal([]byte(text), &r); err != nil || !(r.Ledger.Spent <= 2) {
			t.Fatalf("%v\n%s", err, text)
		}
	}
	if !(r.Ledger.Spent > 1.99) {
		t.Errorf("all is spent, and that is epsilon %v", r.Ledger.Spent)
	}
	if info, err := os.Stat(ledger); err != nil || runtime.GOOS != "windows" && info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
}

// Of many fits at the same time only as many are allowed as the budget is for.
func TestFitsAtTheSameTimeShareOneLedger(t *testing.T) {
	path := filepath.Join(t.TempDir(), "people.ledger")
	begin := fit.Ledger{Epsilon: 1, Delta: 1e-6}
	rho, err := privacy.RhoFor(1, begin.FitDelta(false))
	if err != nil {
		t.Fatal(err)
	}
	s := fit.Spent{Target: "y", Rows: 100, Guarantee: privacy.Guarantee{Rho: rho / 4 * (1 - 1e-9)}}
	header := []string{"y"}
	if _, err := chargeLedger(path, begin, true, s, header); err != nil {
		t.Fatal(err)
	}
	var wait sync.WaitGroup
	results := make([]error, 12)
	for i := range results {
		wait.Go(func() { _, results[i] = chargeLedger(path, begin, false, s, header) })
	}
	wait.Wait()
	allowed := 0
	for _, err := range results {
		switch {
		case err == nil:
			allowed++
		case !errors.Is(err, fit.ErrSpent):
			t.Error(err)
		}
	}
	if l, err := readLedger(path); err != nil || allowed != 3 || len(l.Fits) != 4 {
		t.Errorf("%d fits were allowed, want 3: %+v, %v", allowed, l, err)
	}
}

// A crash may leave a part of a line, of a fit that drew nothing: the ledger goes on behind the whole lines. What is no
// ledger is refused and left alone, and so is one that was emptied.
func TestALedgerAfterACrash(t *testing.T) {
	path := filepath.Join(t.TempDir(), "people.ledger")
	begin := fit.Ledger{Epsilon: 1, Delta: 1e-6}
	s := fit.Spent{Target: "y", Rows: 100, Guarantee: privacy.Guarantee{Rho: 1e-3}}
	charge := func(isNew bool) error {
		_, err := chargeLedger(path, begin, isNew, s, []string{"y"})
		return err
	}
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	head, err := begin.Head()
	if err != nil {
		t.Fatal(err)
	}
	line, err := s.Line()
	if err != nil {
		t.Fatal(err)
	}
	for cut := range len(line) - 1 {
		write(string(head) + string(line) + string(line[:cut]))
		if err := charge(false); err != nil {
			t.Fatalf("%d bytes of a line: %v", cut, err)
		}
		if l, err := readLedger(path); err != nil || len(l.Fits) != 2 {
			t.Fatalf("%d bytes of a line: %+v, %v", cut, l, err)
		}
	}
	write(string(head[:20]))
	if err := charge(false); err == nil {
		t.Error("a ledger without a whole first line was taken for one")
	}
	if err := charge(true); err != nil {
		t.Errorf("a ledger whose beginning was cut off: %v", err)
	}
	for _, text := range []string{"age,dose\n1,2\n", string(head) + "{}\n", string(head) + string(head),
		string(head) + strings.TrimSpace(string(line))} { // an editor took the line break
		write(text)
		if err := charge(true); !errors.Is(err, fit.ErrLedger) {
			t.Errorf("%q: %v", text, err)
		}
		if left, err := os.ReadFile(path); err != nil || string(left) != text {
			t.Errorf("%q has become %q, %v", text, left, err)
		}
	}
}

package fit

import (
	"strings"
	"testing"

	"github.com/riffle-dp/riffle/pkg/plan"
)

// How often noise alone calls columns weak is of one judgement, and with groups there is one for each.
func TestWeakColumnsOfGroupsAreJudgedOneByOne(t *testing.T) {
	weak := &Estimates{Weak: []Weak{{Columns: []string{"dose"}, Spread: 0.01}}}
	zero := 0.0
	none := Coefficient{Low: &zero, High: &zero}
	groups := []Group{{Name: "a", Count: none, Estimates: weak}}
	for want, r := range map[string]*Result{
		"in at most 1% of fits.\n":                      {Estimates: weak},
		"in at most 1% of fits, of each group alone.\n": {By: "site", Groups: groups},
	} {
		var text strings.Builder
		if err := r.WriteTable(&text); err != nil || !strings.Contains(text.String(), want) {
			t.Errorf("want %q in\n%s", want, text.String())
		}
	}
}

// A fit that spends less than it may says so, and only such a one.
func TestUnspentEpsilonIsSaid(t *testing.T) {
	for trust, unspent := range map[plan.Channel]bool{plan.Shuffle: true, plan.Shares: false, plan.Central: false} {
		r, err := Run(Options{Trust: trust, Family: Linear, Target: "y", Missing: MissingRefuse,
			Bounds: []string{"y=0,1", "x=0,1"}, Epsilon: 8, Delta: 1e-6, Level: 0.95, DryRun: true, Rows: 30_000,
			Warn: func(int) {}})
		if err != nil {
			t.Fatal(err)
		}
		var text strings.Builder
		if err := r.WriteTable(&text); err != nil {
			t.Fatal(err)
		}
		if said := strings.Contains(text.String(), "Epsilon 8 was asked for"); said != unspent ||
			said != (r.Epsilon < 7) {
			t.Errorf("%s spends %v of 8:\n%s", trust, r.Epsilon, &text)
		}
	}
}

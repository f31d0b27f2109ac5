package fit

import (
	"strings"
	"testing"
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

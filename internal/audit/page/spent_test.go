package page_test

import (
	"strings"
	"testing"

	"github.com/riffle-dp/riffle/internal/audit"
	"github.com/riffle-dp/riffle/internal/testing/ledger"
	"github.com/riffle-dp/riffle/pkg/glm"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// shown is the page of a deployment as it was audited, in plain text.
func shown(t *testing.T, o ledger.Options) string {
	t.Helper()
	l, err := ledger.Make(o)
	if err != nil {
		t.Fatal(err)
	}
	var rows []audit.Row
	r, err := audit.Check(t.Context(), l, audit.Options{
		Trust: l.Bundle, Row: func(x audit.Row) { rows = append(rows, x) },
	})
	if err != nil {
		t.Fatal(err)
	}
	r.Rounds = rows
	return strings.NewReplacer("&#39;", "'").Replace(write(t, r))
}

// What the analyzer refused after it left is spent on the page, and cannot be overlooked; a cohort that the shuffler
// destroyed is said to have had too few reports only where it had.
func TestPageShowsWhatWasSpent(t *testing.T) {
	const nothing = `data-head="Epsilon">nothing<`
	second := func(epoch uint64, _ uint32) bool { return epoch == 2 }
	small := ledger.Small(glm.Practical, plan.Central, 2)
	for name, x := range map[string]struct {
		options      ledger.Options
		want, notSay []string
	}{
		"refused": {ledger.Options{Tamper: ledger.Tamper{Counts: func(c *wire.Counts) {
			if c.Epoch == 2 {
				c.Destroyed, c.Releases = true, nil
			}
		}}}, []string{"release_refused", `data-field="refused">1<`, "Do not rely"},
			[]string{nothing, `data-field="enough"`}},
		"too few": {ledger.Options{Destroyed: second}, []string{nothing, "fewer than 10 reports, says the shuffler"},
			[]string{`data-field="refused"`, `data-field="enough"`}},
		"enough": {ledger.Options{Destroyed: second, Tamper: ledger.Tamper{Manifest: func(m *wire.Manifest) {
			m.Reports = m.Enrolled
			m.Messages = uint64(m.Reports)
		}, Counts: func(c *wire.Counts) { c.Reports = 12 }}},
			[]string{"destroyed although reports were enough; a part may have left before", `data-field="enough">1<`},
			[]string{nothing, "fewer than 10 reports, says"}},
	} {
		x.options.Configuration = small
		doc := shown(t, x.options)
		for _, want := range x.want {
			if !strings.Contains(doc, want) {
				t.Errorf("%s: the page does not say %q", name, want)
			}
		}
		for _, not := range x.notSay {
			if strings.Contains(doc, not) {
				t.Errorf("%s: the page says %q", name, not)
			}
		}
	}
}

// What panels spend adds up for a person, and the page of panels says so.
func TestPageOfPanelsAddsUp(t *testing.T) {
	doc := shown(t, ledger.Options{Configuration: ledger.Living(plan.Central, 2)})
	if strings.Contains(doc, "does not add up") ||
		!strings.Contains(doc, "A person can be in several panels, and then it adds up") {
		t.Error("the page says that what panels spend does not add up")
	}
	doc = shown(t, ledger.Options{Configuration: ledger.Living(plan.Shares, 1)})
	if !strings.Contains(doc, "it can leave honest devices out of it, or out of the pool of a panel") {
		t.Error("the page does not say who chooses whom the plan's epsilon counts on")
	}
}

package experiment_test

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/riffle-dp/riffle/lab/experiment"
	"github.com/riffle-dp/riffle/pkg/plan"
)

// decodeRows are the rows as JSON, with the keys that they have.
func decodeRows(t *testing.T, rows []experiment.Row) []map[string]any {
	t.Helper()
	var text bytes.Buffer
	if err := experiment.WriteJSON(&text, rows); err != nil {
		t.Fatal(err)
	}
	var out struct {
		Rows []map[string]any `json:"rows"`
	}
	if err := json.Unmarshal(text.Bytes(), &out); err != nil || len(out.Rows) != len(rows) {
		t.Fatal(err, len(out.Rows))
	}
	return out.Rows
}

// Every private row says its delta, 0 where the guarantee is pure epsilon, and a row without privacy has none. Rows of
// a regression have errors and no regret, and a bandit's have no errors.
func TestRowsSayTheirDelta(t *testing.T) {
	one, mad := 1.0, 0.1
	bandit := []experiment.Row{{Algorithm: "a", Epsilon: &one, Delta: 1e-5, Seeds: 2}, {Algorithm: "b", Epsilon: &one},
		{Algorithm: "c"}}
	errors := slices.Clone(bandit)
	for i := range errors {
		errors[i].Errors = &experiment.Errors{MAD: &mad}
	}
	for name, rows := range map[string][]experiment.Row{"bandit": bandit, "regression": errors} {
		got := decodeRows(t, rows)
		if got[0]["delta"] != 1e-5 || got[1]["delta"] != 0.0 {
			t.Errorf("%s: deltas %v and %v", name, got[0]["delta"], got[1]["delta"])
		}
		if delta, ok := got[2]["delta"]; ok || got[2]["epsilon"] != nil {
			t.Errorf("%s: a row without privacy has delta %v and epsilon %v", name, delta, got[2]["epsilon"])
		}
		_, regret := got[0]["regret"]
		_, deviation := got[0]["mad"]
		if regret == deviation || regret != (name == "bandit") {
			t.Errorf("%s: regret %v, mad %v", name, regret, deviation)
		}
		var text bytes.Buffer
		if err := experiment.WriteCSV(&text, rows); err != nil {
			t.Fatal(err)
		}
		lines, err := csv.NewReader(&text).ReadAll()
		if err != nil {
			t.Fatal(err)
		}
		at := slices.Index(lines[0], "delta")
		if at < 0 || lines[1][at] != "1e-05" || lines[2][at] != "0" || lines[3][at] != "" {
			t.Errorf("%s: the column delta is number %d in %q", name, at, lines)
		}
	}
}

// A table has no costs where none are known, no standard error of one seed, and a column of deltas where they differ.
func TestTablesSayOnlyWhatIsKnown(t *testing.T) {
	one := 1.0
	table := func(rows ...experiment.Row) string {
		var text bytes.Buffer
		if err := experiment.WriteTable(&text, rows, true); err != nil {
			t.Fatal(err)
		}
		return text.String()
	}
	learner := experiment.Row{Algorithm: "a", Epsilon: &one, Delta: 1e-5, Trust: plan.Central, Seeds: 1, Regret: 70}
	for _, no := range []string{"bytes", "±", "delta"} {
		if got := table(learner); strings.Contains(got, no) {
			t.Errorf("%q for one seed without costs:\n%s", no, got)
		}
	}
	riffle, literal := learner, learner
	riffle.Bytes, riffle.VarianceRatio, literal.Delta, literal.Seeds = 900, 1.5, 0.02, 2
	got := table(learner, riffle, literal)
	for _, want := range []string{"bytes", "delta", "0.02", "70.0 ± 0.0", "1.500"} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
	if strings.Contains(got, "| 0.000 |") {
		t.Errorf("a noise ratio of 0 stands for one that is not known:\n%s", got)
	}
}

package feature_test

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/riffle-dp/riffle/pkg/feature"
)

// with is a schema with the given fields of the context and of arms, and terms.
func with(context, arms, terms string) string {
	return fmt.Sprintf(`{"version": 1, "context": [%s], "arms": [%s], "terms": [%s]}`, context, arms, terms)
}

const cost = `{"name": "cost", "kind": "number", "low": 0, "high": 1}`

// Every mistake of a schema is refused with a sentence about it.
func TestSchemaMistakes(t *testing.T) {
	arm := func(field string) string { return with("", field, `["x"]`) }
	many := func(n int, format string) string {
		var all []string
		for i := range n {
			all = append(all, fmt.Sprintf(format, i))
		}
		return strings.Join(all, ", ")
	}
	for _, c := range []struct{ text, want string }{
		{``, "not the JSON"},
		{`{}`, `"version" is missing`},
		{`{"version": 2, "arms": [], "terms": []}`, `"version" is 2`},
		{`{"version": 1, "arms": [], "arms": [], "terms": []}`, `"arms" occurs twice`},
		{`{"version": 1, "Arms": [], "terms": []}`, `it is written "arms"`},
		{`{"version": 1, "field": []}`, "not a field here"},
		{with("", cost, `["cost"]`) + "}", "something behind it"},
		{with("", "", ""), "no term has a field of arms"},
		{with("", cost, `["bias"]`), "no term has a field of arms"},
		{with(`{"name": "age", "kind": "flag"}`, cost, `["age"]`), "no term has a field of arms"},
		{with(`{"name": "age", "kind": "flag"}`, cost, `["cost"]`), `"age" is in no term`},
		{with("", cost, `["cost"], ["price"]`), "term 1: name 0 is no field"},
		{with("", cost, `["cost"], ["cost"]`), "term 1 occurs twice"},
		{with("", cost, `["cost", "cost"]`), "occurs twice in the term"},
		{with("", cost, `["cost", "bias"]`), "changes nothing"},
		{with("", cost, `[]`), "names 0 fields"},
		{with("", cost, `["cost", "cost", "cost", "cost"]`), "names 4 fields"},
		{with(`{"name": "cost", "kind": "flag"}`, cost, `["cost"]`), "the name occurs twice"},
		{with("", cost+`, {"name": "b", "kind": "flag"}`, `["cost"], ["b", "cost"], ["cost", "b"]`),
			"term 2 occurs twice"},
		{with("", `{"name": "Cost", "kind": "flag"}`, `["Cost"]`), "a name is"},
		{with("", `{"name": "bias", "kind": "flag"}`, `["bias"]`), "a name is"},
		{with(`{"name": "id", "kind": "hashed", "buckets": 2}`, cost, `["cost", "id"]`), "the arm's id"},
		{with("", `{"name": "id", "kind": "flag"}`, `["id"]`), "the arm's id"},
		{arm(`{"name": "x", "kind": "float"}`), "its kind must be"},
		{arm(`{"name": "x", "kind": "number", "low": 0}`), `a larger "high"`},
		{arm(`{"name": "x", "kind": "number", "low": 1, "high": 1}`), `a larger "high"`},
		{arm(`{"name": "x", "kind": "number", "low": -1e308, "high": 1e308}`), "finite"},
		{arm(`{"name": "x", "kind": "number", "low": 0, "high": 1e999}`), "not the JSON"},
		{arm(`{"name": "x", "kind": "flag", "low": 0}`), `a flag takes no "low"`},
		{arm(`{"name": "x", "kind": "hashed", "buckets": 3, "values": []}`), `a hashed takes no "values"`},
		{arm(`{"name": "x", "kind": "hashed"}`), "becomes 0 numbers"},
		{arm(`{"name": "x", "kind": "hashed", "buckets": -1}`), "becomes -1 numbers"},
		{arm(`{"name": "x", "kind": "hashed", "buckets": 513}`), "becomes 513 numbers"},
		{arm(`{"name": "x", "kind": "category", "values": ["a"], "baseline": true}`), "becomes 0 numbers"},
		{arm(`{"name": "x", "kind": "category", "values": ["a", "a"]}`), "value 1 is empty"},
		{arm(`{"name": "x", "kind": "category", "values": [""]}`), "value 0 is empty"},
		{arm(`{"name": "x", "kind": "category", "values": ["` + strings.Repeat("a", 257) + `"]}`), "value 0 is empty"},
		{arm(`{"name": "x", "kind": "category", "values": [` + many(514, `"%d"`) + `]}`), "514 values"},
		{arm(`{"name": "x", "kind": "buckets", "thresholds": []}`), "at least one"},
		{arm(`{"name": "x", "kind": "buckets", "thresholds": [1, 1]}`), "threshold 1"},
		{with("", many(257, `{"name": "a%d", "kind": "flag"}`), ""), "257 fields"},
		{with("", `{"name": "x", "kind": "hashed", "buckets": 500}, {"name": "y", "kind": "hashed", "buckets": 2}`,
			`["x", "y"]`),
			"more than 512 numbers"},
		{with("", `{"name": "x", "kind": "hashed", "buckets": 500}, {"name": "y", "kind": "hashed", "buckets": 13}`,
			`["x"], ["y"]`),
			"more than 512 numbers, by term 1"},
		{strings.Repeat(" ", feature.MaxBytes+1), "65537 bytes"},
		{`{"version": 1, "arms": [` + cost + `], "terms": [["cost"]], "limits": [{"arm": "a"}]}`, "at_most"},
		{`{"version": 1, "arms": [` + cost + `], "terms": [["cost"]], "limits": [{"arm": "", "at_most": 1}]}`,
			"limit 0"},
		{`{"version": 1, "arms": [` + cost + `], "terms": [["cost"]], "limits": [{"at_most": -1}]}`, "not the JSON"},
		{`{"version": 1, "arms": [` + cost + `], "terms": [["cost"]], "limits": [
			{"arm": "a", "at_most": 1}, {"arm": "a", "at_most": 2}]}`,
			"limit 1"},
		{`{"version": 1, "arms": [{"name": "id", "kind": "category", "values": ["a"]}], "terms": [["id"]],
			"limits": [{"arm": "b", "at_most": 1}]}`,
			"no arm can have this id"},
	} {
		s, err := feature.Parse([]byte(c.text))
		if !errors.Is(err, feature.ErrSchema) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%.200s: %v, %v; want %q", c.text, s, err, c.want)
		}
	}
}

// What is announced has one form. Another one of the same schema is taken from a file, but not from an announcement.
func TestCanonical(t *testing.T) {
	text := with(`{"kind": "number", "name": "age", "high": 9e1, "low": -0}`,
		`{"name": "id", "kind": "hashed", "buckets": 3}`, `["id", "age"]`)
	s, err := feature.Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"version":1,"context":[{"name":"age","kind":"number","low":0,"high":90}],` +
		`"arms":[{"name":"id","kind":"hashed","buckets":3}],"terms":[["id","age"]]}`
	if got := string(s.Canonical()); got != want {
		t.Errorf("%s", got)
	}
	if _, err := feature.Open([]byte(text)); !errors.Is(err, feature.ErrSchema) {
		t.Errorf("another form is taken: %v", err)
	}
	again, err := feature.Open(s.Canonical())
	if err != nil || !bytes.Equal(again.Canonical(), s.Canonical()) {
		t.Error(err)
	}
	// A key that some readers of JSON would take for "high", or of which they would take the first.
	for _, twice := range []string{`"high":90,"High":91`, `"high":91,"high":90`} {
		if _, err := feature.Open([]byte(strings.Replace(want, `"high":90`, twice, 1))); err == nil {
			t.Errorf("%s is taken", twice)
		}
	}
	clear(s.Canonical())
	if string(s.Canonical()) != want {
		t.Error("the canonical form can be changed from outside")
	}
}

func TestLimits(t *testing.T) {
	s, err := feature.Parse([]byte(`{"version": 1, "arms": [
		{"name": "id", "kind": "category", "values": ["a"], "other": true}], "terms": [["id"]],
		"limits": [{"arm": "b", "at_most": 3}]}`))
	if err != nil {
		t.Fatal(err)
	}
	if n, limited := s.AtMost("b"); n != 3 || !limited {
		t.Error(n, limited)
	}
	if n, limited := s.AtMost("a"); n != 0 || limited {
		t.Error(n, limited)
	}
	if l := s.Limits(); len(l) != 1 || l[0] != (feature.Limit{Arm: "b", AtMost: 3}) {
		t.Error(l)
	}
}

package scoring_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/riffle-dp/riffle/pkg/deployment/policyfile/scoring"
	"github.com/riffle-dp/riffle/pkg/feature"
)

// base puts the arms of decisions into a database of SQLite, runs the query, and looks whether the table is there. In a
// second table all features are texts, as where a CSV file was imported: the query must give the same.
const base = `
import json, sqlite3
for line in sys.stdin:
    one = json.loads(line)
    names = ["_decision", "_arm", "_default"] + one["columns"]
    answers = []
    for texts in (False, True):
        db = sqlite3.connect(":memory:")
        db.execute("CREATE TABLE offers (%s)" % ", ".join(
            '"%s"%s' % (n, " TEXT" if texts and n in one["columns"] else "") for n in names))
        for d, q in enumerate(one["requests"]):
            for a, arm in enumerate(q["arms"]):
                if a not in q["exclude"]:
                    row = [{**(q["context"] or {}), **arm}.get(n) for n in one["columns"]]
                    if texts:
                        row = [str(int(v) if isinstance(v, bool) else v).replace("inf", "9e999") if v is not None else v
                               for v in row]
                    row = [d, a, int(a == q["default"])] + row
                    db.execute("INSERT INTO offers VALUES (%s)" % ",".join("?" * len(row)), row)
        before = db.execute("SELECT COUNT(*) FROM offers").fetchone()
        answers.append(db.execute(one["query"]).fetchall())
        if db.execute("SELECT COUNT(*) FROM offers").fetchone() != before:
            raise SystemExit("the table was changed")
    if [r[3] for r in answers[0]] != [r[3] for r in answers[1]]:
        raise SystemExit("a table of texts gives other probabilities")
    print(json.dumps(answers[0]))
`

// The query plays the arm that a device plays, with the same probabilities, with texts that would escape from a
// literal.
func TestSQLChoosesAsADevice(t *testing.T) {
	t.Parallel()
	n := requests
	if testing.Short() {
		n /= 20
	}
	var input strings.Builder
	var asked [][]request
	for seed := uint64(0); len(asked) < worlds; seed++ {
		w := newWorld(t, seed, true)
		query, err := scoring.SQL(w.file)
		if errors.Is(err, scoring.ErrUnsupported) && strings.Contains(err.Error(), "not every database") {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		var columns []string
		for _, f := range append(w.schema.Context(), w.schema.Arms()...) {
			columns = append(columns, f.Name)
		}
		all := make([]request, n)
		for i := range all {
			all[i] = w.ask(t, true)
		}
		asked = append(asked, all)
		line, err := json.Marshal(map[string]any{"query": string(query), "columns": columns, "requests": all})
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&input, "%s\n", line)
	}
	lines := strings.Split(strings.TrimSpace(python(t, t.TempDir(), base, input.String())), "\n")
	if len(lines) != len(asked) {
		t.Fatalf("%d answers of %d worlds", len(lines), len(asked))
	}
	for i, all := range asked {
		var rows [][4]*float64
		if err := json.Unmarshal([]byte(lines[i]), &rows); err != nil {
			t.Fatal(err)
		}
		wrong, at := 0, 0
		for d, q := range all {
			for a, want := range q.probabilities {
				if at < len(rows) && *rows[at][0] == float64(d) && *rows[at][1] == float64(a) {
					if got := rows[at][3]; got == nil || *got != want {
						wrong++
					}
					at++
				} else if want != 0 {
					wrong++
				}
			}
		}
		if wrong > 0 || at != len(rows) {
			t.Errorf("world %d: %d of %d decisions differ, %d of %d rows", i, wrong, len(all), at, len(rows))
		}
	}
}

// A text that a database may read otherwise, a hash, and a policy without a schema are refused, with what to use
// instead; a text that is not listed gives no probability.
func TestSQLRefusesWhatItCannotSay(t *testing.T) {
	t.Parallel()
	for _, value := range []string{`\`, "\x00", "a\nb", "\u2028", "\u202e", "\ufffd"} {
		f := withValue(t, value)
		if _, err := scoring.SQL(f); !errors.Is(err, scoring.ErrUnsupported) ||
			!strings.Contains(err.Error(), "use the Python") {
			t.Errorf("%q: %v", value, err)
		}
		if text, err := scoring.Python(f); err != nil || strings.Contains(string(text), value) && value != `\` &&
			value != "\ufffd" {
			t.Errorf("%q stands in the Python as it is: %v", value, err)
		}
	}
	for seed := range uint64(20) {
		w := newWorld(t, seed, false)
		hashed := w.schema == nil
		if w.schema != nil {
			for _, f := range append(w.schema.Context(), w.schema.Arms()...) {
				hashed = hashed || f.Kind == feature.Hashed
			}
		}
		if _, err := scoring.SQL(w.file); hashed && !errors.Is(err, scoring.ErrUnsupported) {
			t.Errorf("seed %d: %v", seed, err)
		}
	}
	query, err := scoring.SQL(withValue(t, "call"))
	if err != nil {
		t.Fatal(err)
	}
	line, err := json.Marshal(map[string]any{"query": string(query), "columns": []string{"id"}, "requests": []request{
		{Arms: []any{map[string]any{"id": "none"}, map[string]any{"id": "letter"}}, Default: 0, Exclude: []any{}},
		{Arms: []any{map[string]any{"id": "none"}, map[string]any{"id": "call"}}, Default: 0, Exclude: []any{}}}})
	if err != nil {
		t.Fatal(err)
	}
	got := python(t, t.TempDir(), base, string(line)+"\n")
	if want := "[[0, 0, 0.0, null], [0, 1, null, null], [1, 0, 0.0, 0.0], [1, 1, 0.9999999999990905, 1.0]]"; strings.
		TrimSpace(got) != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// A number that is not finite and a flag that is neither true nor false give no probability, as a device refuses them.
func TestSQLHasNoProbabilityWhereADeviceRefuses(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ field, good, bad string }{
		{`{"name": "x", "kind": "number", "low": 0, "high": 10}`, "1e308", "9e999"},
		{`{"name": "x", "kind": "number", "low": 0, "high": 10}`, "-0.0", "-9e999"},
		{`{"name": "x", "kind": "buckets", "thresholds": [5], "baseline": true}`, "-1e308", "9e999"},
		{`{"name": "x", "kind": "flag"}`, "true", `"yes"`},
		{`{"name": "x", "kind": "category", "values": ["1", "2"]}`, `"1"`, `"01"`},
	} {
		query, err := scoring.SQL(withSchema(t, `{"version": 1, "terms": [["x"]], "arms": [`+c.field+`]}`))
		if err != nil {
			t.Fatal(err)
		}
		quoted, err := json.Marshal(string(query))
		if err != nil {
			t.Fatal(err)
		}
		const request = `{"context": {}, "arms": [{"id": "a", "x": %s}], "default": 0, "exclude": []}`
		line := fmt.Sprintf(`{"query": %s, "columns": ["x"], "requests": [%s, %s]}`, quoted,
			fmt.Sprintf(request, c.good), fmt.Sprintf(request, c.bad))
		var rows [][4]*float64
		if err := json.Unmarshal([]byte(python(t, t.TempDir(), base, line+"\n")), &rows); err != nil {
			t.Fatal(err)
		}
		if len(rows) != 2 || rows[0][3] == nil || *rows[0][3] != 1 || rows[1][3] != nil {
			t.Errorf("%s: %s has to be decided, %s not: %v", c.field, c.good, c.bad, rows)
		}
	}
}

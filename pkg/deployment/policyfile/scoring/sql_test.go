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

// base puts the arms of decisions into a database of SQLite, runs the query, and looks whether the table is there.
const base = `
import json, sqlite3
for line in sys.stdin:
    one = json.loads(line)
    db = sqlite3.connect(":memory:")
    names = ["_decision", "_arm", "_default"] + one["columns"]
    db.execute("CREATE TABLE offers (%s)" % ", ".join('"%s"' % n for n in names))
    for d, q in enumerate(one["requests"]):
        for a, arm in enumerate(q["arms"]):
            if a not in q["exclude"]:
                row = [d, a, int(a == q["default"])] + [{**q["context"], **arm}.get(n) for n in one["columns"]]
                db.execute("INSERT INTO offers VALUES (%s)" % ",".join("?" * len(row)), row)
    before = db.execute("SELECT COUNT(*) FROM offers").fetchone()
    print(json.dumps(db.execute(one["query"]).fetchall()))
    if db.execute("SELECT COUNT(*) FROM offers").fetchone() != before:
        raise SystemExit("the table was changed")
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
	got := python(t, t.TempDir(), base, strings.ReplaceAll(string(line), `"context":null`, `"context":{}`)+"\n")
	if want := "[[0, 0, 0.0, null], [0, 1, null, null], [1, 0, 0.0, 0.0], [1, 1, 0.9999999999990905, 1.0]]"; strings.
		TrimSpace(got) != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

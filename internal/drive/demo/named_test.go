package demo

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/riffle-dp/riffle/internal/audit"
	"github.com/riffle-dp/riffle/internal/population"
	"github.com/riffle-dp/riffle/internal/population/decisions"
	"github.com/riffle-dp/riffle/pkg/feature"
	"github.com/riffle-dp/riffle/pkg/plan"
)

// A file whose arms a schema makes is played by name: the schema is announced, devices make the vectors, and what is
// learnt has the names of the schema.
func TestTheSchemaOfAFileIsAnnounced(t *testing.T) {
	slow(t)
	const people = 200
	schema := `{"version": 1, "context": [{"name": "age", "kind": "number", "low": 18, "high": 90}],
		"arms": [{"name": "id", "kind": "category", "values": ["none", "o'card"], "baseline": true}],
		"terms": [["bias"], ["id"], ["id", "age"]]}`
	of, err := feature.Parse([]byte(schema))
	if err != nil {
		t.Fatal(err)
	}
	var rows strings.Builder
	rows.WriteString("age,none,o'card\n")
	for i := range people {
		fmt.Fprintf(&rows, "%d,%d,%d\n", 18+i%70, i%2, i%3%2)
	}
	folder := t.TempDir()
	table, features := filepath.Join(folder, "people.csv"), filepath.Join(folder, "schema.json")
	for path, text := range map[string]string{table: rows.String(), features: schema} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	columns, err := decisions.ParseColumns([]string{"rewards=none|o'card"})
	if err != nil {
		t.Fatal(err)
	}
	file, err := population.File(table, population.FileOptions{Columns: columns, Schema: of, Structure: of.Structure()})
	if err != nil {
		t.Fatal(err)
	}
	r, dir := run(t, Options{Population: file, Features: features, Trust: plan.Shares, Hosts: 1})
	whole(t, r, people)
	export, err := audit.OpenFolder(filepath.Join(filepath.Dir(dir), "export"))
	if err != nil {
		t.Fatal(err)
	}
	keys, err := export.Bundle()
	if err != nil {
		t.Fatal(err)
	}
	report, err := audit.Check(t.Context(), export, audit.Options{Trust: keys})
	if err != nil || !slices.Equal(report.Terms, of.Names()) {
		t.Errorf("%v: the terms are %q", err, report.Terms)
	}
}

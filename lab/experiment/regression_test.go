package experiment_test

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/riffle-dp/riffle/lab/experiment"
)

const smallRegression = `
name: small
kind: regression
title: A small one
data:
  - {kind: case-ii, name: case II}
horizons: [20000, 2000]
epsilons: [1]
delta: 1.0e-5
seeds: 3
algorithms:
  - {name: ridge, trust: local}
  - {name: layered, trust: local}
  - {name: improper, trust: central}
  - {name: exact, kind: ridge, trust: clear}
`

// A regression gives rows with its own measures and none of a bandit, a table, CSV and a picture; it goes on where it
// stopped; and its rows are those of the seeds alone.
func TestRegressionRuns(t *testing.T) {
	e, err := experiment.Parse([]byte(smallRegression))
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	rows, err := e.Run(t.Context(), experiment.Options{Folder: filepath.Join(folder, "runs"), Workers: 2})
	if err != nil {
		t.Fatal(err)
	}
	again, err := e.Run(t.Context(), experiment.Options{Folder: filepath.Join(folder, "runs"), Workers: 1})
	if err != nil {
		t.Fatal(err)
	}
	var first, second bytes.Buffer
	if err := experiment.WriteJSON(&first, rows); err != nil {
		t.Fatal(err)
	}
	if err := experiment.WriteJSON(&second, again); err != nil {
		t.Fatal(err)
	}
	if first.String() != second.String() {
		t.Error("the kept runs give other rows")
	}
	var out struct {
		Rows []map[string]any `json:"rows"`
	}
	if err := json.Unmarshal(first.Bytes(), &out); err != nil || len(out.Rows) != 8 {
		t.Fatalf("%d rows, %v", len(out.Rows), err)
	}
	for _, r := range out.Rows {
		for _, key := range []string{"algorithm", "epsilon", "environment", "horizon", "seeds", "trust", "mse",
			"mse_se", "mad", "mad_se", "shifted"} {
			if _, ok := r[key]; !ok {
				t.Errorf("the row of %v has no %s", r["algorithm"], key)
			}
		}
		if _, ok := r["regret"]; ok {
			t.Error("a regression has a regret")
		}
		delta, private := r["delta"] // layered regression is pure, and the exact one has no guarantee
		_, coverage := r["coverage"]
		if name := r["algorithm"]; private != (r["epsilon"] != nil) || private &&
			(delta == 0.0) != (name == "layered") || coverage == (name == "improper") {
			t.Errorf("the row of %v: delta %v, coverage %v", name, r["delta"], r["coverage"])
		}
	}
	pictures, err := e.Save(folder, rows)
	if err != nil || len(pictures) != 1 {
		t.Fatalf("pictures %v, %v", pictures, err)
	}
	text, err := os.ReadFile(filepath.Join(folder, "rows.csv"))
	if err != nil {
		t.Fatal(err)
	}
	if lines, err := csv.NewReader(bytes.NewReader(text)).ReadAll(); err != nil || len(lines) != 9 {
		t.Errorf("%d lines of CSV, %v", len(lines), err)
	}
}

// What cannot run is refused before anything runs.
func TestRegressionIsChecked(t *testing.T) {
	for what, change := range map[string][2]string{
		"an unknown kind":         {"kind: regression", "kind: classification"},
		"data of a bandit":        {"kind: regression", "kind: bandit"},
		"environments":            {"data:\n", "environments:\n  - {kind: ball}\ndata:\n"},
		"an unknown estimator":    {"name: layered,", "name: layers,"},
		"a trust that is missing": {"kind: ridge, trust: clear", "kind: dp-gd, trust: clear"},
		"a name twice":            {"name: exact", "name: ridge"},
		"no epsilon":              {"epsilons: [1]", "epsilons: []"},
		"a negative epsilon":      {"epsilons: [1]", "epsilons: [-1]"},
		"unknown data":            {"kind: case-ii", "kind: case-iv"},
		"no data":                 {"  - {kind: case-ii, name: case II}\n", ""},
	} {
		text := strings.Replace(smallRegression, change[0], change[1], 1)
		if text == smallRegression {
			t.Fatalf("%s: nothing changed", what)
		}
		if _, err := experiment.Parse([]byte(text)); err == nil {
			t.Errorf("%s is accepted", what)
		}
	}
}

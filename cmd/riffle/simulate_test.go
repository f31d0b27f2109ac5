package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func execute(t *testing.T, args ...string) string {
	t.Helper()
	cmd := root()
	var out bytes.Buffer
	cmd.SetOut(&out)
	cmd.SetErr(&bytes.Buffer{})
	cmd.SetArgs(args)
	if err := cmd.ExecuteContext(t.Context()); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func TestSimulateLists(t *testing.T) {
	list := execute(t, "simulate", "--list")
	for _, name := range []string{"headline", "table2", "adult-b7", "ablation"} {
		if !strings.Contains(list, name+" ") {
			t.Errorf("%s is not in\n%s", name, list)
		}
	}
}

// TestSimulateJSON: the rows have the keys that programs read, the flags replace what the file says.
func TestSimulateJSON(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "mine.yaml")
	text := "{name: mine, environments: [{kind: ball, dimension: 2, arms: 3}], horizons: [5000], epsilons: [1], " +
		"seeds: 9, algorithms: [{name: riffle}, {name: uniform}]}"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(dir, "out")
	var result struct {
		Rows []struct {
			Algorithm string
			Epsilon   *float64
			Horizon   int
			Seeds     int
			Regret    float64
			RegretSE  float64 `json:"regret_se"`
			Messages  float64 `json:"messages_per_user"`
		}
	}
	if err := json.Unmarshal([]byte(execute(t, "simulate", file, "--json", "--seeds", "2", "--horizon", "300",
		"--epsilon", "4", "--out", out)), &result); err != nil {
		t.Fatal(err)
	}
	if len(result.Rows) != 2 {
		t.Fatalf("%+v", result)
	}
	r := result.Rows[0]
	if r.Algorithm != "riffle" || r.Epsilon == nil || *r.Epsilon != 4 || r.Horizon != 300 || r.Seeds != 2 ||
		!(r.Regret > 0) || !(r.RegretSE >= 0) || !(r.Messages > 0) {
		t.Errorf("%+v", r)
	}
	if result.Rows[1].Epsilon != nil {
		t.Errorf("uniform play has epsilon %v", *result.Rows[1].Epsilon)
	}
	for _, name := range []string{"rows.json", "rows.csv", "table.txt", "regret.png"} {
		if _, err := os.Stat(filepath.Join(out, name)); err != nil {
			t.Error(err)
		}
	}
}

func TestEvaluateCommand(t *testing.T) {
	log := filepath.Join(t.TempDir(), "log.jsonl")
	var text strings.Builder
	for i := range 40 { // arm 1 earns 1, arm 0 nothing; played half and half
		fmt.Fprintf(&text, "{\"arms\":[[-1],[1]],\"arm\":%d,\"reward\":%d,\"propensity\":0.5}\n", i%4/2, i%4/2)
	}
	if err := os.WriteFile(log, []byte(text.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	var r map[string]any
	if err := json.Unmarshal([]byte(execute(t, "evaluate", log, "--theta", "1", "--json")), &r); err != nil {
		t.Fatal(err)
	}
	if v := r["snips"].(map[string]any)["value"].(float64); v < 1-1e-9 || v > 1+1e-9 {
		t.Errorf("the arm that always earns 1 is valued at %v", v)
	}
	if text := execute(t, "evaluate", log); !strings.Contains(text, "doubly robust") {
		t.Error(text)
	}
}

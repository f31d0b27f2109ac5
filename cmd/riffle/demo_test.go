package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/riffle-dp/riffle/internal/lab/chart"
	"github.com/riffle-dp/riffle/internal/lab/population"
	"github.com/riffle-dp/riffle/internal/role"
)

// Everything that is wrong with a demo's command line is told at once, whatever is wrong with the population.
func TestDemoTellsAllFaultsAtOnce(t *testing.T) {
	cmd := root()
	var said bytes.Buffer
	out := filepath.Join(t.TempDir(), "out")
	cmd.SetErr(&said)
	cmd.SetArgs([]string{"demo", "--data", "nobody.jsonl", "--epsilon", "-1", "--hosts", "0", "--profile", "theory", "--out", out})
	if code := role.Main(cmd); code != role.ExitConfig {
		t.Errorf("exit code %d", code)
	}
	for _, want := range []string{"nothing was started", "4 faults:", "nobody.jsonl", "epsilon = -1", "hosts = 0", `profile = "theory"`} {
		if !strings.Contains(said.String(), want) {
			t.Errorf("%q is not in\n%s", want, said.String())
		}
	}
	if _, err := os.Stat(out); err == nil {
		t.Error("a folder was made")
	}
}

// One run's table and picture show one epsilon, and it is not below the run's.
func TestDemoShowsOneEpsilon(t *testing.T) {
	r := chart.Result{Users: 100, Epochs: 3, Epsilon: 0.97342001, Delta: 1.25e-6, MessagesPerUser: 150}
	var table strings.Builder
	if err := r.WriteTable(&table); err != nil {
		t.Fatal(err)
	}
	for what, text := range map[string]string{"table": table.String(), "picture": subtitle(population.Info{Name: "synthetic"}, r)} {
		for _, want := range []string{"0.9735", "1.25e-06"} {
			if !strings.Contains(text, want) {
				t.Errorf("the %s does not show %s:\n%s", what, want, text)
			}
		}
	}
}

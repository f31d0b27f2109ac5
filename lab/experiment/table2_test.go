package experiment_test

import (
	"context"
	"math"
	"os"
	"testing"

	"github.com/riffle-dp/riffle/lab/experiment"
)

// The published table is repeated. Without RIFFLE_LONG the test runs two seeds of the first column, on which GLM-UCB,
// GLOC and uniform play vary by about one per cent between seeds; with RIFFLE_LONG=1 it runs all columns and ten seeds,
// as published. RS-GLinCB is heavy-tailed.
func TestPublishedTableIsRepeated(t *testing.T) {
	if testing.Short() {
		t.Skip("TestRunIsRepeatable has the same goroutines")
	}
	e, err := experiment.Load("table2")
	if err != nil {
		t.Fatal(err)
	}
	long := os.Getenv("RIFFLE_LONG") != ""
	if !long {
		e.Environments, e.Seeds = e.Environments[:1], 2
		if err := e.Change(experiment.Changes{Only: []string{"glm-ucb", "gloc", "uniform", "greedy"}}); err != nil {
			t.Fatal(err)
		}
	}
	rows, err := e.Run(context.Background(), experiment.Options{})
	if err != nil {
		t.Fatal(err)
	}
	published := map[string][]float64{
		"glm-ucb": {1400.27, 1943.23, 2323.06}, "gloc": {384.68, 631.60, 1346.59}, "uniform": {2156, 2325, 2416},
	}
	within := map[string]float64{"glm-ucb": 0.08, "gloc": 0.08, "uniform": 0.03}
	seen := map[string]int{}
	for _, r := range rows {
		column := seen[r.Algorithm]
		seen[r.Algorithm]++
		t.Logf("%s %s: %.1f +- %.1f", r.Environment, r.Algorithm, r.Regret, r.RegretSE)
		switch {
		case published[r.Algorithm] != nil:
			if want := published[r.Algorithm][column]; math.Abs(r.Regret/want-1) > within[r.Algorithm] {
				t.Errorf("%s, column %d: %.1f, published %.1f", r.Algorithm, column, r.Regret, want)
			}
		case r.Algorithm == "rs-glincb":
			if r.Regret < 80 || r.Regret > 600 {
				t.Errorf("rs-glincb, column %d: %.1f", column, r.Regret)
			}
		case r.Algorithm == "greedy" && r.Regret > 60:
			t.Errorf("greedy, column %d: %.1f", column, r.Regret)
		}
	}
	if long && seen["gloc"] != 3 {
		t.Error("columns are missing")
	}
}

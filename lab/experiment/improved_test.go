package experiment_test

import (
	"context"
	"os"
	"testing"

	"github.com/riffle-dp/riffle/lab/experiment"
)

// runImproved runs an experiment of the local linear bandits' paper, changed, and returns the rows by algorithm and
// epsilon (0: none), of the last environment and horizon.
func runImproved(t *testing.T, name string, c experiment.Changes) map[string]map[float64]experiment.Row {
	t.Helper()
	e, err := experiment.Load(name)
	if err != nil {
		t.Fatal(err)
	}
	if err := e.Change(c); err != nil {
		t.Fatal(err)
	}
	rows, err := e.Run(context.Background(), experiment.Options{Workers: 1})
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]map[float64]experiment.Row{}
	for _, r := range rows {
		epsilon := 0.0
		if r.Epsilon != nil {
			epsilon = *r.Epsilon
		}
		if out[r.Algorithm] == nil {
			out[r.Algorithm] = map[float64]experiment.Row{}
		}
		out[r.Algorithm][epsilon] = r
	}
	return out
}

// Table 1's machinery: with parameters of their own the trials reach all directions in nearly every round, with a
// shared one in fewer: with 100 arms in 26 to 28 % of the first 400 rounds, over three seeds.
func TestTrialsWithOneParameterComeTogether(t *testing.T) {
	if testing.Short() {
		t.Skip("nothing of it runs at the same time as anything else")
	}
	rows := runImproved(t, "table1-local", experiment.Changes{Seeds: 1, Horizons: []int{400}})
	own, shared := rows["linucb"][0].Spread, rows["linucb-shared-parameter"][0].Spread
	if own == nil || shared == nil || !(*own > 0.97) || !(*shared < 0.45) {
		t.Errorf("own parameters %v, a shared one %v", own, shared)
	}
}

// The order of figure 1, as it was measured: LinUCB near 134 (here within 35 %, for 4 seeds), below all; less noise
// loses less; the joint curator loses less than local noise, and sound noise less than the published.
func TestFigure1Local(t *testing.T) {
	if os.Getenv("RIFFLE_LONG") == "" {
		t.Skip("set RIFFLE_LONG=1: 4 seeds of 20 000 people at three epsilons take minutes")
	}
	rows := runImproved(t, "figure1-local", experiment.Changes{Seeds: 4})
	regret := func(name string, epsilon float64) float64 { return rows[name][epsilon].Regret }
	if v := regret("linucb", 0); v < 134*0.65 || v > 134*1.35 {
		t.Errorf("LinUCB loses %v", v)
	}
	for _, epsilon := range []float64{0.2, 1, 10} {
		joint, local := regret("joint-linucb", epsilon), regret("local-linucb", epsilon)
		if !(regret("linucb", 0) < joint && joint < local && joint < regret("joint-linucb-literal", epsilon) &&
			local < regret("local-linucb-literal", epsilon)) {
			t.Errorf("epsilon %v: joint %v, local %v", epsilon, joint, local)
		}
	}
	for _, name := range []string{"joint-linucb", "shuffle-linucb-script", "local-linucb-literal"} {
		if !(regret(name, 10) < regret(name, 1) && regret(name, 1) < regret(name, 0.2)*1.05) {
			t.Errorf("%s: %v, %v, %v", name, regret(name, 0.2), regret(name, 1), regret(name, 10))
		}
	}
	if v := regret("online-linucb-literal", 10); !(v < regret("uniform", 0)/3) {
		t.Errorf("Online LinUCB with the paper's noise loses %v at epsilon 10", v)
	}
}

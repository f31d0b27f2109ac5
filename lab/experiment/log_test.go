package experiment_test

import (
	"context"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/riffle-dp/riffle/internal/evaluate"
	"github.com/riffle-dp/riffle/internal/population/decisions"
	"github.com/riffle-dp/riffle/lab/experiment"
	"github.com/riffle-dp/riffle/pkg/glm"
	"github.com/riffle-dp/riffle/pkg/glm/family"
)

// A run that logs has the result of one that does not. The log has the arms that were played, with their propensities,
// and the doubly robust estimate of the learner's last policy on the log of uniform play is its value. The interval is
// of four standard errors and the seed is fixed: false alarm below 1e-4.
func TestLoggedDecisionsValueThePolicies(t *testing.T) {
	const text = `
name: logs
title: a test
about: a test
environments: [{kind: ball, dimension: 3, arms: 4, norm: 2}]
horizons: [3000]
epsilons: [4]
seeds: 1
algorithms: [{name: riffle}, {name: greedy}, {name: uniform}]
`
	e, err := experiment.Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	folder := filepath.Join(t.TempDir(), "logs")
	rows, err := e.Run(context.Background(), experiment.Options{Logs: folder})
	if err != nil {
		t.Fatal(err)
	}
	if plain, _ := run(t, text, ""); !reflect.DeepEqual(rows, plain) {
		t.Error("logging changes the results")
	}
	read := func(name string) []decisions.Decision {
		log, err := decisions.Open(filepath.Join(folder, name), decisions.Options{Strict: true})
		if err != nil || len(log.Decisions) != 3000 {
			t.Fatalf("%s: %v", name, err)
		}
		return log.Decisions
	}
	own := read("riffle-ball-logistic-d=3-K=4-S=2-T=3000-epsilon=4-seed=1.jsonl")
	certain, explored := 0, 0.0
	for _, d := range own {
		if d.Propensity == 1 {
			certain++
		}
		explored += 1 / d.Propensity / float64(len(own))
	}
	// The mean inverse propensity is the mean number of arms in play.
	if certain == 0 || certain == len(own) || !(explored > 1.1 && explored <= 4.5) {
		t.Errorf("%d certain decisions, %v arms in play", certain, explored)
	}
	uniform := read("uniform-ball-logistic-d=3-K=4-S=2-T=3000-seed=1.jsonl")
	mean := 0.0
	for _, d := range uniform {
		if d.Propensity != 0.25 {
			t.Fatalf("uniform play of four arms has odds %v", d.Propensity)
		}
		mean += d.Reward / float64(len(uniform))
	}
	if value := rows[2].Value; math.Abs(mean-value) > 4*0.5/math.Sqrt(3000) {
		t.Errorf("mean logged reward %v, value of what was played %v", mean, value)
	}
	final, err := os.ReadFile(filepath.Join(folder,
		"riffle-ball-logistic-d=3-K=4-S=2-T=3000-epsilon=4-seed=1.policy.json"))
	if err != nil {
		t.Fatal(err)
	}
	var last glm.Policy
	if err := json.Unmarshal(final, &last); err != nil {
		t.Fatal(err)
	}
	if err := last.Validate(); err != nil || last.Play != glm.PlayGreedy {
		t.Errorf("last policy %+v, %v", last, err)
	}
	family, err := family.New(last.Family, last.MaxReward)
	if err != nil {
		t.Fatal(err)
	}
	report, err := evaluate.Evaluate(uniform, last.Probabilities, evaluate.Options{Family: family})
	if err != nil {
		t.Fatal(err)
	}
	best := rows[0].Value + rows[0].Regret/3000 // of the best arms: no policy has more, and this one hardly less
	if got := report.DoublyRobust; got.Interval == nil || math.Abs(got.Value-best) > 4*got.Interval.SE {
		t.Errorf("last policy worth %+v, the best arms %v", got, best)
	}
	files, err := os.ReadDir(folder)
	if err != nil || len(files) != 3 {
		t.Errorf("%d files, want two logs and a policy: greedy play does not know its odds (%v)", len(files), err)
	}
}

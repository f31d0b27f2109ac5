package experiment

import (
	"errors"
	"strings"
	"testing"
)

const canaried = `
name: small
title: A title
environments:
  - {kind: ball, dimension: 2, arms: 3, norm: 2}
  - {kind: ball, dimension: 2, arms: 3, norm: 1}
  - {kind: fixed, dimension: 2, arms: 3, norm: 2}
horizons: [5000]
epsilons: [1]
seeds: 3
algorithms:
  - {name: linucb}
  - {name: wide, kind: linucb, options: {width: 2}}
  - {name: wider, kind: linucb, options: {width: 3}}
  - {name: uniform}
`

func canaryOf(t *testing.T, text string) string {
	t.Helper()
	c, err := canary(t.Context(), []byte(text), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// A canary is a function of what an experiment asks for: words about it change nothing, every number does, also those
// of algorithms and environments that are not run.
func TestCanaryChangesWithTheExperiment(t *testing.T) {
	want := canaryOf(t, canaried)
	if got := canaryOf(t, strings.Replace(canaried, "A title", "Other words", 1)); got != want {
		t.Errorf("another title gives %s, want %s", got, want)
	}
	for _, change := range [][2]string{{"seeds: 3", "seeds: 4"}, {"5000", "5001"}, {"epsilons: [1]", "epsilons: [2]"},
		{"width: 3", "width: 4"}, {"norm: 1}", "norm: 1.5}"}, {"{name: uniform}", "{name: greedy}"}} {
		if got := canaryOf(t, strings.Replace(canaried, change[0], change[1], 1)); got == want {
			t.Errorf("%q in place of %q changes nothing", change[1], change[0])
		}
	}
}

// The canary of a bake-off is that of its worlds but for files, of which the smallest comes first.
func TestCanaryOfABakeoff(t *testing.T) {
	const text = `
name: small
kind: bakeoff
title: A title
worlds:
  - {name: wide, half: tuning, environment: {kind: options, people: 5000, test: 10}}
  - {name: file, half: tuning, environment: {kind: file, path: none.jsonl, holdout: 0.2}}
  - {name: narrow, half: held-out, environment: {kind: two-point, people: 5000, test: 10}}
epsilons: [1]
seeds: 3
algorithms: [{name: uniform}, {name: greedy}]
`
	e, err := Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	var ran []string
	for _, one := range e.inEnvironments().shorten() {
		ran = append(ran, one.Algorithms[0].Name+" on "+one.Environments[0].Kind)
	}
	if got := strings.Join(ran, ", "); got != "uniform on two-point, greedy on two-point, uniform on options" {
		t.Errorf("ran %s", got)
	}
	want := canaryOf(t, text)
	if got := canaryOf(t, strings.Replace(text, "{kind: options,", "{kind: options, norm: 4,", 1)); got == want {
		t.Error("another world changes nothing")
	}
}

// A canary is of short runs: one seed, with the first number of people that an algorithm can have.
func TestCanaryRunsAreShort(t *testing.T) {
	e, err := Parse([]byte(canaried))
	if err != nil {
		t.Fatal(err)
	}
	rows, err := e.shorten()[0].shortest(t.Context(), "")
	if err != nil || len(rows) != 1 {
		t.Fatal(rows, err)
	}
	if r := rows[0]; r.Horizon != canaryLearners[0] || r.Seeds != 1 || !(r.Regret > 0) {
		t.Errorf("%+v", r)
	}
}

// Of algorithms and environments that differ in the size of numbers alone one runs; an algorithm runs on an environment
// that is for it, and one that needs more people than the canary has is an error.
func TestCanaryRunsEachKindOfAlgorithmAndEnvironmentOnce(t *testing.T) {
	e, err := Parse([]byte(canaried))
	if err != nil {
		t.Fatal(err)
	}
	var ran []string
	for _, one := range e.shorten() {
		ran = append(ran, one.Algorithms[0].Name+" on "+one.Environments[0].Label())
	}
	want := "linucb on ball logistic d=2 K=3 S=2, wide on ball logistic d=2 K=3 S=2, " +
		"uniform on ball logistic d=2 K=3 S=2, linucb on fixed logistic d=2 K=3 S=2"
	if got := strings.Join(ran, ", "); got != want {
		t.Errorf("ran %s\nwant %s", got, want)
	}
	e.Algorithms[3].Families = []string{"probit"}
	e.Environments[2].Family = "probit"
	if got := e.runsOn(3); got != 2 {
		t.Errorf("an algorithm for probit rewards runs on environment %d, want 2", got)
	}
	warmup := strings.Replace(canaried, "{name: uniform}",
		"{kind: nonprivate-batched, name: b, learner: {profile: paper, paper: {warmup: 2000}}}", 1)
	if _, err := canary(t.Context(), []byte(warmup), ""); err == nil {
		t.Error("a warm-up of 2000 people in a canary: no error")
	}
	if _, err := Canary(t.Context(), "nothing", ""); !errors.Is(err, ErrExperiment) {
		t.Errorf("no such experiment: %v", err)
	}
}

package experiment_test

import (
	"bytes"
	"context"
	"encoding/csv"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/riffle-dp/riffle/internal/population"
	"github.com/riffle-dp/riffle/lab/environment"
	"github.com/riffle-dp/riffle/lab/experiment"
)

const tiny = `
name: tiny
kind: bakeoff
title: a test
about: a test
epsilons: [4]
seeds: 2
worlds:
  - {name: blocks, half: tuning, source: drawn,
     environment: {kind: options, arms: 3, context: 3, norm: 4, truth: classes, people: 600, test: 300}}
  - {name: one set, half: held-out, source: drawn, epsilons: [2, 8],
     environment: {kind: fixed, dimension: 3, arms: 4, norm: 3, people: 600, test: 300}}
algorithms:
  - {name: riffle, trust: shares}
  - {name: nonprivate-greedy, kind: greedy}
  - name: constant
  - name: uniform
`

func bakeoff(t *testing.T, text string, c experiment.Changes) *experiment.Bakeoff {
	t.Helper()
	e, err := experiment.Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	if err := e.Change(c); err != nil {
		t.Fatal(err)
	}
	b, err := e.Bakeoff(context.Background(), experiment.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// What rows are measured by is what adding up the rewards of all people by hand gives, and shares are what they say.
func TestABakeoffOfTwoWorlds(t *testing.T) {
	b := bakeoff(t, tiny, experiment.Changes{})
	e, err := experiment.Parse([]byte(tiny))
	if err != nil {
		t.Fatal(err)
	}
	near := func(a, b float64) bool { return math.Abs(a-b) < 1e-9 }
	if len(b.Rows) != 4+5 {
		t.Fatalf("%d rows", len(b.Rows))
	}
	for _, r := range b.Rows {
		at := slices.IndexFunc(e.Worlds, func(w experiment.World) bool { return w.Name == r.World })
		spec := e.Worlds[at].Environment
		var constant, endConstant, endUniform, best float64
		for seed := uint64(1); seed <= 2; seed++ {
			run, err := spec.Open(seed, spec.People)
			if err != nil {
				t.Fatal(err)
			}
			people := byHand(t, run.People())
			held := byHand(t, run.Holdout())
			constant += slices.Max(people.arms) / 2
			endConstant += slices.Max(held.arms) / 2
			endUniform += held.uniform / 2
			best += held.best / 2
		}
		if !near(r.Constant, constant) || !near(r.EndConstant, endConstant) || !near(r.EndUniform, endUniform) {
			t.Errorf("%s: %+v, want %v, %v and %v", r.World, r, constant, endConstant, endUniform)
		}
		if r.EndGreedy > best+1e-9 || r.Final > best+1e-9 {
			t.Errorf("%s, %s: a policy is better than the best of each person, %v: %+v", r.World, r.Algorithm, best, r)
		}
		base, endBase := r.Constant, r.EndConstant
		if r.Over == experiment.OverUniform {
			base, endBase = uniformOf(t, spec), r.EndUniform
		}
		whole := r.EndGreedy - endBase
		if !near(*r.Learning, (r.Value-base)/whole) || !near(*r.End, (r.Final-endBase)/whole) {
			t.Errorf("%s, %s: %v and %v: %+v", r.World, r.Algorithm, *r.Learning, *r.End, r)
		}
		switch {
		case r.Algorithm == "nonprivate-greedy" && !near(*r.End, 1):
			t.Errorf("%s: the whole is %v of itself", r.World, *r.End)
		case r.Algorithm == "constant" && r.World == "blocks" && !near(*r.Learning, 0):
			t.Errorf("%s: the best constant arm gains %v over itself", r.World, *r.Learning)
		case r.World == "blocks" && (r.Over != experiment.OverConstant || r.Half != experiment.Tuning):
			t.Errorf("%+v", r)
		case r.World == "one set" && r.Over != experiment.OverUniform: // the best arm of all is constant
			t.Errorf("%+v", r)
		}
	}
	var pictures []string
	if pictures, err = b.Save(t.TempDir(), "a test"); err != nil || len(pictures) != 2 {
		t.Errorf("%v, %v", pictures, err)
	}
	var text bytes.Buffer
	if err := b.WriteCSV(&text); err != nil {
		t.Fatal(err)
	}
	if lines, err := csv.NewReader(&text).ReadAll(); err != nil || len(lines) != 1+len(b.Rows) {
		t.Errorf("%d lines, %v", len(lines), err)
	}
}

type sums struct {
	arms          []float64
	uniform, best float64
}

// byHand are the mean values of each arm, of uniform play and of each person's best arm.
func byHand(t *testing.T, people func(func(population.Person, error) bool)) (s sums) {
	t.Helper()
	n := 0.0
	for p, err := range people {
		if err != nil {
			t.Fatal(err)
		}
		if s.arms == nil {
			s.arms = make([]float64, len(p.Means))
		}
		n++
		top := math.Inf(-1)
		for a, m := range p.Means {
			s.arms[a] += m
			s.uniform += m / float64(len(p.Means))
			top = math.Max(top, m)
		}
		s.best += top
	}
	for a := range s.arms {
		s.arms[a] /= n
	}
	s.uniform, s.best = s.uniform/n, s.best/n
	return s
}

func uniformOf(t *testing.T, spec environment.Spec) (mean float64) {
	t.Helper()
	for seed := uint64(1); seed <= 2; seed++ {
		run, err := spec.Open(seed, spec.People)
		if err != nil {
			t.Fatal(err)
		}
		mean += byHand(t, run.People()).uniform / 2
	}
	return mean
}

// A world whose file is not given is skipped and named; a file that is given plays its world, or a world of its own,
// which no half leaves out.
func TestFilesOfABakeoff(t *testing.T) {
	text := tiny + "  - {name: nonprivate-batched}\n"
	text = strings.Replace(text, "algorithms:", "  - {name: letters, half: held-out, source: a file,\n"+
		"     environment: {kind: file, path: letters.jsonl, holdout: 0.25}}\nalgorithms:", 1)
	only := experiment.Changes{Only: []string{"nonprivate-batched"}, Half: experiment.HeldOut}
	b := bakeoff(t, text, only)
	if len(b.Rows) != 1 || len(b.Skipped) != 1 || !strings.Contains(b.Skipped[0], "letters.jsonl") {
		t.Errorf("%+v", b)
	}
	var out bytes.Buffer
	if err := b.WriteTable(&out, false); err != nil || !strings.Contains(out.String(), "Skipped: letters") {
		t.Errorf("%v: %s", err, out.String())
	}
	folder := t.TempDir()
	for i, name := range []string{"letters.jsonl", "mine.jsonl"} {
		var people strings.Builder
		for k := range 400 {
			right := (k/2 + i) % 2
			fmt.Fprintf(&people, `{"arms":[[%v,0.7,0,0],[0,0,%v,0.7]],"rewards":[%d,%d]}`+"\n", 0.7-1.4*float64(right),
				0.7-1.4*float64(right), 1-right, right)
		}
		path := filepath.Join(folder, name)
		if err := os.WriteFile(path, []byte(people.String()), 0o600); err != nil {
			t.Fatal(err)
		}
		only.Data = append(only.Data, path)
	}
	b = bakeoff(t, text, only)
	if len(b.Rows) != 3 || len(b.Skipped) != 0 {
		t.Fatalf("%+v", b)
	}
	for _, r := range b.Rows[1:] {
		share := map[string]int{"letters": 300, "mine": 320}[r.World]
		if r.People != share || !(*r.End > 0.9) || r.Half != map[string]string{"letters": experiment.HeldOut}[r.World] {
			t.Errorf("%+v", r)
		}
	}
}

// What a learner refuses is in the table with its reason, and the others have their shares.
func TestALearnerThatRefusesAWorld(t *testing.T) {
	text := strings.Replace(tiny, "  - name: constant\n", "  - {name: joint, learner: {family: nothing}}\n"+
		"  - {name: low, kind: uniform, max_dimension: 8}\n  - {name: high, kind: uniform, max_dimension: 9}\n", 1)
	b := bakeoff(t, text, experiment.Changes{Worlds: []string{"blocks"}})
	refused := 0
	for _, r := range b.Rows {
		if r.Refused != "" {
			refused++
			reason := map[string]string{"joint": "nothing", "low": "9 dimensions"}[r.Algorithm]
			if reason == "" || r.End != nil || !strings.Contains(r.Refused, reason) {
				t.Errorf("%+v", r)
			}
		}
	}
	if refused != 2 || len(b.Rows) != 6 {
		t.Errorf("%d refusals in %d rows", refused, len(b.Rows))
	}
}

func TestBakeoffsThatCannotRunAreRefused(t *testing.T) {
	for name, c := range map[string]struct{ from, to string }{
		"half":        {"half: tuning", "half: other"},
		"name twice":  {"name: one set", "name: blocks"},
		"no one held": {", test: 300}}\n  - {name: one", "}}\n  - {name: one"},
		"horizons":    {"seeds: 2", "seeds: 2\nhorizons: [5]"},
		"kind":        {"kind: bakeoff", "kind: bandit"},
		"epsilon":     {"epsilons: [2, 8]", "epsilons: [2, -8]"},
		"environment": {"kind: fixed", "kind: none"},
	} {
		if _, err := experiment.Parse([]byte(strings.Replace(tiny, c.from, c.to, 1))); err == nil {
			t.Errorf("%s: not refused", name)
		}
	}
	for name, c := range map[string]experiment.Changes{
		"half": {Half: "third"}, "world": {Worlds: []string{"none"}}, "horizon": {Horizons: []int{5}},
	} {
		e, err := experiment.Parse([]byte(tiny))
		if err != nil {
			t.Fatal(err)
		}
		if err := e.Change(c); err == nil {
			t.Errorf("%s: not refused", name)
		}
	}
	e, err := experiment.Parse([]byte(small))
	if err != nil {
		t.Fatal(err)
	}
	if err := e.Change(experiment.Changes{Half: experiment.Tuning}); err == nil {
		t.Error("an experiment without worlds has halves")
	}
}

// The committed bake-off has both halves of every kind of world, and covers what it is for.
func TestTheBakeoffIsWide(t *testing.T) {
	e, err := experiment.Load("bakeoff")
	if err != nil {
		t.Fatal(err)
	}
	halves, epsilons := map[string]int{}, map[float64]bool{}
	kinds := map[string]map[string]bool{}
	for _, w := range e.Worlds {
		halves[w.Half]++
		kind := w.Environment.Kind + " " + w.Environment.Law + " " + w.Environment.Family
		if kinds[kind] == nil {
			kinds[kind] = map[string]bool{}
		}
		kinds[kind][w.Half] = true
		for _, v := range append(w.Epsilons, e.Epsilons...) {
			epsilons[v] = true
		}
	}
	if len(e.Worlds) < 12 || halves[experiment.Tuning] < 6 || halves[experiment.HeldOut] < 6 || e.Seeds != 20 ||
		!epsilons[0.5] || !epsilons[1] || !epsilons[4] {
		t.Errorf("%d worlds, %v, %v", len(e.Worlds), halves, epsilons)
	}
	for kind, h := range kinds {
		if !h[experiment.Tuning] || !h[experiment.HeldOut] {
			t.Errorf("%s is in one half only", kind)
		}
	}
}

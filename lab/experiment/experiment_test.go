package experiment_test

import (
	"bytes"
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/riffle-dp/riffle/lab/experiment"
)

func TestCommittedExperimentsLoad(t *testing.T) {
	names := experiment.Names()
	if len(names) < 10 {
		t.Fatalf("only %v", names)
	}
	for _, name := range names {
		e, err := experiment.Load(name)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if e.Name != name || e.Title == "" || e.About == "" {
			t.Errorf("%s is called %q, %q, %q", name, e.Name, e.Title, e.About)
		}
	}
}

// Other programs look up these names.
func TestHeadlineHasItsAlgorithms(t *testing.T) {
	e, err := experiment.Load("headline")
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"riffle", "riffle-paper", "riffle-paper-narrow", "nonprivate-paper", "nonprivate-paper-narrow",
		"nonprivate-batched", "nonprivate-greedy", "shuffle-linucb", "local-dp", "uniform"}
	for i, a := range e.Algorithms {
		if a.Name != want[i] {
			t.Errorf("algorithm %d is %q, want %q", i, a.Name, want[i])
		}
	}
	if len(e.Algorithms) != len(want) || e.Seeds < 10 || !reflect.DeepEqual(e.Horizons, []int{100000}) ||
		!reflect.DeepEqual(e.Epsilons, []float64{1}) {
		t.Errorf("%+v", e)
	}
}

const small = `
name: small
title: a test
about: a test
environments: [{kind: ball, dimension: 3, arms: 4, norm: 2}]
horizons: [200, 400, 800]
epsilons: [4, 6]
seeds: 2
algorithms:
  [{name: riffle}, {name: local-dp, epsilons: [4]}, {name: nonprivate-batched}, {name: greedy}, {name: uniform}]
`

func run(t *testing.T, text, folder string) ([]experiment.Row, *experiment.Experiment) {
	t.Helper()
	e, err := experiment.Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	rows, err := e.Run(context.Background(), experiment.Options{Folder: folder})
	if err != nil {
		t.Fatal(err)
	}
	return rows, e
}

// Results are a function of the experiment, whether runs are kept, taken from the folder, or
// repeated.
func TestRunIsRepeatable(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "runs")
	text, horizons := small, 3
	if testing.Short() {
		text, horizons = strings.Replace(small, "[200, 400, 800]", "[200]", 1), 1
	}
	first, e := run(t, text, folder)
	again, _ := run(t, text, folder)
	fresh, _ := run(t, text, "")
	if !reflect.DeepEqual(first, again) || !reflect.DeepEqual(first, fresh) {
		t.Error("the rows differ")
	}
	if len(first) != horizons*(2+1+1+1+1) {
		t.Errorf("%d rows", len(first))
	}
	for _, r := range first {
		if !(r.Regret > 0) || r.Seeds != 2 || len(r.Course) != len(r.Marks) || r.Marks[len(r.Marks)-1] != r.Horizon {
			t.Errorf("%+v", r)
		}
		if private := r.Algorithm == "riffle" || r.Algorithm == "local-dp"; private != (r.Epsilon != nil) {
			t.Errorf("%s has epsilon %v", r.Algorithm, r.Epsilon)
		}
		if r.Algorithm == "riffle" && !(r.Messages > 20 && r.Messages <= 150) {
			t.Errorf("%v messages", r.Messages)
		}
	}
	pictures, err := e.Save(t.TempDir(), first)
	if err != nil || len(pictures) < min(4, 2+horizons) { // one of them has horizons as its axis
		t.Errorf("%v, %v", pictures, err)
	}
	for _, p := range pictures {
		if s, err := os.Stat(p); err != nil || s.Size() < 5000 {
			t.Errorf("%s: %v, %v", p, s, err)
		}
	}
}

// A run that was kept is not run again: a forged result in the folder is believed.
func TestKeptRunsAreNotRunAgain(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "runs")
	one := `{name: one, title: t, about: a, environments: [{kind: ball}], horizons: [50], seeds: 1,
  algorithms: [{name: uniform}]}`
	before, _ := run(t, one, folder)
	files, err := os.ReadDir(folder)
	if err != nil || len(files) != 1 {
		t.Fatal(files, err)
	}
	path := filepath.Join(folder, files[0].Name())
	if err := os.WriteFile(path, []byte(`{"people":50,"regret":77,"marks":[50],"course":[77]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if forged, _ := run(t, one, folder); forged[0].Regret != 77 {
		t.Errorf("regret %v: the kept run was not used", forged[0].Regret)
	}
	if err := os.WriteFile(path, []byte(`{"people":50,"reg`), 0o600); err != nil {
		t.Fatal(err)
	}
	if repaired, _ := run(t, one, folder); !reflect.DeepEqual(repaired, before) {
		t.Error("a run that was cut off was not repeated")
	}
}

func TestRowsAreWrittenAsJSONAndCSV(t *testing.T) {
	rows, _ := run(t, strings.Replace(small, "{name: riffle}", "{name: central-dp}", 1), "")
	var text bytes.Buffer
	if err := experiment.WriteJSON(&text, rows); err != nil {
		t.Fatal(err)
	}
	var decoded struct {
		Rows []map[string]any `json:"rows"`
	}
	if err := json.Unmarshal(text.Bytes(), &decoded); err != nil || len(decoded.Rows) != len(rows) {
		t.Fatal(err, len(decoded.Rows))
	}
	for _, key := range []string{"algorithm", "epsilon", "horizon", "seeds", "regret", "regret_se",
		"messages_per_user"} {
		if _, ok := decoded.Rows[0][key]; !ok {
			t.Errorf("no %q", key)
		}
	}
	text.Reset()
	if err := experiment.WriteCSV(&text, rows); err != nil {
		t.Fatal(err)
	}
	if lines, err := csv.NewReader(&text).ReadAll(); err != nil || len(lines) != len(rows)+1 {
		t.Errorf("%d lines, %v", len(lines), err)
	}
	text.Reset()
	if err := experiment.WriteTable(&text, rows, false); err != nil ||
		!strings.Contains(text.String(), "to the power of") {
		t.Errorf("%v in %s", err, text.String())
	}
}

func TestBadExperimentsAreRefused(t *testing.T) {
	good := `{name: one, title: t, about: a, environments: [{kind: ball}], horizons: [50], seeds: 1,
  epsilons: [1], algorithms: [{name: riffle}]}`
	if _, err := experiment.Parse([]byte(good)); err != nil {
		t.Fatal(err)
	}
	for _, change := range [][2]string{
		{"name: one", "name: a/b"}, {"title:", "tilte:"}, {"kind: ball", "kind: bowl"}, {"[50]", "[-5]"}, {"[50]",
			"[]"}, {"seeds: 1", "seeds: 0"},
		{"epsilons: [1]", "epsilons: [0]"}, {"epsilons: [1]", "epsilons: []"}, {"[{name: riffle}]",
			"[]"}, {"name: riffle", "name: raffle"},
		{"[{name: riffle}]", "[{name: riffle}, {name: riffle}]"}, {"kind: ball", "kind: ball, norm: -1"}, {"kind: ball",
			"kind: file"}, {"{", "[{"},
	} {
		text := strings.Replace(good, change[0], change[1], 1)
		if _, err := experiment.Parse([]byte(text)); !errors.Is(err, experiment.ErrExperiment) {
			t.Errorf("%s: %v", text, err)
		}
	}
	if _, err := experiment.Load("nothing"); !errors.Is(err, experiment.ErrExperiment) {
		t.Error(err)
	}
}

func TestExponentOfASquareRootIsOneHalf(t *testing.T) {
	var rows []experiment.Row
	for _, n := range []int{100, 1000, 10000, 100000} {
		rows = append(rows, experiment.Row{Algorithm: "a", Horizon: n, Regret: 3 * sqrt(n)})
	}
	fits := experiment.Exponents(rows)
	if len(fits) != 1 || fits[0].Power < 0.499 || fits[0].Power > 0.501 || fits[0].From != 100 || fits[0].To != 100000 {
		t.Errorf("%+v", fits)
	}
	if fits := experiment.Exponents(rows[:2]); len(fits) != 0 {
		t.Errorf("a power from two points: %+v", fits)
	}
}

func sqrt(n int) float64 {
	x := 1.0
	for range 60 {
		x = (x + float64(n)/x) / 2
	}
	return x
}

func TestRunStopsWhenCancelled(t *testing.T) {
	e, err := experiment.Parse([]byte(small))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if rows, err := e.Run(ctx, experiment.Options{}); !errors.Is(err, context.Canceled) || rows != nil {
		t.Errorf("%v, %v", rows, err)
	}
}

// Whoever chooses an experiment is told how long it takes.
func TestEveryExperimentSaysHowLongItTakes(t *testing.T) {
	for _, name := range experiment.Names() {
		if experiment.Takes(name) <= 0 {
			t.Errorf("%s: nobody knows how long it takes: measure it with --seeds 1", name)
		}
	}
}

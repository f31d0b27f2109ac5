package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/riffle-dp/riffle/internal/audit/ask"
	"github.com/riffle-dp/riffle/internal/command"
	"github.com/riffle-dp/riffle/internal/testing/ledger"
	"github.com/riffle-dp/riffle/pkg/deployment"
	"github.com/riffle-dp/riffle/pkg/feature"
	"github.com/riffle-dp/riffle/pkg/glm/statistic"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// A schema of two numbers, for the ledger's arms of dimension 2.
const askSchema = `{"version":1,"arms":[{"name":"age","kind":"number","low":20,"high":80},
	{"name":"member","kind":"flag"}],"terms":[["age"],["member"]]}`

// questioned exports a small deployment of panels that still runs, whose first epoch asked for the mean of age and of
// the reward, and whose second asked for a histogram of age.
func questioned(t *testing.T, o ledger.Options) (folder, trust string) {
	t.Helper()
	schema, err := feature.Parse([]byte(askSchema))
	if err != nil {
		t.Fatal(err)
	}
	c := ledger.LivingOf(plan.Central, 2, 150)
	c.Learner.Family, c.Learner.MaxReward = "logistic", 1
	c.Schema, c.Learner.Structure = schema.Canonical(), schema.Structure()
	age := ask.Wanted{Kind: statistic.Mean, Name: "age", Fields: []string{"age", "reward"}}
	ages := ask.Wanted{Kind: statistic.Histogram, Name: "ages", Fields: []string{"age"}, Bins: 3}
	o.Configuration, o.Seed, o.Rounds = c, 5, 3
	o.Ask = func(epoch uint64) (statistic.Kind, *statistic.Question) {
		for i, w := range []ask.Wanted{age, ages} {
			if epoch == uint64(i+1) {
				q, err := w.Question(c)
				if err != nil {
					t.Fatal(err)
				}
				return w.Kind, q
			}
		}
		return "", nil
	}
	l, err := ledger.Make(o)
	if err != nil {
		t.Fatal(err)
	}
	return exported(t, l)
}

// riffle ask says what a question would cost, writes it where the analyzer reads it, and shows what was answered; what
// cannot be asked is refused with what to do.
func TestAskPlansWritesAndShows(t *testing.T) {
	t.Parallel()
	folder, trust := questioned(t, ledger.Options{})
	waiting := t.TempDir()
	at := []string{"--export", folder, "--trust", trust}
	asks := func(args ...string) (string, int) {
		return runRiffle(t, append(append([]string{"ask"}, args...), at...)...)
	}

	text, exit := asks("mean", "age", "member", "reward", "--name", "later")
	if exit != 0 || !strings.Contains(text, "Nothing was asked") || !strings.Contains(text, "member (share true)") {
		t.Errorf("exit %d:\n%s", exit, text)
	}
	text, exit = asks("fit", "reward", "age", "--name", "gain", "--questions", waiting, "--json")
	var r ask.Preview
	if err := json.Unmarshal([]byte(text), &r); err != nil || exit != 0 || r.Records < 1 || len(r.Expected) != 3 ||
		!(r.EpsilonEpoch > 0 && float64(r.Epsilon) <= r.Promise) || r.Written != filepath.Join(waiting, "gain.json") {
		t.Errorf("exit %d, %v:\n%s", exit, err, text)
	}
	written, err := os.ReadFile(r.Written)
	if err != nil {
		t.Fatal(err)
	}
	if kind, q, err := deployment.ReadQuestion(written); err != nil || kind != statistic.Fit || len(q.Of) != 2 ||
		len(q.Of[1].Entries) != 0 || len(q.Of[0].Entries) != 1 {
		t.Errorf("%s is asked, %+v, %v", kind, q, err)
	}
	if files, err := os.ReadDir(waiting); err != nil || len(files) != 1 {
		t.Errorf("%v, %v", files, err)
	}
	for says, args := range map[string][]string{
		"is there already":        {"fit", "reward", "age", "--name", "gain", "--questions", waiting},
		"asked before":            {"mean", "age", "--name", "age"},
		"--name is missing":       {"mean", "age"},
		"there are age, member":   {"mean", "height", "--name", "a"},
		"name is 1 to 63":         {"mean", "age", "--name", "Age"},
		"inside the range 20":     {"histogram", "age", "--name", "a", "--edges", "10,50"},
		`"x" is no number`:        {"histogram", "age", "--name", "a", "--edges", "x"},
		"cannot go with --edges":  {"histogram", "age", "--name", "a", "--edges", "30", "--bins", "4"},
		"--bins 1":                {"histogram", "age", "--name", "a", "--bins", "1"},
		"requires at least 2 arg": {"fit", "reward", "--name", "a"},
		"the folder of questions": {"mean", "age", "--name", "a", "--questions", filepath.Join(waiting, "absent")},
	} {
		if text, exit := asks(args...); exit != 1 || !strings.Contains(text, says) {
			t.Errorf("%v: exit %d, want %q:\n%s", args, exit, says, text)
		}
	}

	picture := filepath.Join(t.TempDir(), "ages.svg")
	text, exit = runRiffle(t, "ask", "answers", folder, "--trust", trust, "--out", picture)
	if exit != 0 || !strings.Contains(text, "mean age, epoch 1") ||
		!strings.Contains(text, "histogram ages, epoch 2") ||
		!strings.Contains(text, "40 ≤ age < 60") || !strings.Contains(text, "decisions with a reward") {
		t.Errorf("exit %d:\n%s", exit, text)
	}
	if drawn, err := os.ReadFile(picture); err != nil || !strings.Contains(string(drawn), "share of decisions") {
		t.Errorf("the picture: %v, %d bytes", err, len(drawn))
	}
	text, exit = runRiffle(t, "ask", "answers", folder, "--trust", trust, "--name", "gain")
	if exit != 1 || !strings.Contains(text, "no panel was asked") {
		t.Errorf("exit %d:\n%s", exit, text)
	}
	lying, keys := questioned(t, ledger.Options{Tamper: ledger.Tamper{Learned: func(l *wire.Learned) {
		if l.Epoch == 1 {
			l.Sums[0].Values[0] += 10
		}
	}}})
	text, exit = runRiffle(t, "ask", "answers", lying, "--trust", keys, "--json")
	var shown ask.Answers
	if err := json.NewDecoder(strings.NewReader(text)).Decode(&shown); err != nil || exit != command.ExitBreach ||
		shown.OK || len(shown.Answers) != 2 {
		t.Errorf("exit %d, %v:\n%s", exit, err, text)
	}
}

// A question whose cohort was destroyed is told, and how to ask it again.
func TestAQuestionWithoutAnAnswerIsTold(t *testing.T) {
	t.Parallel()
	first := func(epoch uint64, _ uint32) bool { return epoch == 1 }
	folder, trust := questioned(t, ledger.Options{Destroyed: first})
	for _, args := range [][]string{{}, {"--name", "age"}} {
		text, exit := runRiffle(t, append([]string{"ask", "answers", folder, "--trust", trust}, args...)...)
		const told = "age, asked in epoch 1, has no answer: its cohort is destroyed: to ask again, give the question " +
			"another name"
		if exit != 0 || !strings.Contains(text, told) ||
			strings.Contains(text, "histogram ages") != (len(args) == 0) {
			t.Errorf("exit %d:\n%s", exit, text)
		}
	}
}

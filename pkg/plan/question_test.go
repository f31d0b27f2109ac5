package plan

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/riffle-dp/riffle/pkg/glm/learner"
	"github.com/riffle-dp/riffle/pkg/glm/statistic"
)

// A question is asked of a panel, and its answer is the epoch's one release; nothing else has a guarantee or is
// encoded.
func TestAQuestionIsThePanelsOneRelease(t *testing.T) {
	step := stepAt(t, learner.Config{Dimension: 3, Horizon: 5000}, 400, 0.7)
	learners := step.Statistics
	q := &statistic.Question{Name: "a", Of: []statistic.Quantity{{Entries: []int{2}, Low: -1, High: 1}}}
	step.Statistics = [][]statistic.Statistic{{{Kind: statistic.Mean, Family: learners[0][0].Family, ArmDim: 3,
		Question: q}}}
	step.Shares = [][]float64{{1}}
	p, err := Propose(step, panelTerms(Shares))
	if err != nil {
		t.Fatal(err)
	}
	good := p.Announced(step)
	if _, err := Guarantee(good, 0); err != nil || good.Question == nil || good.Plan.AskedKind() != statistic.Mean {
		t.Fatalf("%+v, %v", good.Question, err)
	}
	for says, change := range map[string]func(a *Announcement){
		"asked of a panel": func(a *Announcement) {
			a.Plan.Panel, a.Plan.Decisions, a.Plan.Records = nil, 0, 0
		},
		"one release": func(a *Announcement) {
			a.Plan.Rounds[0].Releases = slices.Repeat(a.Plan.Rounds[0].Releases, 2)
			a.Encodings = slices.Repeat(a.Encodings, 2)
		},
		"releases no answer": func(a *Announcement) { a.Plan.Rounds[0].Releases[0].Statistic = statistic.Gradient },
		"no question":        func(a *Announcement) { a.Question = nil },
		"0 quantities":       func(a *Announcement) { a.Question.Of = nil },
		"entries":            func(a *Announcement) { a.Question.Of[0].Entries[0] = 3 },
	} {
		a := good.Clone()
		change(a)
		if _, err := Guarantee(a, 0); !errors.Is(err, ErrPlan) || !strings.Contains(err.Error(), says) {
			t.Errorf("guarantee: %v, want %q", err, says)
		}
		if _, err := CheckRound(a); !errors.Is(err, ErrPlan) || !strings.Contains(err.Error(), says) {
			t.Errorf("encoding: %v, want %q", err, says)
		}
	}
	for says, change := range map[string]func(a *Announcement){ // which no panel's plan may have anyway
		"asked of a panel": func(a *Announcement) { a.Plan.Curator = &Curator{} },
		"one release":      func(a *Announcement) { a.Plan.Rounds = slices.Repeat(a.Plan.Rounds, 2) },
	} {
		a := good.Clone()
		change(a)
		if err := a.CheckQuestion(); !errors.Is(err, ErrPlan) || !strings.Contains(err.Error(), says) {
			t.Errorf("%v, want %q", err, says)
		}
	}
	if q.Of[0].Entries[0] != 2 {
		t.Error("a clone shares memory")
	}
}

package plan

import (
	"strings"
	"testing"

	"github.com/riffle-dp/riffle/pkg/glm"
	"github.com/riffle-dp/riffle/pkg/glm/family"
	"github.com/riffle-dp/riffle/pkg/glm/layered"
	"github.com/riffle-dp/riffle/pkg/glm/learner"
	"github.com/riffle-dp/riffle/pkg/glm/statistic"
)

// binStep asks about the layer below the first of a tree, or about the errors of its second.
func binStep(t *testing.T, cohort int, errors bool) learner.Step {
	t.Helper()
	tree := &layered.Tree{Levels: 4, Gamma: 2, Cap: 2, Clip: 2, Bins: []layered.Bin{
		{Direction: []float64{1, 0}, Value: 0.5, Slope: 1}, {Level: 1, Direction: []float64{0, 1}, Slope: 1},
	}}
	kinds := []statistic.Kind{statistic.BinCount, statistic.BinFirst, statistic.BinSecond}
	shares := []float64{1. / 6, 3. / 6, 2. / 6}
	if errors {
		kinds, shares = []statistic.Kind{statistic.BinErrors}, []float64{1}
		tree.Bins = append(tree.Bins, layered.Bin{Parent: 1, Direction: []float64{0, 1}})
	}
	step := learner.Step{Cohort: cohort, Policy: glm.Policy{Profile: glm.RegCB, Family: "linear", MaxReward: 1,
		Dimension: 2, Radius: 1, Theta: make([]float64, 2), Play: glm.PlaySpanner}, VarianceRatio: 2,
		Statistics: [][]statistic.Statistic{nil}, Shares: [][]float64{shares}}
	for _, kind := range kinds {
		s := statistic.Statistic{Kind: kind, Family: family.Linear{}, ArmDim: 2, Tree: tree}
		if err := s.Validate(); err != nil {
			t.Fatal(err)
		}
		step.Statistics[0] = append(step.Statistics[0], s)
	}
	return step
}

// In every channel a device rebuilds the statistics over bins from the announced tree alone, and finds a guarantee
// within the target that uses most of it.
func TestStatisticsOverBinsArePlanned(t *testing.T) {
	for _, of := range every() {
		for _, errors := range []bool{false, true} {
			terms := termsOf(of)
			step := binStep(t, 3000, errors)
			p, err := Propose(step, terms)
			if err != nil {
				t.Fatalf("%+v: %v", of, err)
			}
			a := p.Announced(step)
			g, err := Guarantee(a, 0)
			if eps := g.Epsilon(terms.Delta); err != nil || !(eps <= terms.Epsilon && eps > terms.Epsilon/2) {
				t.Errorf("%+v: epsilon %v, %v", of, eps, err)
			}
			round, err := CheckRound(a)
			if err != nil {
				t.Fatal(err)
			}
			for i, s := range round.Statistics {
				if s.Kind != step.Statistics[0][i].Kind || s.Dim() != len(a.Encodings[i].Coordinates) ||
					s.Tree != a.Tree {
					t.Errorf("%+v: statistic %d is %s with %d coordinates", of, i, s.Kind, s.Dim())
				}
			}
		}
	}
}

// A tree whose statistics move farther than is planned is refused, and so is one with other bins than are encoded, no
// tree, and a plan of several rounds, whose later trees nobody knows.
func TestTreesArePartOfThePlan(t *testing.T) {
	step := binStep(t, 3000, false)
	p, err := Propose(step, DefaultTermsFor(Shares))
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		spoil func(a *Announcement)
		says  string // by CheckRound; Guarantee refuses all of them
	}{
		"clip":    {func(a *Announcement) { a.Tree.Clip = 4 }, "can move the bin-first"},
		"levels":  {func(a *Announcement) { a.Tree.Levels = 5 }, "coordinates"},
		"bins":    {func(a *Announcement) { a.Tree.Bins = a.Tree.Bins[:1] }, "coordinates"},
		"no tree": {func(a *Announcement) { a.Tree = nil }, "no tree"},
		"broken":  {func(a *Announcement) { a.Tree.Gamma = 0 }, "gamma"},
		"rounds":  {func(a *Announcement) { a.Plan.Rounds = append(a.Plan.Rounds, a.Plan.Rounds[0]) }, ""},
	} {
		a := p.Announced(step).Clone()
		c.spoil(a)
		if _, err := CheckRound(a); c.says != "" && (err == nil || !strings.Contains(err.Error(), c.says)) {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := Guarantee(a, 0); err == nil {
			t.Errorf("%s: there is a guarantee", name)
		}
	}
	// The largest errors that are possible follow the cap.
	step = binStep(t, 3000, true)
	if p, err = Propose(step, DefaultTermsFor(Local)); err != nil {
		t.Fatal(err)
	}
	a := p.Announced(step).Clone()
	a.Tree.Cap = 3
	if _, err := CheckRound(a); err == nil || !strings.Contains(err.Error(), "can move the bin-errors") {
		t.Errorf("a larger cap: %v", err)
	}
}

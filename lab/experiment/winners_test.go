package experiment_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/riffle-dp/riffle/lab/experiment"
	"github.com/riffle-dp/riffle/pkg/plan"
)

// The picture of winners shows, for each trust that has both, the practical profile and the best other learner of every
// environment, as a share of uniform play's regret; experiments of few environments have none.
func TestWinnersAreTheBestOfEveryTrust(t *testing.T) {
	one := 1.0
	var rows []experiment.Row
	add := func(environment, algorithm string, trust plan.Channel, regret float64) {
		r := experiment.Row{Environment: environment, Algorithm: algorithm, Trust: trust, Regret: regret, Horizon: 10}
		if trust != "" {
			r.Epsilon = &one
		}
		rows = append(rows, r)
	}
	for i, name := range []string{"ball", "fixed", "adult"} {
		k := float64(i + 1)
		add(name, "uniform", "", 100)
		add(name, "riffle-local", plan.Local, 10*k)
		add(name, "one", plan.Local, 40)
		add(name, "two", plan.Local, 60-10*k)
		add(name, "riffle-central", plan.Central, 5) // has no other beside it
	}
	e := &experiment.Experiment{Name: "x"}
	c := e.Charts(rows)["winners"]
	want := map[string][]float64{"riffle, local": {.1, .2, .3}, "best other, local": {.4, .4, .3},
		"riffle, central": {.05, .05, .05}}
	if len(c.Series) != len(want) {
		t.Fatalf("%d series", len(c.Series))
	}
	for _, s := range c.Series {
		if !slices.Equal(s.Y, want[s.Name]) {
			t.Errorf("%s: %v, want %v", s.Name, s.Y, want[s.Name])
		}
	}
	if !slices.Equal(c.Places, []string{"fresh arms", "one arm set", "census"}) {
		t.Errorf("the places are called %q", c.Places)
	}
	for _, s := range c.Series { // one colour for each trust
		for _, other := range c.Series {
			_, trust, _ := strings.Cut(s.Name, ", ")
			if same := strings.HasSuffix(other.Name, trust); same != (s.Colour == other.Colour) {
				t.Errorf("%s and %s: colours %v and %v", s.Name, other.Name, s.Colour, other.Colour)
			}
		}
	}
	if _, ok := e.Charts(rows[:10])["winners"]; ok {
		t.Error("a picture of two environments")
	}
}

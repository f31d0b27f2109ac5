package learner_test

import (
	"math"
	"testing"

	"gonum.org/v1/gonum/floats/scalar"

	"github.com/riffle-dp/riffle/pkg/glm/learner"
)

// The width and the share of explorers follow the documented rule in each of its cases.
func TestExplorationFollowsItsRule(t *testing.T) {
	resolve := func(p learner.PracticalConfig) learner.Config {
		t.Helper()
		p.FirstCohort = 100
		c, err := learner.Config{Dimension: 5, Horizon: 1000000, Practical: p}.Resolve()
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	w := func(after, explorers float64) float64 { return math.Sqrt(math.Log(1 + after/explorers)) }
	usual := learner.PracticalConfig{Width: 0.3, AheadWidth: 0.7, Explorers: 5, ExplorerShare: 0.2}
	for name, c := range map[string]struct {
		config               learner.PracticalConfig
		epoch, cohort, after int
		want                 learner.Exploration
	}{
		"first":  {usual, 0, 100, 10000, learner.Exploration{Width: math.Inf(1), Share: 1}},
		"second": {usual, 1, 200, 10000, learner.Exploration{Width: 0.3 * w(10000, 200), Share: 1}},
		"third": {usual, 2, 400, 10000, learner.Exploration{Width: 0.7 * w(10000, 400), Share: 1,
			Ahead: true}},
		"more than explore": {usual, 3, 1000, 10000, learner.Exploration{Width: 0.7 * w(10000, 500), Share: 0.5,
			Ahead: true}},
		"large": {usual, 6, 10000, 10000, learner.Exploration{Width: 0.7 * w(10000, 2000), Share: 0.2,
			Ahead: true}},
		"last":   {usual, 6, 10000, 0, learner.Exploration{}},
		"greedy": {learner.PracticalConfig{Width: -1}, 1, 200, 10000, learner.Exploration{}},
		"greedy, first": {learner.PracticalConfig{Width: -1}, 0, 100, 10000,
			learner.Exploration{Width: math.Inf(1), Share: 1}},
		"without foresight": {learner.PracticalConfig{Width: 0.3, AheadWidth: -1, Explorers: -1}, 3, 10000, 20000,
			learner.Exploration{Width: 0.3 * w(20000, 10000), Share: 1}},
		"constant": {learner.PracticalConfig{Width: 0.3, AheadWidth: 0.7, ConstantWidth: true}, 2, 400, 10000,
			learner.Exploration{Width: 0.7, Share: 1, Ahead: true}},
		"no share": {learner.PracticalConfig{Width: 0.3, AheadWidth: 0.7, Explorers: 5, ExplorerShare: -1}, 6,
			10000, 10000, learner.Exploration{Width: 0.7 * w(10000, 500), Share: 0.05, Ahead: true}},
		"all explore": {learner.PracticalConfig{Width: 0.3, AheadWidth: 0.7, Explorers: -1}, 6, 10000, 10000,
			learner.Exploration{Width: 0.7 * w(10000, 10000), Share: 1, Ahead: true}},
	} {
		got := resolve(c.config).Exploration(c.epoch, c.cohort, c.after)
		if got.Ahead != c.want.Ahead || !scalar.EqualWithinAbs(got.Share, c.want.Share, 1e-12) ||
			got.Width != c.want.Width && !scalar.EqualWithinAbs(got.Width, c.want.Width, 1e-12) {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
}

package glm_test

import (
	"math"
	"testing"

	"github.com/riffle-dp/riffle/pkg/glm"
	"gonum.org/v1/gonum/floats/scalar"
)

// The width and the share of explorers follow the documented rule in each of its cases.
func TestExplorationFollowsItsRule(t *testing.T) {
	resolve := func(p glm.PracticalConfig) glm.Config {
		t.Helper()
		p.FirstCohort = 100
		c, err := glm.Config{Dimension: 5, Horizon: 1000000, Practical: p}.Resolve()
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	w := func(after, explorers float64) float64 { return math.Sqrt(math.Log(1 + after/explorers)) }
	usual := glm.PracticalConfig{Width: 0.3, AheadWidth: 0.7, Explorers: 5, ExplorerShare: 0.2}
	for name, c := range map[string]struct {
		config               glm.PracticalConfig
		epoch, cohort, after int
		want                 glm.Exploration
	}{
		"first":  {usual, 0, 100, 10000, glm.Exploration{Width: math.Inf(1), Share: 1}},
		"second": {usual, 1, 200, 10000, glm.Exploration{Width: 0.3 * w(10000, 200), Share: 1}},
		"third": {usual, 2, 400, 10000, glm.Exploration{Width: 0.7 * w(10000, 400), Share: 1,
			Ahead: true}},
		"more than explore": {usual, 3, 1000, 10000, glm.Exploration{Width: 0.7 * w(10000, 500), Share: 0.5,
			Ahead: true}},
		"large": {usual, 6, 10000, 10000, glm.Exploration{Width: 0.7 * w(10000, 2000), Share: 0.2,
			Ahead: true}},
		"last":   {usual, 6, 10000, 0, glm.Exploration{}},
		"greedy": {glm.PracticalConfig{Width: -1}, 1, 200, 10000, glm.Exploration{}},
		"greedy, first": {glm.PracticalConfig{Width: -1}, 0, 100, 10000,
			glm.Exploration{Width: math.Inf(1), Share: 1}},
		"without foresight": {glm.PracticalConfig{Width: 0.3, AheadWidth: -1, Explorers: -1}, 3, 10000, 20000,
			glm.Exploration{Width: 0.3 * w(20000, 10000), Share: 1}},
		"constant": {glm.PracticalConfig{Width: 0.3, AheadWidth: 0.7, ConstantWidth: true}, 2, 400, 10000,
			glm.Exploration{Width: 0.7, Share: 1, Ahead: true}},
		"no share": {glm.PracticalConfig{Width: 0.3, AheadWidth: 0.7, Explorers: 5, ExplorerShare: -1}, 6,
			10000, 10000, glm.Exploration{Width: 0.7 * w(10000, 500), Share: 0.05, Ahead: true}},
		"all explore": {glm.PracticalConfig{Width: 0.3, AheadWidth: 0.7, Explorers: -1}, 6, 10000, 10000,
			glm.Exploration{Width: 0.7 * w(10000, 10000), Share: 1, Ahead: true}},
	} {
		got := resolve(c.config).Exploration(c.epoch, c.cohort, c.after)
		if got.Ahead != c.want.Ahead || !scalar.EqualWithinAbs(got.Share, c.want.Share, 1e-12) ||
			got.Width != c.want.Width && !scalar.EqualWithinAbs(got.Width, c.want.Width, 1e-12) {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
}

package learner_test

import (
	"math"
	"testing"

	"gonum.org/v1/gonum/floats/scalar"

	"github.com/riffle-dp/riffle/pkg/glm/learner"
)

// The spread of draws follows the documented rule in each of its cases.
func TestSpreadFollowsItsRule(t *testing.T) {
	w := func(after, cohort float64) float64 { return math.Sqrt(math.Log(1 + after/cohort)) }
	for name, c := range map[string]struct {
		config        learner.PracticalConfig
		cohort, after int
		want          float64
	}{
		"early":     {learner.PracticalConfig{Sampling: 0.3}, 200, 10000, 0.3 * w(10000, 200)},
		"late":      {learner.PracticalConfig{Sampling: 0.3}, 10000, 200, 0.3 * w(200, 10000)},
		"default":   {learner.PracticalConfig{}, 200, 10000, learner.DefaultSampling * w(10000, 200)},
		"last":      {learner.PracticalConfig{Sampling: 0.3}, 10000, 0, 0},
		"greedy":    {learner.PracticalConfig{Sampling: -1}, 200, 10000, 0},
		"half-life": {learner.PracticalConfig{Sampling: 0.3, HalfLife: 4}, 200, 10000, 0.3 * w(1154, 200)},
		"half-life, last": {learner.PracticalConfig{Sampling: 0.3, HalfLife: 4}, 200, 0,
			0.3 * w(1154, 200)}, // 4/ln 2 cohorts of 200
		"greedy, half-life": {learner.PracticalConfig{Sampling: -1, HalfLife: 4}, 200, 0, 0},
	} {
		c.config.FirstCohort = 100
		resolved, err := learner.Config{Dimension: 5, Horizon: 1000000, Practical: c.config}.Resolve()
		if err != nil {
			t.Fatal(err)
		}
		if got := resolved.Spread(c.cohort, c.after); !scalar.EqualWithinAbs(got, c.want, 1e-12) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

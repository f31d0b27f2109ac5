package learner_test

import (
	"math"
	"testing"

	"gonum.org/v1/gonum/floats/scalar"

	"github.com/riffle-dp/riffle/pkg/glm"
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

// With caution a share of the decisions explores, in the first cohort by design and later by draws, and none where the
// share is negative; nobody announces draws that no device needs.
func TestCautionLetsAShareExplore(t *testing.T) {
	for _, c := range []struct{ share, want float64 }{{0, learner.DefaultExplorerShare}, {0.05, 0.05}, {-1, 0}} {
		l := newLearner(t, learner.Config{Dimension: 3, Horizon: 3000,
			Practical: learner.PracticalConfig{Panel: 300, Caution: 1, ExplorerShare: c.share}})
		for epoch, play := range []glm.Play{glm.PlayDesign, glm.PlaySampled, glm.PlaySampled} {
			p := l.Next().Policy
			draws := map[glm.Play]int{glm.PlaySampled: learner.DrawsPerPolicy}[play]
			if c.want == 0 {
				play, draws = glm.PlayGreedy, 0
			}
			if err := p.Validate(); err != nil || p.Play != play || p.Explore != c.want || p.Caution != 1 ||
				len(p.Draws) != draws || (p.Scaling != nil) != (epoch > 0) {
				t.Errorf("share %v, epoch %d: %v, %+v", c.share, epoch, err, p)
			}
			absorb(t, l, steady, 1)
		}
	}
}

// What is assumed of a direction before anything is known is d/S^2, and at least a tenth, for each prior observation.
func TestPriorPrecisionHasALeastValue(t *testing.T) {
	for _, c := range []struct {
		radius, prior, want float64
	}{{3, 0, 3}, {10, 0, 10}, {10, 2, 5}, {1, 0.5, 2. / 3}} {
		l := newLearner(t, learner.Config{Dimension: 3, Horizon: 3000, Radius: c.radius,
			Practical: learner.PracticalConfig{Prior: c.prior}})
		absorb(t, l, func(int) float64 { return 0 }, 0) // says nothing
		for i := range 3 {
			if got := l.Covariance().Dense(3).At(i, i); !scalar.EqualWithinAbs(got, c.want, 1e-9) {
				t.Errorf("radius %v, prior %v: variance %v, want %v", c.radius, c.prior, got, c.want)
			}
		}
	}
}

// Cohorts grow slowly where there is so little noise that the smallest cohort is enough to begin with.
func TestQuietLearnersGrowSlowly(t *testing.T) {
	for name, c := range map[string]struct {
		cfg  learner.Config
		want float64
	}{
		"little noise":   {learner.Config{Epsilon: 1000, Horizon: 100000}, learner.DefaultQuietGrowth},
		"noise":          {learner.Config{Epsilon: 1, Horizon: 100000}, learner.DefaultGrowth},
		"too few people": {learner.Config{Epsilon: 1000, Horizon: 500}, learner.DefaultGrowth},
		"as configured": {learner.Config{Epsilon: 1000, Horizon: 100000,
			Practical: learner.PracticalConfig{Growth: 3}}, 3},
	} {
		c.cfg.Dimension = 5
		got, err := c.cfg.Resolve()
		if err != nil || got.Practical.Growth != c.want {
			t.Errorf("%s: growth %v, want %v, %v", name, got.Practical.Growth, c.want, err)
		}
	}
}

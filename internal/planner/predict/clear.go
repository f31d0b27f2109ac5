package predict

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/riffle-dp/riffle/internal/population"
	"github.com/riffle-dp/riffle/pkg/convex"
	"github.com/riffle-dp/riffle/pkg/glm/family"
	"github.com/riffle-dp/riffle/pkg/glm/learner"
)

const (
	// clearFirst is the part of people whom the yardstick gives random options: the most that learner.FirstCohort lets
	// a first cohort be. It does not depend on the plan's noise, so that plans have the same yardstick.
	clearFirst = 0.1
	// clearGrowth is how many times as many people there are whenever it refits.
	clearGrowth = 1.25
)

// inTheClear is the yardstick, the last estimate of a learner without privacy: it sees every record of as many people.
// The first tenth get a random option; each later one that which looks best in a fit to all before. Greedy from the
// first person on, it could stay with the first option for ever: where rewards are rare and options share an intercept,
// what it has not tried looks no better. It ends with a fit to all. Its prior is that the parameter's norm is about the
// bound.
func inTheClear(config learner.Config, f family.Family, w *world, people int, number uint64) ([]float64, error) {
	drawn, rewards := rand.New(stream(number, streamPeople)), stream(number, streamClear)
	options := rand.New(stream(number, streamOptions))
	ridge := float64(config.Dimension) / (config.Radius * config.Radius)
	theta := make([]float64, config.Dimension)
	var played [][]float64
	var got []float64
	first := int(math.Ceil(clearFirst * float64(people)))
	next := first
	for n := range people {
		arms := w.draw(drawn)
		a, err := population.GreedyArm(arms, theta)
		if n < first {
			a = options.IntN(len(arms))
		}
		if err != nil {
			return nil, err
		}
		played, got = append(played, slices.Clone(arms[a])), append(got, w.reward(arms[a], rewards))
		if n+1 < next && n+1 < people {
			continue
		}
		if theta, err = fit(f, played, got, ridge, theta, clearTolerance); err != nil {
			return nil, err
		}
		next = max(n+2, int(clearGrowth*float64(n+1)))
	}
	return theta, nil
}

// Residuals at which a fit ends (convex.NewtonResult): of the yardstick, whose later steps hardly change a decision,
// and of a log.
const (
	clearTolerance = 1e-4
	logTolerance   = 1e-6
)

// fit is the parameter with the least loss and ridge, by Newton's method from a start.
func fit(f family.Family, arms [][]float64, rewards []float64, ridge float64, start []float64, tolerance float64,
) ([]float64, error) {
	loss, err := convex.NewGLMLoss(f, len(start), arms, rewards, ridge)
	if err != nil {
		return nil, err
	}
	found, err := convex.Minimize(loss, convex.NewtonConfig{Start: start, Tolerance: tolerance, Iterations: 30})
	if err != nil && !errors.Is(err, convex.ErrNotConverged) {
		return nil, err
	}
	return found.Theta, nil
}

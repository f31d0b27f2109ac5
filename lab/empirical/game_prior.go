package empirical

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/riffle-dp/riffle/internal/evaluate"
	"github.com/riffle-dp/riffle/internal/population/decisions"
	"github.com/riffle-dp/riffle/pkg/glm/learner"
	"github.com/riffle-dp/riffle/pkg/privacy"
	"github.com/riffle-dp/riffle/pkg/protocol"
)

// What the game Prior fixes: a linear log, whose rewards are in [-1, 1].
const (
	priorFamily = "linear"
	priorMost   = 1.0
)

// openPrior is the fit of a prior to a log, whose observer sees the noised sums of the cohort that the canary's row is
// in: the prior follows from them, and from those of other rows. The canary's two rows have the same reward and
// opposite arms, beyond norm 1, or two rewards at the ends beyond the range; the third row has an arm of zero.
func openPrior(o Options) (*opened, error) {
	with := evaluate.PriorOptions{Family: priorFamily, MaxReward: priorMost, Radius: 1, Epsilon: o.Epsilon,
		Delta: o.Delta}
	honest, err := priorReleases(o, with)
	if err != nil {
		return nil, err
	}
	raw := with
	raw.Epsilon = 0
	exact, err := priorReleases(o, raw)
	if err != nil {
		return nil, err
	}
	g, fixed := new(noised), rand.NewChaCha8([32]byte{})
	for w := range g.exact {
		sums, err := exact[w](fixed)
		if err != nil {
			return nil, fmt.Errorf("empirical epsilon: %w", err)
		}
		g.exact[w] = join(sums)
	}
	sums, err := honest[1+null](fixed)
	if err != nil {
		return nil, fmt.Errorf("empirical epsilon: %w", err)
	}
	for _, a := range sums {
		for _, v := range a.Variance {
			if !(v > 0) {
				return nil, errors.New("empirical epsilon: a prior with an epsilon is released without any noise")
			}
			g.weights = append(g.weights, 1/v)
		}
	}
	mu, err := privacy.MuFor(o.Epsilon, o.Delta)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrOptions, err)
	}
	played := honest
	switch o.Fault {
	case HalfNoise:
		with.Epsilon = privacy.Guarantee{Mu: math.Sqrt2 * mu}.Epsilon(o.Delta)
		played, err = priorReleases(o, with)
	case NoNoise:
		played = exact
	}
	if err != nil {
		return nil, err
	}
	g.draw = func(world int, src *rand.ChaCha8) ([]float64, error) {
		sums, err := played[world](src)
		return join(sums), err
	}
	return &opened{arena: arena{o: o, enter: g.enter}, claimed: o.Epsilon, reach: g.distance(opposite) / mu,
		described: Result{Coordinates: len(g.weights), Reports: o.Cohort}}, nil
}

// priorReleases make the sums of the canary's cohort, by world.
func priorReleases(o Options, with evaluate.PriorOptions) (out [worlds]func(protocol.Source) ([]learner.Aggregate,
	error),
	err error,
) {
	for w := range out {
		log := make([]decisions.Decision, o.Cohort)
		for i := range log {
			log[i] = decisions.Decision{Arms: [][]float64{make([]float64, o.Dimension)}, Propensity: 1}
		}
		if w != 1+null {
			canaries := []int{0}
			if o.Fault == Twice {
				canaries = append(canaries, dealtInTurn)
			}
			for _, i := range canaries {
				log[i].Arms[0][0], log[i].Reward = beyond, beyond*priorMost
				if w == 1+opposite {
					log[i].Reward = -beyond * priorMost
				}
			}
		}
		if out[w], err = evaluate.FirstCohort(log, with); err != nil {
			return out, fmt.Errorf("%w: %w", ErrOptions, err)
		}
	}
	return out, nil
}

// dealtInTurn is how many rows after the canary's another one is in its cohort.
const dealtInTurn = 7

// join are the sums of all releases, one after another.
func join(all []learner.Aggregate) (out []float64) {
	for _, a := range all {
		out = append(out, a.Sum...)
	}
	return out
}

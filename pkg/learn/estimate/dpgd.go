package estimate

import (
	"fmt"
	"math"
	"slices"

	"github.com/riffle-dp/riffle/pkg/convex"
	"github.com/riffle-dp/riffle/pkg/glm/family"
	"github.com/riffle-dp/riffle/pkg/glm/statistic"
	"github.com/riffle-dp/riffle/pkg/learn"
	"github.com/riffle-dp/riffle/pkg/mechanism"
)

// The defaults of noisy gradient descent.
const (
	// Steps of all people: the square root of their number, at most descentSteps. More people mean less noise, so that
	// directions of smaller second moment can be learned, and these need more steps.
	descentSteps = 1000
	descentBatch = 20 // batches, where every person answers once
)

// NoisyDescent is noisy projected gradient descent on the square loss over all people, by a trusted curator: every step
// releases the mean gradient with noise. It is Bassily, Smith and Thakurta, "Private empirical risk minimization:
// efficient algorithms and tight error bounds" (2014), with full batches and zCDP in place of advanced composition; the
// estimate is the mean of the second half of the points.
//
// Sensitivity: in the ball of radius S a gradient has norm at most S+1, so their mean over n people moves by at most
// 2(S+1)/n. The K steps share the budget of zCDP evenly, and compose to it.
//
// Options: "steps" K (the square root of the people, at most 1000), "rate" (1; the loss is 1-smooth).
func NoisyDescent(s learn.Setting, people int, ask learn.Asker) (learn.Model, error) {
	if err := s.Check(nil, []string{"steps", "rate"}); err != nil {
		return nil, err
	}
	steps, err := descentCount(s, "steps", math.Ceil(math.Min(descentSteps, math.Sqrt(float64(people)))))
	if err != nil {
		return nil, err
	}
	a, err := ask(learn.Question{Form: learn.Records, People: people})
	if err != nil {
		return nil, err
	}
	noise, err := descentNoise(s, a.People, steps)
	if err != nil {
		return nil, err
	}
	d, n := s.Dimension, float64(a.People)
	g, vector := make([]float64, d), make([]float64, 0, d)
	return descend(s, steps, func(theta []float64) ([]float64, error) {
		clear(g)
		loss, err := squareLoss(theta)
		if err != nil {
			return nil, err
		}
		for _, r := range a.Records {
			vector = loss.Vector(vector[:0], r)
			for i, v := range vector {
				g[i] += v * float64(r.Count()) / n
			}
		}
		noise.Add(g, s.Noise)
		return g, nil
	})
}

// descentNoise is that of one of the steps.
func descentNoise(s learn.Setting, people, steps int) (mechanism.Noise, error) {
	rho, err := mechanism.Budget(s.Epsilon, s.Delta)
	if err != nil {
		return nil, err
	}
	moved := 2 * (s.Radius + 1) / float64(people) * (1 + descentRounding)
	return mechanism.ForRho(mechanism.Sensitivity{Dim: s.Dimension, L2: moved}, rho/float64(steps))
}

// NoisyBatchDescent is the same in batches of people who answer once, with sums: any channel.
//
// Options: "batches" (20), "rate" (1).
func NoisyBatchDescent(s learn.Setting, people int, ask learn.Asker) (learn.Model, error) {
	if err := s.Check(nil, []string{"batches", "rate"}); err != nil {
		return nil, err
	}
	count, err := descentCount(s, "batches", descentBatch)
	if err != nil {
		return nil, err
	}
	sizes := batches(people, min(people, count))
	next := 0
	return descend(s, len(sizes), func(theta []float64) ([]float64, error) {
		loss, err := squareLoss(slices.Clone(theta))
		if err != nil {
			return nil, err
		}
		a, err := ask(learn.Question{Form: learn.Sums, People: sizes[next], Statistics: []learn.Statistic{loss}})
		if err != nil {
			return nil, err
		}
		next++
		g, _ := a.Mean(0)
		return g, nil
	})
}

// squareLoss is the gradient of the square loss at theta.
func squareLoss(theta []float64) (learn.Statistic, error) {
	return learn.Announced(statistic.Statistic{Kind: statistic.Gradient, Family: family.Linear{}, Theta: theta,
		ArmDim: len(theta)})
}

func descentCount(s learn.Setting, name string, otherwise float64) (int, error) {
	k := s.Option(name, otherwise)
	if !(k >= 1 && k <= 1e6) {
		return 0, fmt.Errorf("estimate: option %q is %v; it must be in [1, 1e6]", name, k)
	}
	return int(k), nil
}

// descend takes projected steps and averages the second half of the points.
func descend(s learn.Setting, steps int, gradient func([]float64) ([]float64, error)) (learn.Model, error) {
	theta, mean := make([]float64, s.Dimension), make([]float64, s.Dimension)
	rate, used := s.Option("rate", 1), float64(steps-steps/2)
	for k := range steps {
		g, err := gradient(theta)
		if err != nil {
			return nil, err
		}
		for i := range theta {
			theta[i] -= rate * g[i]
		}
		if theta, err = (convex.Ball{Radius: s.Radius}).Project(theta, theta); err != nil {
			return nil, fmt.Errorf("estimate: %w", err)
		}
		if k >= steps/2 {
			for i, v := range theta {
				mean[i] += v / used
			}
		}
	}
	return point(mean), nil
}

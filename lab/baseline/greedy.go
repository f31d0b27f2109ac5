package baseline

import (
	"math"

	"github.com/riffle-dp/riffle/internal/population"
)

// Greedy plays the arm that the fit to everything so far likes best. It refits after every person at first, and later
// whenever the log has grown by a fiftieth. No algorithm without knowledge of the future does much better where
// contexts explore by themselves; on a fixed arm set it gets stuck.
type Greedy struct {
	inTheClear
	fit    *fit
	next   int
	chosen []float64
}

// NewGreedy starts with the prior that |theta| is about Radius: ridge d/S^2.
func NewGreedy(s Setting) (*Greedy, error) {
	if err := s.check(); err != nil {
		return nil, err
	}
	return &Greedy{fit: newFit(s.Family, s.Dimension, float64(s.Dimension)/(2*s.Radius*s.Radius))}, nil
}

// Choose implements simulate.Algorithm.
func (g *Greedy) Choose(arms [][]float64) (int, error) {
	a := best(arms, func(x []float64) float64 { return population.Dot(x, g.fit.theta) })
	g.chosen = arms[a]
	return a, nil
}

// Learn implements simulate.Algorithm.
func (g *Greedy) Learn(reward float64) error {
	g.fit.add(g.chosen, reward)
	if n := len(g.fit.rewards); n >= g.next {
		g.fit.refit()
		g.next = n + max(1, n/50)
	}
	return nil
}

// Final implements simulate.Estimator.
func (g *Greedy) Final() ([]float64, error) {
	g.fit.refit()
	for _, v := range g.fit.theta {
		if math.IsNaN(v) {
			return nil, ErrSetting
		}
	}
	return g.fit.theta, nil
}

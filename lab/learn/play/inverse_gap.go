package play

import (
	"math"

	"github.com/riffle-dp/riffle/pkg/learn"
	"github.com/riffle-dp/riffle/pkg/protocol"
)

// InverseGap plays an arm the more rarely the further its score lies below the best one's: with K arms, an arm whose
// score is g below has the probability 1/(K + Gamma g), and the best one, the first of equals, the rest, which is at
// least 1/K. Abe and Long, "Associative reinforcement learning using linear probabilistic concepts" (1999); Foster and
// Rakhlin, "Beyond UCB" (2020).
type InverseGap struct {
	Score Score
	Gamma float64 // at least 0; 0 is uniform play
}

// Probabilities are those of the arms. An arm whose score is not a number gets the least that any arm can get, 0.
func (g InverseGap) Probabilities(arms [][]float64) []float64 {
	scores, p := make([]float64, len(arms)), make([]float64, len(arms))
	for a, x := range arms {
		if scores[a] = g.Score(x); math.IsNaN(scores[a]) {
			scores[a] = math.Inf(-1)
		}
	}
	best := 0
	for a, v := range scores {
		if v > scores[best] {
			best = a
		}
	}
	rest := 1.0
	for a, v := range scores {
		if a == best {
			continue
		}
		gap := scores[best] - v
		switch {
		case math.IsNaN(gap): // two infinite scores
			gap = 0
		case g.Gamma == 0:
			gap = 0
		}
		p[a] = 1 / (float64(len(arms)) + g.Gamma*gap)
		rest -= p[a]
	}
	p[best] = rest
	return p
}

// Decide implements learn.Policy.
func (g InverseGap) Decide(arms [][]float64, src protocol.Source) (learn.Choice, error) {
	p := g.Probabilities(arms)
	u, last := protocol.Uniform(src), 0
	for a, v := range p {
		if v <= 0 {
			continue
		}
		if last = a; u < v {
			break
		}
		u -= v
	}
	return learn.Choice{Arm: last, Propensity: p[last]}, nil
}

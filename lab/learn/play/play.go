// Package play holds the ways to pick an arm, apart from how its value is estimated. Each is a learn.Policy.
package play

import (
	"math"

	"github.com/riffle-dp/riffle/pkg/learn"
	"github.com/riffle-dp/riffle/pkg/protocol"
)

// Score is what an arm is worth to a play.
type Score func(x []float64) float64

// Greedy takes the arm with the largest score, the first of equals. With an upper confidence bound as the score it is
// optimistic play.
type Greedy struct{ Score Score }

// Decide implements learn.Policy.
func (g Greedy) Decide(arms [][]float64, _ protocol.Source) (learn.Choice, error) {
	return learn.Choice{Arm: Best(arms, g.Score), Propensity: 1}, nil
}

// Uniform draws any arm.
type Uniform struct{}

// Decide implements learn.Policy.
func (Uniform) Decide(arms [][]float64, src protocol.Source) (learn.Choice, error) {
	return learn.Choice{Arm: Index(len(arms), src), Propensity: 1 / float64(len(arms))}, nil
}

// Best is the first arm with the largest score.
func Best(arms [][]float64, score Score) int {
	best, top := 0, math.Inf(-1)
	for a, x := range arms {
		if v := score(x); v > top {
			best, top = a, v
		}
	}
	return best
}

// Index draws a number from 0 to n-1; its probabilities are exact to 2^-53.
func Index(n int, src protocol.Source) int { return int(protocol.Uniform(src) * float64(n)) }

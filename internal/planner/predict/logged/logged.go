// Package logged makes logs of decisions for tests of what is predicted from a log.
package logged

import (
	"math/rand/v2"

	"github.com/riffle-dp/riffle/internal/planner/predict"
)

// Decisions are lines of a log, of decisions at random among 3 options with a context of 3 in 9 coordinates. A reward
// is 1 with probability 1/2, but for the first option: there it is larger by 2 effect times a number of the context,
// uniform in [-1/2, 1/2], so that the best option gains effect/4 over the best constant one. effect is at most 1/2.
func Decisions(effect float64, lines int) []predict.Decision {
	r := rand.New(rand.NewPCG(5, 6))
	log := make([]predict.Decision, lines)
	for i := range log {
		d := predict.Decision{Arm: r.IntN(3)}
		x := [3]float64{r.Float64() - 0.5, r.Float64() - 0.5, 0.7}
		for k := range 3 {
			arm := make([]float64, 9)
			copy(arm[3*k:], x[:])
			d.Arms = append(d.Arms, arm)
		}
		p := 0.5
		if d.Arm == 0 {
			p += 2 * effect * x[0]
		}
		if r.Float64() < p {
			d.Reward = 1
		}
		log[i] = d
	}
	return log
}

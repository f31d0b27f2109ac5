package baseline

import "github.com/riffle-dp/riffle/pkg/protocol"

// Uniform plays an arm drawn uniformly: the scale of every regret.
type Uniform struct {
	Source protocol.Source
	arms   int // of the last choice
}

// Choose implements simulate.Algorithm.
func (u *Uniform) Choose(arms [][]float64) (int, error) {
	u.arms = len(arms)
	return int(protocol.Uniform(u.Source) * float64(len(arms))), nil
}

// Propensity implements simulate.Randomized.
func (u *Uniform) Propensity() float64 { return 1 / float64(u.arms) }

// Learn implements simulate.Algorithm.
func (*Uniform) Learn(float64) error { return nil }

// Constant plays the same arm for every person, or the first arm for a person who lacks it. population.BestConstant
// finds the best one in hindsight.
type Constant int

// Choose implements simulate.Algorithm.
func (c Constant) Choose(arms [][]float64) (int, error) {
	if int(c) < len(arms) {
		return int(c), nil
	}
	return 0, nil
}

// Learn implements simulate.Algorithm.
func (Constant) Learn(float64) error { return nil }

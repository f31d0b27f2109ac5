package baseline

import "github.com/riffle-dp/riffle/pkg/protocol"

// Uniform plays an arm drawn uniformly: the scale of every regret.
type Uniform struct {
	Source protocol.Source
	arms   int // of the last choice
}

// Choose implements simulate.Player.
func (u *Uniform) Choose(arms [][]float64) (int, error) {
	u.arms = len(arms)
	return int(float64(u.Source.Uint64()>>11) * 0x1p-53 * float64(len(arms))), nil
}

// Propensity implements simulate.Chancer.
func (u *Uniform) Propensity() float64 { return 1 / float64(u.arms) }

// Learn implements simulate.Player.
func (*Uniform) Learn(float64) error { return nil }

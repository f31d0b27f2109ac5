package baseline

import "github.com/riffle-dp/riffle/pkg/protocol"

// Uniform plays an arm drawn uniformly: the scale of every regret.
type Uniform struct{ Source protocol.Source }

// Choose implements simulate.Player.
func (u Uniform) Choose(arms [][]float64) (int, error) {
	return int(float64(u.Source.Uint64()>>11) * 0x1p-53 * float64(len(arms))), nil
}

// Learn implements simulate.Player.
func (Uniform) Learn(float64) error { return nil }

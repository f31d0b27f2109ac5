package layered

import (
	"math"

	"github.com/riffle-dp/riffle/pkg/convex"
)

// mostMean bounds a mean reward of the linear family.
const mostMean = 1

// Predict is LPLR-AGGREGATE, Algorithm 6 of "On the optimal regret of locally private linear contextual bandit": the
// mean reward of features x adds up what the bins on their way through the tree have learned, and its bound adds up
// their widths. x has norm at most 1, and radius bounds the norm of theta*. The mean is in [-1, 1], the bound in
// [0, Cap].
//
// What differs: below an inactive bin the unknown rest is at most radius times the norm of what is left of the
// features, which the paper bounds by gamma^-k. So features of 0 have a bound of 0, as the paper's Definition 2 wants.
// The paper's pseudocode has gamma^-k alone there; its proof adds the parent's width, as it must. Predictions are
// clipped to what a mean can be, and the cap of bounds is 2 in place of 1, because two means can be 2 apart.
func (t *Tree) Predict(x []float64, radius float64) (mean, bound float64) {
	var memory [MaxDimension]float64
	left, parent := append(memory[:0], x...), 0
	for range x {
		i := t.child(parent, t.level(convex.Norm(left)))
		if i < 0 {
			bound += radius * convex.Norm(left)
			break
		}
		b := &t.Bins[i]
		along := b.project(left)
		mean += along * b.Value
		bound += b.width(along)
		parent = i + 1
	}
	most := math.Min(mostMean, radius*convex.Norm(x))
	return math.Max(-most, math.Min(most, mean)), math.Min(t.Cap, bound)
}

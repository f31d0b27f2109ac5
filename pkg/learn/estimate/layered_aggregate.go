package estimate

import "github.com/riffle-dp/riffle/pkg/convex"

// layeredModel is LPLR-AGGREGATE, Algorithm 6 of "On the optimal regret of locally private linear contextual bandit": a
// prediction adds up what the bins on a person's way through the tree have learned, and its bound adds up their widths.
//
// What differs: below an inactive bin the unknown rest is at most Radius times the norm of what is left of the
// features, which the paper bounds by gamma^-k. So features of 0 have a bound of 0, as the paper's Definition 2 wants.
// The paper's pseudocode has gamma^-k alone there; its proof adds the parent's width, as it must. Predictions are
// clipped to what a mean can be, and the cap of bounds is 2 in place of 1, because two means can be 2 apart.
type layeredModel struct {
	l    *layered
	root *bin
}

// Predict implements learn.Model.
func (m layeredModel) Predict(x []float64) float64 {
	predicted, _ := m.aggregate(x)
	return predicted
}

// Bound implements learn.Model.
func (m layeredModel) Bound(x []float64) float64 {
	_, bound := m.aggregate(x)
	return bound
}

func (m layeredModel) aggregate(x []float64) (predicted, bound float64) {
	var memory [8]float64 // most dimensions need no more
	left := m.l.start(memory[:0], x)
	for at := m.root; at.children != nil; {
		b := m.l.below(at, left)
		if b == nil || !b.active {
			bound += m.l.radius * convex.Norm(left)
			break
		}
		along := b.project(left)
		predicted += along * b.value
		bound += b.chi(along)
		at = b
	}
	most := min(layeredReward, m.l.radius*convex.Norm(x))
	return between(predicted, most), min(m.l.cap, bound)
}

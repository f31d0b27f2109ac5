package layered

import (
	"math"

	"github.com/riffle-dp/riffle/pkg/convex"
)

// Place is where features are in a layer.
type Place struct {
	Number int       // of the bin in its layer
	Rest   []float64 // gamma^k times what is left of the features there, of norm at most 1
	Mean   float64   // what the layers above predict
	Width  float64   // of its error, at most Cap
	Along  float64   // the rest's part along the direction of the bin, if it has one
}

// Below is the place of features in the layer below the last, where bins are numbered as Open says. found is false for
// those whose way does not lead there. The features have norm at most 1; the rest is written into dst[:0].
func (t *Tree) Below(dst, x []float64) (p Place, found bool) {
	parent, level, p := t.way(dst, x, t.Depth())
	if level == t.Levels {
		return p, false
	}
	if first, _ := t.Last(); parent > 0 {
		p.Number = (parent - 1 - first) * t.Levels
	}
	p.Number += level
	return p, true
}

// InLast is the same in the last layer, whose bins are numbered from 0.
func (t *Tree) InLast(dst, x []float64) (p Place, found bool) {
	parent, level, p := t.way(dst, x, t.Depth()-1)
	i := -1
	if level < t.Levels {
		i = t.child(parent, level)
	}
	if i < 0 {
		return p, false
	}
	first, _ := t.Last()
	p.Number, p.Along = i-first, convex.Dot(t.Bins[i].Direction, p.Rest)
	return p, true
}

// way is the paper's Figure 2, a device's way through so many layers of its tree: the parent in the last of them, as
// Bin.Parent numbers it, and the level below it, Levels where the way ends before. In each layer the direction of the
// bin is projected out of the features.
func (t *Tree) way(dst, x []float64, layers int) (parent, level int, p Place) {
	left := append(dst[:0], x...)
	for range layers {
		i := t.child(parent, t.level(convex.Norm(left)))
		if i < 0 {
			return 0, t.Levels, p
		}
		b := &t.Bins[i]
		along := b.project(left)
		p.Mean += along * b.Value
		p.Width += b.width(along)
		parent = i + 1
	}
	level = t.level(convex.Norm(left))
	p.Width = math.Min(t.Cap, p.Width)
	scale := math.Pow(t.Gamma, float64(level))
	for j := range left {
		left[j] *= scale
	}
	if norm := convex.Norm(left); norm > 1 { // a rounding above
		for j := range left {
			left[j] /= norm
		}
	}
	p.Rest = left
	return parent, level, p
}

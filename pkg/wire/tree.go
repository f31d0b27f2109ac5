package wire

import (
	"slices"

	rifflev1 "github.com/riffle-dp/riffle/messages/riffle/v1"
	"github.com/riffle-dp/riffle/pkg/glm/layered"
)

// treeMessage has the bins' numbers in lists of their own, which take little more memory than bytes.
func treeMessage(t *layered.Tree) *rifflev1.Tree {
	if t == nil {
		return nil
	}
	m := &rifflev1.Tree{Levels: uint32(t.Levels), Gamma: t.Gamma, Cap: t.Cap, Clip: t.Clip}
	for _, b := range t.Bins {
		m.Parents, m.BinLevels = append(m.Parents, uint32(b.Parent)), append(m.BinLevels, uint32(b.Level))
		m.Directions = append(m.Directions, b.Direction...)
		m.Values, m.Flats, m.Slopes = append(m.Values, b.Value), append(m.Flats, b.Flat), append(m.Slopes, b.Slope)
	}
	return m
}

// treeOf has one bin too many of a message with more than are allowed, for the check of the tree to refuse. Lists of
// unequal lengths do not come back as they were, which Open refuses.
func treeOf(m *rifflev1.Tree, dimension int) *layered.Tree {
	if m == nil {
		return nil
	}
	t := &layered.Tree{Levels: int(m.Levels), Gamma: m.Gamma, Cap: m.Cap, Clip: m.Clip}
	n := min(len(m.Parents), 2*layered.MaxBins+1)
	t.Bins = slices.Grow(t.Bins, n)
	for i := range n {
		b := layered.Bin{Parent: int(m.Parents[i]), Level: int(at(m.BinLevels, i)), Value: at(m.Values, i),
			Flat: at(m.Flats, i), Slope: at(m.Slopes, i)}
		if from := i * dimension; dimension > 0 && from+dimension <= len(m.Directions) {
			b.Direction = m.Directions[from : from+dimension]
		}
		t.Bins = append(t.Bins, b)
	}
	return t
}

// at is a list's entry, 0 beyond its end.
func at[T uint32 | float64](list []T, i int) (v T) {
	if i < len(list) {
		v = list[i]
	}
	return v
}

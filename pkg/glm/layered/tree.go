// Package layered holds the tree of bins of layered private linear regression, from "On the optimal regret of locally
// private linear contextual bandit", as data: what a device must know of it to find the bin of its features, and to
// predict their mean reward with a bound. The tree is learned by package estimate.
//
//	tree.go                    the tree, and what is refused
//	predict.go                 LPLR-AGGREGATE, Algorithm 6: a mean reward and its bound
//	place.go                   the way of features through the tree, Figure 2
//
// Whatever tree is announced, what is computed of features is finite: a tree that Validate passes has finite numbers
// only, and features lie in the unit ball. That a record's statistics are bounded is for package statistic to prove.
package layered

import (
	"fmt"
	"math"
	"slices"
	"sort"

	"github.com/riffle-dp/riffle/pkg/convex"
)

const (
	// MaxDimension is the most dimensions: layered regression was measured in 2 to 4, and each further one asks for
	// some ten times as many people before a bound says anything (lab/docs/papers.md).
	MaxDimension = 4
	// MaxBins bounds the bins of a layer, and with them the length of a report. A tree has at most twice as many.
	MaxBins = 1 << 12
	// MaxLevels bounds the bins below one parent.
	MaxLevels = 64
	// MinGamma and MaxGamma bound the ratio of the radii of neighbouring bins: with it MaxGamma^MaxLevels is finite.
	MinGamma, MaxGamma = 1.01, 1000
	// MaxValue bounds all other numbers.
	MaxValue = 1e30
)

// Tree is a tree of bins of people by the norm of what is left of their features. Its root stands for everyone. Below
// the root and below each bin that is listed there are Levels bins. A bin of level k, counted from 0, has the people
// with a rest of norm in (Gamma^(-k-1), Gamma^-k]; who has less than all is in none. Bins that are not listed are
// inactive, or not learned yet: nothing is known there.
type Tree struct {
	Levels int     `json:"levels"` // M
	Gamma  float64 `json:"gamma"`
	Cap    float64 `json:"cap"`  // of a bound of the error of a mean
	Clip   float64 `json:"clip"` // Y, of a reward less what the tree predicts: statistic.BinFirst
	// Bins are the active ones, ascending by parent and level: hence layer by layer.
	Bins []Bin `json:"bins,omitempty"`
}

// Bin is a bin in which one direction was learned.
type Bin struct {
	Parent int `json:"parent"` // one more than its index in Bins; 0: the root
	Level  int `json:"level"`  // k
	// Direction is u, of norm 1, orthogonal to those of the bins above.
	Direction []float64 `json:"direction"`
	Value     float64   `json:"value"` // <u, theta>: the rest's part along u times this is its part of the mean
	// Flat and Slope make up the error's bound: the bin adds Flat, and Slope for each unit along u. Both are 0 while
	// they are not known.
	Flat  float64 `json:"flat"`
	Slope float64 `json:"slope"`
}

// Clone returns a copy that shares no memory with t.
func (t *Tree) Clone() *Tree {
	if t == nil {
		return nil
	}
	out := *t
	out.Bins = slices.Clone(t.Bins)
	for i := range out.Bins {
		out.Bins[i].Direction = slices.Clone(out.Bins[i].Direction)
	}
	return &out
}

// Validate refuses a tree that a device must not follow: of more than MaxDimension dimensions, larger than the limits
// of this package, out of order, with a direction that has not norm 1, or with numbers out of range.
func (t *Tree) Validate(dimension int) error {
	if dimension < 1 || dimension > MaxDimension {
		return fmt.Errorf("layered: a tree of bins is for 1 to %d dimensions, not %d", MaxDimension, dimension)
	}
	if t.Levels < 1 || t.Levels > MaxLevels || len(t.Bins) > 2*MaxBins {
		return fmt.Errorf("layered: a tree has %d levels and %d bins, must have 1 to %d and at most %d", t.Levels,
			len(t.Bins), MaxLevels, 2*MaxBins)
	}
	if !(t.Gamma >= MinGamma && t.Gamma <= MaxGamma) {
		return fmt.Errorf("layered: gamma is %v, must be in [%v, %v]", t.Gamma, MinGamma, MaxGamma)
	}
	if !(t.Cap > 0 && t.Cap <= MaxValue) || !(t.Clip > 0 && t.Clip <= MaxValue) {
		return fmt.Errorf("layered: the cap is %v and the clip %v, must be in (0, %v]", t.Cap, t.Clip, MaxValue)
	}
	for i, b := range t.Bins {
		if b.Parent < 0 || b.Parent > i || b.Level < 0 || b.Level >= t.Levels {
			return fmt.Errorf("layered: bin %d has parent %d and level %d, must have one before it, and below %d", i,
				b.Parent, b.Level, t.Levels)
		}
		if i > 0 && compare(t.Bins[i-1], b) >= 0 {
			return fmt.Errorf("layered: bins %d and %d are out of order", i-1, i)
		}
		const slack = 1e-9
		if len(b.Direction) != dimension || !(math.Abs(convex.Norm(b.Direction)-1) <= slack) {
			return fmt.Errorf("layered: bin %d has a direction of %d coordinates and norm %v, must have %d and 1", i,
				len(b.Direction), convex.Norm(b.Direction), dimension)
		}
		if !(math.Abs(b.Value) <= MaxValue) || !(b.Flat >= 0 && b.Flat <= MaxValue) ||
			!(b.Slope >= 0 && b.Slope <= MaxValue) {
			return fmt.Errorf("layered: bin %d has value %v, flat %v and slope %v, must be at most %v, the last two "+
				"not negative", i, b.Value, b.Flat, b.Slope, MaxValue)
		}
	}
	if n := len(t.layers()); n > dimension {
		return fmt.Errorf("layered: a tree has %d layers, at most %d", n, dimension)
	}
	return nil
}

// compare orders bins by parent and level.
func compare(a, b Bin) int {
	if a.Parent != b.Parent {
		return a.Parent - b.Parent
	}
	return a.Level - b.Level
}

// layers are the numbers of bins up to and with each layer. The order of bins makes layers contiguous: a bin's parent
// is in the layer before.
func (t *Tree) layers() (ends []int) {
	for end := 0; end < len(t.Bins); {
		next := sort.Search(len(t.Bins), func(i int) bool { return t.Bins[i].Parent > end })
		if next == end { // not reached: a parent comes before its bins
			break
		}
		ends, end = append(ends, next), next
	}
	return ends
}

// Depth is the number of layers with a bin.
func (t *Tree) Depth() int { return len(t.layers()) }

// Last are the indices of the bins of the last layer, from first on; none in a tree without bins.
func (t *Tree) Last() (first, number int) {
	ends := t.layers()
	n := len(ends)
	if n == 0 {
		return 0, 0
	}
	if n > 1 {
		first = ends[n-2]
	}
	return first, ends[n-1] - first
}

// Open is the number of bins on the layer below the last: those whose people are asked next. They are numbered by
// parent and level.
func (t *Tree) Open() int {
	if len(t.Bins) == 0 {
		return t.Levels
	}
	_, n := t.Last()
	return n * t.Levels
}

// level is the largest k up to Levels with a norm of at most Gamma^-k.
func (t *Tree) level(norm float64) int {
	if !(norm > 0) {
		return t.Levels
	}
	const guard = 1e-9 // a norm of Gamma^-k is of level k, whatever its rounding
	k := math.Floor(-math.Log(norm)/math.Log(t.Gamma) + guard)
	return int(math.Max(0, math.Min(float64(t.Levels), k)))
}

// child is the index of the bin of a level below a parent, as Bin.Parent numbers it; -1: it is not listed.
func (t *Tree) child(parent, level int) int {
	i, found := slices.BinarySearchFunc(t.Bins, Bin{Parent: parent, Level: level}, compare)
	if !found {
		return -1
	}
	return i
}

// project takes the bin's direction off what is left, and returns how much there was of it.
func (b *Bin) project(left []float64) (along float64) {
	along = convex.Dot(b.Direction, left)
	for j, u := range b.Direction {
		left[j] -= along * u
	}
	return along
}

// width is what the bin adds to the error's bound of features with so much along its direction.
func (b *Bin) width(along float64) float64 { return b.Flat + b.Slope*math.Abs(along) }

// Above are the bins above one that need not be listed itself, from the first layer on.
func (t *Tree) Above(b Bin) (above []Bin) {
	for p := b.Parent; p > 0; p = t.Bins[p-1].Parent {
		above = append(above, t.Bins[p-1])
	}
	slices.Reverse(above)
	return above
}

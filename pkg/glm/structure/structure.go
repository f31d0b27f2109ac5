// Package structure says which coordinates of an arm can be other than 0 together.
//
// An application declares it before anybody decides: it is a property of how arms are built, never of people's rows.
// Two examples. "One context, K options, each option its own weights" puts the context into one of K runs of
// coordinates and zeros into the others. A category with five values fills one of five coordinates. Of all products of
// two coordinates most are then 0 in every arm that can be, and what is always 0 needs no message and no noise.
//
// The package is pure. A device reports on an arm that does not fit as if nothing had happened (the null record), so
// that what is derived from the structure holds for every report of an honest device.
package structure

import (
	"errors"
	"fmt"
)

// ErrInvalid wraps every reason to refuse a structure.
var ErrInvalid = errors.New("structure: invalid")

// MaxGroups is the largest number of groups of a structure.
const MaxGroups = 64

// Group says that among Count runs of Size coordinates, one after the other from coordinate From on, an arm has at most
// one run with a coordinate other than 0.
type Group struct {
	From  int `json:"from"`  // at least 0
	Count int `json:"count"` // runs, at least 2
	Size  int `json:"size"`  // coordinates of a run, at least 1
}

// run is the number of the run that holds a coordinate, from 0; -1 if the group does not speak of it.
func (g Group) run(i int) int {
	if i < g.From || i >= g.From+g.Count*g.Size {
		return -1
	}
	return (i - g.From) / g.Size
}

// parts reports whether i and j are in different runs: then one of them is 0 in every arm that fits.
func (g Group) parts(i, j int) bool {
	a, b := g.run(i), g.run(j)
	return a >= 0 && b >= 0 && a != b
}

// Structure is what an arm fits that fits every group. Groups may overlap: the values of a category can be a group
// within the run of an option. A coordinate of no group is shared by all. nil, and a structure without groups, say
// nothing: any arm fits.
type Structure []Group

// Options is the structure of k options with p weights of their own each, which fills d = k p coordinates; nil for one
// option.
func Options(k, p int) Structure {
	if k < 2 {
		return nil
	}
	return Structure{{Count: k, Size: p}}
}

// Validate refuses what is no structure of arms with d coordinates: more than MaxGroups groups, a group of fewer than
// two runs or of empty runs, or one that is not within the coordinates. Errors wrap ErrInvalid.
func (s Structure) Validate(d int) error {
	if len(s) > MaxGroups {
		return fmt.Errorf("%w: %d groups, at most %d are allowed", ErrInvalid, len(s), MaxGroups)
	}
	for n, g := range s {
		switch {
		case g.Count < 2 || g.Size < 1 || g.From < 0:
			return fmt.Errorf("%w: group %d has %d runs of %d coordinates from %d: needed are at least 2 runs of 1 "+
				"from 0", ErrInvalid, n, g.Count, g.Size, g.From)
		// In this order nothing overflows.
		case g.From > d || g.Count > d || g.Size > d || g.From+g.Count*g.Size > d:
			return fmt.Errorf("%w: group %d has %d runs of %d coordinates from %d, which is more than %d coordinates",
				ErrInvalid, n, g.Count, g.Size, g.From, d)
		}
	}
	return nil
}

// Fits reports whether the arm has, of each group, at most one run with a coordinate other than 0. The structure must
// be valid for the arm's length.
func (s Structure) Fits(arm []float64) bool {
	for _, g := range s {
		used := -1
		for i, v := range arm[g.From : g.From+g.Count*g.Size] {
			if v == 0 {
				continue
			}
			if run := i / g.Size; used < 0 {
				used = run
			} else if run != used {
				return false
			}
		}
	}
	return true
}

// Possible reports whether coordinates i and j of one arm can both be other than 0: no group has them in different
// runs. It is symmetric, and true of i = j.
func (s Structure) Possible(i, j int) bool {
	for _, g := range s {
		if g.parts(i, j) {
			return false
		}
	}
	return true
}

// Pairs is the number of pairs i <= j < d that are possible. For any arm it is d(d+1)/2.
func (s Structure) Pairs(d int) int {
	if len(s) == 0 {
		return d * (d + 1) / 2
	}
	if len(s) == 1 && s[0].Count*s[0].Size == d {
		return s[0].Count * s[0].Size * (s[0].Size + 1) / 2
	}
	n := 0
	for i := range d {
		for j := i; j < d; j++ {
			if s.Possible(i, j) {
				n++
			}
		}
	}
	return n
}

// Runs are the first coordinate of each run and the one after its last, if one group covers all d coordinates: an arm
// then lies in one of them. Otherwise nil.
func (s Structure) Runs(d int) [][2]int {
	for _, g := range s {
		if g.From != 0 || g.Count*g.Size != d {
			continue
		}
		runs := make([][2]int, g.Count)
		for r := range runs {
			runs[r] = [2]int{r * g.Size, (r + 1) * g.Size}
		}
		return runs
	}
	return nil
}

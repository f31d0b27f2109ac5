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

// MaxGroups is the largest number of groups of a structure, and the largest Choice.
const MaxGroups = 256

// Group says that among Count runs of Size coordinates, one after the other from coordinate From on, an arm has at most
// one run with a coordinate other than 0.
type Group struct {
	From  int `json:"from"`  // at least 0
	Count int `json:"count"` // runs, at least 2
	Size  int `json:"size"`  // coordinates of a run, at least 1
	// Choice ties groups: in all groups of one Choice, which have equally many runs and no coordinate in common, an arm
	// is in the run of the same number. 0: the group is tied to none.
	Choice int `json:"choice,omitempty"`
}

// end is the coordinate after the last run.
func (g Group) end() int { return g.From + g.Count*g.Size }

// run is the number of the run that holds a coordinate, from 0; -1 if the group does not speak of it.
func (g Group) run(i int) int {
	if i < g.From || i >= g.end() {
		return -1
	}
	return (i - g.From) / g.Size
}

// tied reports whether an arm is in the same run of both groups.
func (s Structure) tied(n, m int) bool {
	return n == m || s[n].Choice != 0 && s[n].Choice == s[m].Choice
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
// two runs or of empty runs, one that is not within the coordinates, and groups of one choice that have unequally many
// runs or a coordinate in common. Errors wrap ErrInvalid.
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
		case g.From > d || g.Count > d || g.Size > d || g.end() > d:
			return fmt.Errorf("%w: group %d has %d runs of %d coordinates from %d, which is more than %d coordinates",
				ErrInvalid, n, g.Count, g.Size, g.From, d)
		case g.Choice < 0 || g.Choice > MaxGroups:
			return fmt.Errorf("%w: group %d is of choice %d, it must be 0 to %d", ErrInvalid, n, g.Choice, MaxGroups)
		}
		for m, h := range s[:n] {
			if !s.tied(n, m) {
				continue
			}
			if g.Count != h.Count || g.From < h.end() && h.From < g.end() {
				return fmt.Errorf("%w: groups %d and %d are of one choice, but have unequally many runs, or "+
					"coordinates in common", ErrInvalid, m, n)
			}
		}
	}
	return nil
}

// Fits reports whether the arm has, of each choice, at most one run with a coordinate other than 0. The structure must
// be valid for the arm's length.
func (s Structure) Fits(arm []float64) bool {
	if len(s) == 0 {
		return true
	}
	var chosen [MaxGroups + 1]int // run + 1 of each choice; 0: none yet
	for _, g := range s {
		used := chosen[g.Choice]
		if g.Choice == 0 {
			used = 0
		}
		for i, v := range arm[g.From:g.end()] {
			if v == 0 {
				continue
			}
			if run := i/g.Size + 1; used == 0 {
				used = run
			} else if run != used {
				return false
			}
		}
		chosen[g.Choice] = used
	}
	return true
}

// Possible reports whether coordinates i and j of one arm can both be other than 0: no choice has them in different
// runs. It is symmetric, and true of i = j.
func (s Structure) Possible(i, j int) bool {
	for n, g := range s {
		a := g.run(i)
		if a < 0 {
			continue
		}
		for m, h := range s {
			if b := h.run(j); b >= 0 && b != a && s.tied(n, m) {
				return false
			}
		}
	}
	return true
}

// Pairs is the number of pairs i <= j < d that are possible. For any arm it is d(d+1)/2.
func (s Structure) Pairs(d int) int {
	if len(s) == 0 {
		return d * (d + 1) / 2
	}
	if runs := s.Runs(d); runs != nil && len(s) == 1 {
		return len(runs) * s[0].Size * (s[0].Size + 1) / 2
	}
	n, layout := 0, s.Layout(d)
	for i := range d {
		for j := i; j < d; j++ {
			if layout.Possible(i, j) {
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

// Layout answers for arms of d coordinates what Possible answers, in one step however many groups there are: a device
// asks once for every pair of every record, and whoever announces a structure must not be able to keep it busy.
type Layout struct {
	words  int      // of a row
	barred []uint64 // d rows of bits: row i has the coordinates that are 0 where coordinate i is not
}

// Layout is that of arms of d coordinates, for which the structure must be valid.
func (s Structure) Layout(d int) Layout {
	l := Layout{words: (d + 63) / 64}
	l.barred = make([]uint64, d*l.words)
	spoken, own := make([]uint64, l.words), make([]uint64, d*l.words) // of a choice: its coordinates, all and by run
	for _, runs := range s.choices(d) {
		clear(spoken)
		clear(own)
		for i, r := range runs {
			if r >= 0 {
				spoken[i/64] |= 1 << (i % 64)
				own[r*l.words+i/64] |= 1 << (i % 64)
			}
		}
		for i, r := range runs {
			if r < 0 {
				continue
			}
			for k, bits := range own[r*l.words : (r+1)*l.words] {
				l.barred[i*l.words+k] |= spoken[k] &^ bits
			}
		}
	}
	return l
}

// choices are, for every choice, the number of the run that each of d coordinates is in, -1 where it is in none.
func (s Structure) choices(d int) (all [][]int) {
	of := map[int]int{}
	for _, g := range s {
		c, known := of[g.Choice]
		if !known || g.Choice == 0 {
			c, of[g.Choice] = len(all), len(all)
			runs := make([]int, d)
			for i := range runs {
				runs[i] = -1
			}
			all = append(all, runs)
		}
		for i := g.From; i < g.end(); i++ {
			all[c][i] = g.run(i)
		}
	}
	return all
}

// Possible is Structure.Possible.
func (l Layout) Possible(i, j int) bool { return l.barred[i*l.words+j/64]>>(j%64)&1 == 0 }

// Disjoint are the coordinates of each run, in ascending order, if one choice covers all coordinates: an arm then lies
// in one run. Otherwise nil. With Runs it is the same runs.
func (s Structure) Disjoint(d int) [][]int {
	for _, runs := range s.choices(d) {
		var all [][]int
		for i, r := range runs {
			if r < 0 {
				all = nil
				break
			}
			for len(all) <= r {
				all = append(all, nil)
			}
			all[r] = append(all[r], i)
		}
		if all != nil {
			return all
		}
	}
	return nil
}

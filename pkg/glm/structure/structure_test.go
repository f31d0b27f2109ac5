package structure_test

import (
	"errors"
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	_ "github.com/riffle-dp/riffle/internal/testing/fixedseed"
	"github.com/riffle-dp/riffle/pkg/glm/structure"
)

func TestOptions(t *testing.T) {
	for _, c := range []struct{ k, p, pairs int }{{3, 5, 45}, {10, 10, 550}, {4, 1, 4}, {2, 2, 6}} {
		s := structure.Options(c.k, c.p)
		d := c.k * c.p
		if err := s.Validate(d); err != nil {
			t.Fatal(err)
		}
		if n := s.Pairs(d); n != c.pairs || len(s.Runs(d)) != c.k {
			t.Errorf("%d options of %d: %d pairs in %d runs", c.k, c.p, n, len(s.Runs(d)))
		}
	}
	if structure.Options(1, 7) != nil || structure.Structure(nil).Pairs(7) != 28 {
		t.Error("one option is any arm")
	}
}

func group(from, count, size, choice int) structure.Group {
	return structure.Group{From: from, Count: count, Size: size, Choice: choice}
}

func TestFits(t *testing.T) {
	options := structure.Options(3, 2)
	// A category of three values in the second option's run, and a shared coordinate at the end.
	nested := structure.Structure{{From: 0, Count: 2, Size: 4}, {From: 5, Count: 3, Size: 1}}
	// Option k of three has coordinates k, 3 + k, and 6 + 2k and 7 + 2k.
	tied := structure.Structure{group(0, 3, 1, 2), group(3, 3, 1, 2), group(6, 3, 2, 2)}
	for _, c := range []struct {
		s    structure.Structure
		arm  []float64
		fits bool
	}{
		{nil, []float64{1, 2, 3}, true},
		{options, make([]float64, 6), true},
		{options, []float64{0, 0, 1, -1, 0, 0}, true},
		{options, []float64{0, 0, 0, 1, 1, 0}, false},
		{options, []float64{1e-300, 0, 0, 0, 0, 1}, false},
		{options, []float64{math.Copysign(0, -1), 0, 0, 0, 0, 1}, true},
		{options, []float64{math.NaN(), 0, 0, 0, 0, 1}, false},
		{nested, []float64{0, 0, 0, 0, 1, 0, 1, 0, 1}, true},
		{nested, []float64{0, 0, 0, 0, 1, 1, 1, 0, 1}, false},
		{nested, []float64{1, 1, 1, 1, 0, 0, 0, 0, 1}, true},
		{nested, []float64{1, 1, 1, 1, 0, 0, 1, 0, 1}, false},
		{tied, []float64{0, 1, 0, 0, 1, 0, 0, 0, 1, 1, 0, 0}, true},
		{tied, []float64{0, 1, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0}, false},
		{tied, []float64{0, 0, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0}, false},
		{structure.Structure{group(0, 2, 1, 0), group(2, 2, 1, 0)}, []float64{1, 0, 0, 1}, true},
		{structure.Structure{group(0, 2, 1, 1), group(2, 2, 1, 2)}, []float64{1, 0, 0, 1}, true},
	} {
		if got := c.s.Fits(c.arm); got != c.fits {
			t.Errorf("%v fits %v: %v", c.arm, c.s, got)
		}
	}
}

func TestWhatIsNoStructure(t *testing.T) {
	for _, s := range []structure.Structure{
		{group(0, 1, 3, 0)}, {group(0, 0, 3, 0)}, {group(0, 2, 0, 0)}, {group(-1, 2, 3, 0)}, {group(1, 2, 3, 0)},
		{group(7, 2, 1, 0)}, {group(0, 2, 4, 0)}, {group(0, 4, 2, 0)}, {group(0, math.MaxInt, 2, 0)},
		{group(0, 1<<32, 1<<32, 0)}, {group(math.MaxInt, 2, 1, 0)}, {group(0, 2, math.MaxInt, 0)},
		{group(0, -2, -1, 0)}, {group(0, 2, 3, -1)}, {group(0, 2, 3, structure.MaxGroups+1)},
		{group(0, 2, 1, 5), group(2, 3, 1, 5)}, {group(0, 2, 2, 5), group(3, 2, 1, 5)},
		{group(0, 2, 2, 5), group(0, 2, 1, 5)},
	} {
		if err := s.Validate(6); !errors.Is(err, structure.ErrInvalid) {
			t.Errorf("%+v: %v", s, err)
		}
	}
	for _, s := range []structure.Structure{ // at the edges of what is one
		{group(0, 6, 1, 0)}, {group(0, 2, 3, structure.MaxGroups)}, {group(2, 2, 1, 5), group(0, 2, 1, 5)},
		{group(0, 2, 1, 5), group(2, 2, 1, 5)}, {group(4, 2, 1, 0)},
	} {
		if err := s.Validate(6); err != nil {
			t.Error(err)
		}
	}
	many := slices.Repeat(structure.Structure{group(0, 2, 3, 0)}, structure.MaxGroups)
	if err := many.Validate(6); err != nil {
		t.Error(err)
	}
	if err := append(many, many[0]).Validate(6); !errors.Is(err, structure.ErrInvalid) {
		t.Errorf("too many groups: %v", err)
	}
}

// What is declared impossible is 0 in every arm that fits, and for every pair that is possible there is an arm.
func TestPossiblePairsAreThoseOfArmsThatFit(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		d := rapid.IntRange(2, 9).Draw(r, "d")
		s := rapid.SliceOfN(rapid.Custom(func(r *rapid.T) structure.Group {
			size := rapid.IntRange(1, d/2).Draw(r, "size")
			count := rapid.IntRange(2, d/size).Draw(r, "count")
			from := rapid.IntRange(0, d-count*size).Draw(r, "from")
			return group(from, count, size, rapid.IntRange(0, 2).Draw(r, "choice"))
		}), 0, 4).Draw(r, "structure")
		st := structure.Structure(s)
		if st.Validate(d) != nil { // tied groups that do not go together
			for n := range st {
				st[n].Choice = 0
			}
		}
		if err := st.Validate(d); err != nil {
			r.Fatal(err)
		}
		pairs, layout := 0, st.Layout(d)
		for i := range d {
			for j := i; j < d; j++ {
				arm := make([]float64, d)
				arm[i], arm[j] = 1, -1
				if st.Possible(i, j) != st.Possible(j, i) || st.Possible(i, j) != st.Fits(arm) {
					r.Errorf("%v: possible(%d, %d) is %v, an arm with both fits: %v", st, i, j, st.Possible(i, j),
						st.Fits(arm))
				}
				if layout.Possible(i, j) != st.Possible(i, j) {
					r.Errorf("%v: the layout says otherwise of (%d, %d)", st, i, j)
				}
				if st.Possible(i, j) {
					pairs++
				}
			}
		}
		if n := st.Pairs(d); n != pairs {
			r.Errorf("%v: %d pairs, counted %d", st, n, pairs)
		}
		arm := rapid.SliceOfN(rapid.SampledFrom([]float64{0, 0, 1, -2}), d, d).Draw(r, "arm")
		if !st.Fits(arm) {
			return
		}
		used, covered := 0, 0
		for _, run := range st.Disjoint(d) {
			covered += len(run)
			if slices.ContainsFunc(run, func(i int) bool { return arm[i] != 0 }) {
				used++
			}
		}
		if used > 1 || covered != 0 && covered != d {
			r.Errorf("%v: %v fits and is in %d runs, which cover %d of %d", st, arm, used, covered, d)
		}
		if runs := st.Runs(d); runs != nil && (runs[0][0] != 0 || runs[len(runs)-1][1] != d || st.Disjoint(d) == nil) {
			r.Errorf("%v: runs %v", st, runs)
		}
		for i := range d {
			for j := range d {
				if !st.Possible(i, j) && arm[i]*arm[j] != 0 {
					r.Errorf("%v: %v fits, and (%d, %d) is not possible", st, arm, i, j)
				}
			}
		}
	})
}

// The most groups that there can be, over more coordinates than a word has bits, in either order of strictness.
func TestLayoutOfManyGroups(t *testing.T) {
	const d = 150
	many := structure.Structure{group(0, d, 1, 0)}
	for i := range structure.MaxGroups - 1 {
		many = append(many, group(i%(d-3), 2, 1, 0))
	}
	tied := structure.Structure{group(0, 5, 3, 9), group(63, 2, 40, 0), group(60, 5, 2, 9), group(70, 5, 14, 9)}
	for _, s := range []structure.Structure{many, many[1:], tied} {
		if err := s.Validate(d); err != nil {
			t.Fatal(err)
		}
		pairs, layout := 0, s.Layout(d)
		for i := range d {
			for j := range d {
				possible := s.Possible(i, j)
				if layout.Possible(i, j) != possible {
					t.Fatalf("%v: coordinates %d and %d: possible is %t", s, i, j, possible)
				}
				if possible && i <= j {
					pairs++
				}
			}
		}
		if n := s.Pairs(d); n != pairs {
			t.Errorf("%d pairs, want %d", n, pairs)
		}
	}
}

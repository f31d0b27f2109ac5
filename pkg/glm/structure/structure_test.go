package structure_test

import (
	"errors"
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/riffle-dp/riffle/pkg/glm/structure"

	_ "github.com/riffle-dp/riffle/internal/testing/fixedseed"
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

func TestFits(t *testing.T) {
	options := structure.Options(3, 2)
	// A category of three values in the second option's run, and a shared coordinate at the end.
	nested := structure.Structure{{From: 0, Count: 2, Size: 4}, {From: 5, Count: 3, Size: 1}}
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
	} {
		if got := c.s.Fits(c.arm); got != c.fits {
			t.Errorf("%v fits %v: %v", c.arm, c.s, got)
		}
	}
}

func TestWhatIsNoStructure(t *testing.T) {
	for _, g := range []structure.Group{
		{0, 1, 3}, {0, 0, 3}, {0, 2, 0}, {-1, 2, 3}, {1, 2, 3}, {7, 2, 1}, {0, 2, 4}, {0, 4, 2},
		{0, math.MaxInt, 2}, {0, 1 << 32, 1 << 32}, {math.MaxInt, 2, 1}, {0, 2, math.MaxInt}, {0, -2, -1},
	} {
		if err := (structure.Structure{g}).Validate(6); !errors.Is(err, structure.ErrInvalid) {
			t.Errorf("%+v: %v", g, err)
		}
	}
	many := slices.Repeat(structure.Structure{{0, 2, 3}}, structure.MaxGroups)
	if err := many.Validate(6); err != nil {
		t.Error(err)
	}
	if err := append(many, structure.Group{0, 2, 3}).Validate(6); !errors.Is(err, structure.ErrInvalid) {
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
			return structure.Group{From: rapid.IntRange(0, d-count*size).Draw(r, "from"), Count: count, Size: size}
		}), 0, 3).Draw(r, "structure")
		st := structure.Structure(s)
		if err := st.Validate(d); err != nil {
			r.Fatal(err)
		}
		pairs := 0
		for i := range d {
			for j := i; j < d; j++ {
				arm := make([]float64, d)
				arm[i], arm[j] = 1, -1
				if st.Possible(i, j) != st.Possible(j, i) || st.Possible(i, j) != st.Fits(arm) {
					r.Errorf("%v: possible(%d, %d) is %v, an arm with both fits: %v", st, i, j, st.Possible(i, j),
						st.Fits(arm))
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
		used := 0
		for _, run := range st.Runs(d) {
			if slices.ContainsFunc(arm[run[0]:run[1]], func(v float64) bool { return v != 0 }) {
				used++
			}
		}
		if used > 1 {
			r.Errorf("%v: %v fits and is in %d runs", st, arm, used)
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

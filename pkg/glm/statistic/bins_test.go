package statistic_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/riffle-dp/riffle/pkg/glm/family"
	"github.com/riffle-dp/riffle/pkg/glm/layered"
	"github.com/riffle-dp/riffle/pkg/glm/statistic"
)

// anyTree is a random tree that may be announced, of so many layers, with a bin in each: its directions need not be
// orthogonal, and its numbers can be large.
func anyTree(rng *rand.Rand, d, layers, levels int) *layered.Tree {
	t := &layered.Tree{Levels: levels, Gamma: 1.2 + 3*rng.Float64(), Cap: math.Exp(rng.NormFloat64()),
		Clip: math.Exp(rng.NormFloat64())}
	parents := []int{0}
	for range layers {
		var next []int
		for i, p := range parents {
			for k := range levels {
				if rng.IntN(3) == 0 && (i > 0 || k > 0) {
					continue
				}
				size := math.Exp(4 * rng.NormFloat64())
				t.Bins = append(t.Bins, layered.Bin{Parent: p, Level: k, Direction: randomDirection(rng, d),
					Value: size * rng.NormFloat64(), Flat: size * rng.Float64() * float64(rng.IntN(2)),
					Slope: size * rng.Float64()})
				next = append(next, len(t.Bins))
			}
		}
		parents = next
	}
	return t
}

// binned are the statistics over a tree.
func binned(t *testing.T, tree *layered.Tree, d int) (out []statistic.Statistic) {
	t.Helper()
	kinds := []statistic.Kind{statistic.BinErrors}
	if tree.Depth() < d {
		kinds = []statistic.Kind{statistic.BinCount, statistic.BinFirst, statistic.BinSecond}
		if tree.Depth() > 1 {
			kinds = append(kinds, statistic.BinErrors)
		}
	}
	for _, kind := range kinds {
		s := statistic.Statistic{Kind: kind, Family: family.Linear{}, ArmDim: d, Tree: tree}
		if err := s.Validate(); err != nil {
			t.Fatal(err)
		}
		out = append(out, s)
	}
	return out
}

// binRecord is one of any size, also of arms with coordinates of equal size, which have the largest l1 norm.
func binRecord(rng *rand.Rand, d int) statistic.Record {
	x, length := randomDirection(rng, d), math.Exp(-3*rng.Float64())
	switch rng.IntN(6) {
	case 0:
		return statistic.Record{Null: true}
	case 1:
		length = 3
	case 2:
		for j := range x {
			x[j] = math.Copysign(1/math.Sqrt(float64(d)), x[j])
		}
	}
	reward := float64(2*rng.IntN(2) - 1)
	if rng.IntN(8) == 0 {
		reward = 50 * rng.NormFloat64()
	}
	return statistic.Record{Arm: scaled(x, length), Reward: reward}
}

func l1(u, v []float64) (sum float64) {
	for i := range u {
		sum += math.Abs(u[i] - v[i])
	}
	return sum
}

// No pair of records is farther apart than Bounds says, whatever the tree, in l1 and l2, and every coordinate is in its
// range. The bounds are nearly reached, so that they are not too wide.
func TestBinsAgainstBruteForce(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 5))
	reached := map[string]float64{}
	for range 150 {
		d := 1 + rng.IntN(4)
		tree := anyTree(rng, d, rng.IntN(d+1), 1+rng.IntN(4))
		if d == 1 && len(tree.Bins) > 0 {
			continue // neither a layer below nor errors
		}
		if depth := tree.Depth(); depth == d && depth < 2 {
			continue
		}
		for _, s := range binned(t, tree, d) {
			b, err := s.Bounds()
			if err != nil || len(b.Lower) != s.Dim() || len(b.Upper) != s.Dim() || !(b.Diameter1 > 0) {
				t.Fatal(err, len(b.Lower), s.Dim(), b.Diameter1)
			}
			bins := "one bin"
			if s.Kind == statistic.BinErrors && len(b.Lower) > 1 || s.Kind != statistic.BinErrors && tree.Open() > 1 {
				bins = "bins"
			}
			for range 2000 {
				p, q := binRecord(rng, d), binRecord(rng, d)
				if rng.IntN(3) == 0 && !p.Null {
					q = statistic.Record{Arm: slices.Clone(p.Arm), Reward: -p.Reward}
				}
				u, err := s.Vector(nil, p)
				if err != nil {
					t.Fatal(err)
				}
				v, err := s.Vector(nil, q)
				if err != nil || len(u) != s.Dim() || len(v) != s.Dim() {
					t.Fatal(err, len(u), len(v), s.Dim())
				}
				if broken := violation(b, u, v); broken != "" || l1(u, v) > b.Diameter1 {
					t.Fatalf("%s of %v and %v: %s; %v in l1, at most %v", s.Kind, p, q, broken, l1(u, v), b.Diameter1)
				}
				key := fmt.Sprintf("%s, %s", s.Kind, bins)
				reached[key] = max(reached[key], distance(u, v)/b.Diameter)
				reached[key+", l1"] = max(reached[key+", l1"], l1(u, v)/b.Diameter1)
			}
		}
	}
	for _, kind := range []statistic.Kind{statistic.BinCount, statistic.BinFirst, statistic.BinSecond,
		statistic.BinErrors} {
		for _, bins := range []string{"one bin", "bins"} {
			for _, norm := range []string{"", ", l1"} {
				least := .9
				if kind == statistic.BinSecond && bins == "one bin" && norm != "" {
					least = .7 // the two parts of the bound are reached by different pairs there
				}
				if key := fmt.Sprintf("%s, %s%s", kind, bins, norm); !(reached[key] > least) {
					t.Errorf("%s: the largest distance is %v of the bound", key, reached[key])
				}
			}
		}
	}
}

// A report of several decisions lies between the vectors of single ones.
func TestBinsOfSeveralDecisions(t *testing.T) {
	rng := rand.New(rand.NewPCG(2, 5))
	for range 30 {
		d := 2 + rng.IntN(2)
		tree := anyTree(rng, d, 1, 3)
		for _, s := range binned(t, tree, d) {
			b, err := s.Bounds()
			if err != nil {
				t.Fatal(err)
			}
			report := func() []float64 {
				v, err := s.Report(nil, []statistic.Record{binRecord(rng, d), binRecord(rng, d)}, 3)
				if err != nil {
					t.Fatal(err)
				}
				return v
			}
			for range 200 {
				u, v := report(), report()
				if broken := violation(b, u, v); broken != "" || l1(u, v) > b.Diameter1 {
					t.Fatalf("%s: %s; %v in l1, at most %v", s.Kind, broken, l1(u, v), b.Diameter1)
				}
			}
		}
	}
}

// The vector of a record by hand, on a tree of one bin.
func TestBinsByHand(t *testing.T) {
	tree := &layered.Tree{Levels: 2, Gamma: 2, Cap: 2, Clip: .5, Bins: []layered.Bin{
		{Direction: []float64{1, 0}, Value: .25, Flat: .1, Slope: .5},
	}}
	r := statistic.Record{Arm: []float64{.8, -.4}, Reward: 1} // the rest is -.4, of level 1: scaled -.8
	vector := func(kind statistic.Kind) []float64 {
		v, err := statistic.Statistic{Kind: kind, Family: family.Linear{}, ArmDim: 2, Tree: tree}.Vector(nil, r)
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	for kind, want := range map[statistic.Kind][]float64{
		statistic.BinCount:  {0, 1},
		statistic.BinFirst:  {0, 0, 0, .5 * -.8}, // 1 - .25*.8 = .8, clipped to .5
		statistic.BinSecond: {0, 0, 0, 0, 0, .64},
	} {
		if got := vector(kind); !(distance(got, want) < 1e-12) || len(got) != len(want) {
			t.Errorf("%s is %v, not %v", kind, got, want)
		}
	}
	tree.Bins = append(tree.Bins, layered.Bin{Parent: 1, Level: 1, Direction: []float64{0, 1}, Value: 1})
	if got, want := vector(statistic.BinErrors), (.1+.5*.8)*.8; len(got) != 1 || math.Abs(got[0]-want) > 1e-12 {
		t.Errorf("errors are %v, not %v", got, want)
	}
	if r.Arm = []float64{.8, .6}; vector(statistic.BinErrors)[0] != 0 {
		t.Error("errors of a record that is in no active bin")
	}
}

// A statistic over bins whose layer the tree does not have is refused, and one without a tree.
func TestBinsAreChecked(t *testing.T) {
	bin := layered.Bin{Direction: []float64{1, 0}}
	tree := func(bins ...layered.Bin) *layered.Tree {
		return &layered.Tree{Levels: 2, Gamma: 2, Cap: 2, Clip: 1, Bins: bins}
	}
	below := layered.Bin{Parent: 1, Direction: []float64{0, 1}}
	many := tree()
	many.Levels = layered.MaxLevels
	for k := range layered.MaxLevels {
		many.Bins = append(many.Bins, layered.Bin{Level: k, Direction: []float64{1, 0}})
	}
	for name, c := range map[string]struct {
		kind statistic.Kind
		tree *layered.Tree
		fine bool
	}{
		"the first layer":       {statistic.BinCount, tree(), true},
		"the second layer":      {statistic.BinSecond, tree(bin), true},
		"as many bins as fit":   {statistic.BinCount, many, true},
		"errors":                {statistic.BinErrors, tree(bin, below), true},
		"no tree":               {statistic.BinCount, nil, false},
		"errors without a tree": {statistic.BinErrors, nil, false},
		"a layer too many":      {statistic.BinFirst, tree(bin, below), false},
		"errors of layer 1":     {statistic.BinErrors, tree(bin), false},
		"errors of nothing":     {statistic.BinErrors, tree(), false},
		"a tree that is not":    {statistic.BinCount, tree(below), false},
	} {
		s := statistic.Statistic{Kind: c.kind, Family: family.Linear{}, ArmDim: 2, Tree: c.tree}
		if err := s.Validate(); (err == nil) != c.fine {
			t.Errorf("%s: %v", name, err)
		}
		if n := s.Dim(); c.tree == nil && n != 0 {
			t.Errorf("%s: %d coordinates", name, n)
		}
	}
	three := statistic.Statistic{Kind: statistic.BinCount, Family: family.Linear{}, ArmDim: 3,
		Tree: &layered.Tree{Levels: layered.MaxLevels, Gamma: 2, Cap: 2, Clip: 1}}
	for i := range layered.MaxLevels {
		three.Tree.Bins = append(three.Tree.Bins, layered.Bin{Level: i, Direction: []float64{1, 0, 0}})
	}
	if three.Validate() != nil {
		t.Error("64 bins below each of 64 are refused")
	}
	three.Tree.Bins = append(three.Tree.Bins, layered.Bin{Parent: 1, Direction: []float64{0, 1, 0}},
		layered.Bin{Parent: 1, Level: 1, Direction: []float64{0, 1, 0}})
	for p := 2; p <= layered.MaxLevels; p++ {
		three.Tree.Bins = append(three.Tree.Bins, layered.Bin{Parent: p, Direction: []float64{0, 1, 0}})
	}
	if three.Validate() == nil {
		t.Errorf("%d bins on a layer are not refused", three.Tree.Open())
	}
}

// Who is just outside a shell, by less than the slack of its edges, has a rest of norm 1 and no more; and an error is
// at most the cap, also along a direction whose norm is as much above 1 as is allowed.
func TestBinsClipWhatRoundingAdds(t *testing.T) {
	steep := &layered.Tree{Levels: 3, Gamma: layered.MaxGamma, Cap: 2, Clip: 1}
	long := &layered.Tree{Levels: 1, Gamma: 2, Cap: 2, Clip: 1, Bins: []layered.Bin{
		{Direction: []float64{1, 0}, Flat: layered.MaxValue}, {Parent: 1, Direction: []float64{0, 1 + 9e-10}},
	}}
	for _, c := range []struct {
		kind statistic.Kind
		tree *layered.Tree
		arm  []float64
		want []float64
	}{
		{statistic.BinSecond, steep, []float64{(1 + 5e-9) / layered.MaxGamma}, []float64{0, 1, 0}},
		{statistic.BinFirst, steep, []float64{(1 + 5e-9) / layered.MaxGamma}, []float64{0, 1, 0}},
		{statistic.BinErrors, long, []float64{0, 1}, []float64{2}},
	} {
		s := statistic.Statistic{Kind: c.kind, Family: family.Linear{}, ArmDim: len(c.arm), Tree: c.tree}
		v, err := s.Vector(nil, statistic.Record{Arm: c.arm, Reward: 1})
		if err != nil || !slices.Equal(v, c.want) {
			t.Errorf("%s: %v, want %v, %v", c.kind, v, c.want, err)
		}
	}
}

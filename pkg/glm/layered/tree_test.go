package layered_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/riffle-dp/riffle/pkg/convex"
	"github.com/riffle-dp/riffle/pkg/glm/layered"
)

// sphere is a random point of norm 1.
func sphere(d int, r *rand.Rand) []float64 {
	x := make([]float64, d)
	for j := range x {
		x[j] = r.NormFloat64()
	}
	norm := convex.Norm(x)
	for j := range x {
		x[j] /= norm
	}
	return x
}

// ball is a random point of norm at most 1, of all sizes.
func ball(d int, r *rand.Rand) []float64 {
	x, length := sphere(d, r), math.Exp(-4*r.Float64())
	for j := range x {
		x[j] *= length
	}
	return x
}

// orthogonal is a random direction orthogonal to others, which are orthonormal.
func orthogonal(d int, others []layered.Bin, r *rand.Rand) []float64 {
	x := sphere(d, r)
	for range 2 {
		for _, b := range others {
			along := convex.Dot(b.Direction, x)
			for j, u := range b.Direction {
				x[j] -= along * u
			}
		}
	}
	norm := convex.Norm(x)
	for j := range x {
		x[j] /= norm
	}
	return x
}

// grown is a random tree of so many layers in which each bin is active with a probability.
func grown(d, layers, levels int, active float64, r *rand.Rand) *layered.Tree {
	t := &layered.Tree{Levels: levels, Gamma: 1.5 + r.Float64()*2, Cap: 2, Clip: 2}
	parents := []int{0}
	for range layers {
		var next []int
		for _, p := range parents {
			for k := range levels {
				if r.Float64() > active {
					continue
				}
				b := layered.Bin{Parent: p, Level: k, Value: r.Float64() - .5, Slope: r.Float64()}
				b.Direction = orthogonal(d, t.Above(b), r)
				t.Bins = append(t.Bins, b)
				next = append(next, len(t.Bins))
			}
		}
		parents = next
	}
	return t
}

// The way of features through a tree (Figure 2 of the paper): the rest in the layer below the last is orthogonal to all
// directions above, its norm is in the shell of its bin, and what the bins predict adds up to the inner product with
// the sum of their estimates. Who has a place in the last layer has one below it, or too short a rest.
func TestPlaces(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	deep := 0
	for range 400 {
		d := 2 + r.IntN(3)
		tree := grown(d, 1+r.IntN(d-1), 3+r.IntN(4), .7, r)
		if err := tree.Validate(d); err != nil {
			t.Fatal(err)
		}
		if tree.Depth() == 0 {
			continue
		}
		for range 20 {
			x := ball(d, r)
			last, inLast := tree.InLast(nil, x)
			p, found := tree.Below(nil, x)
			if found && !inLast {
				t.Fatal("a place below a layer without one there")
			}
			if !found {
				continue
			}
			deep++
			first, _ := tree.Last()
			at := first + last.Number
			number := p.Number
			if number/tree.Levels != last.Number || number < 0 || number >= tree.Open() {
				t.Fatalf("bin %d below bin %d of the last layer, of %d", number, last.Number, tree.Open())
			}
			bin := layered.Bin{Parent: at + 1, Level: number % tree.Levels}
			total := make([]float64, d)
			scale := math.Pow(tree.Gamma, float64(bin.Level))
			for _, b := range tree.Above(bin) {
				if dot := convex.Dot(b.Direction, p.Rest); math.Abs(dot) > 1e-11*scale {
					t.Fatalf("the rest has the inner product %v with a direction above", dot)
				}
				for j, u := range b.Direction {
					total[j] += b.Value * u
				}
			}
			if norm := convex.Norm(p.Rest); norm > 1 || norm <= (1-1e-8)/tree.Gamma {
				t.Fatalf("a scaled rest of norm %v", norm)
			}
			if math.Abs(p.Mean-convex.Dot(total, x)) > 1e-11 {
				t.Fatalf("bins predict %v, the sum of their estimates %v", p.Mean, convex.Dot(total, x))
			}
			parent := tree.Bins[at]
			if want := convex.Dot(parent.Direction, last.Rest); last.Along != want || last.Along == 0 {
				t.Fatalf("%v along the direction, not %v", last.Along, want)
			}
			mean, _ := tree.Predict(x, 10) // clipped to [-1, 1]
			if b := tree.Depth(); b < d && p.Width < tree.Cap && math.Abs(mean-between(p.Mean)) > 1e-12 {
				t.Fatalf("the tree predicts %v, a place in it %v", mean, p.Mean)
			}
		}
	}
	if deep < 1000 {
		t.Errorf("only %d of 8000 ways go through all layers: the test shows little", deep)
	}
}

func between(v float64) float64 { return max(-1, min(1, v)) }

// Norms at the edges of shells: gamma^-k is of level k, what is a little larger of the level before. Who has nothing
// left is in no bin.
func TestLevels(t *testing.T) {
	for _, gamma := range []float64{1.5, 2, math.E, 4} {
		tree := layered.Tree{Levels: 9, Gamma: gamma, Cap: 2, Clip: 1}
		at := func(norm float64) int {
			p, found := tree.Below(nil, []float64{norm})
			if !found {
				return tree.Levels
			}
			return p.Number
		}
		for k := range 9 {
			edge := math.Pow(gamma, -float64(k))
			if got := at(edge); got != k {
				t.Errorf("gamma %v: the norm gamma^-%d is of level %d", gamma, k, got)
			}
			if got := at(edge * 1.0001); got != max(0, k-1) {
				t.Errorf("gamma %v: a norm above gamma^-%d is of level %d", gamma, k, got)
			}
		}
		for norm, want := range map[float64]int{0: 9, 1e-300: 9, 1.2: 0} {
			if got := at(norm); got != want {
				t.Errorf("gamma %v: the norm %v is of level %d, not %d", gamma, norm, got, want)
			}
		}
	}
}

// Bounds add up along the way: what a bin adds, and below an inactive bin all that can be left.
func TestPredict(t *testing.T) {
	tree := &layered.Tree{Levels: 2, Gamma: 2, Cap: 2, Clip: 1, Bins: []layered.Bin{
		{Parent: 0, Level: 0, Direction: []float64{1, 0}, Value: .5, Slope: .1},
		{Parent: 1, Level: 1, Direction: []float64{0, 1}, Value: -1, Flat: .2, Slope: .5},
	}}
	if err := tree.Validate(2); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ x, want []float64 }{
		{[]float64{0, 0}, []float64{0, 0}},
		{[]float64{.8, .4}, []float64{0, .08 + .2 + .2}},
		{[]float64{.8, .6}, []float64{.4, .08 + .9}},             // no bin of level 0 below
		{[]float64{.8, 0}, []float64{.4, .08}},                   // nothing left
		{[]float64{.3, .3}, []float64{0, 1.5 * .3 * math.Sqrt2}}, // no bin of level 1
	} {
		mean, bound := tree.Predict(c.x, 1.5)
		if math.Abs(mean-c.want[0]) > 1e-12 || math.Abs(bound-c.want[1]) > 1e-12 {
			t.Errorf("%v: %v +- %v, want %v", c.x, mean, bound, c.want)
		}
	}
	if mean, bound := tree.Predict([]float64{.8, .4}, .01); math.Abs(mean) > .01 || bound > 2 {
		t.Errorf("with a radius of .01: %v +- %v", mean, bound)
	}
}

// What a device must not follow is refused; the tree that it is made from is not.
func TestTreesAreChecked(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	good := grown(3, 2, 3, 1, r)
	if err := good.Validate(3); err != nil || len(good.Bins) != 12 || good.Depth() != 2 || good.Open() != 27 {
		t.Fatal(err, len(good.Bins), good.Depth(), good.Open())
	}
	nan, inf := math.NaN(), math.Inf(1)
	for name, spoil := range map[string]func(*layered.Tree){
		"no levels":       func(t *layered.Tree) { t.Levels = 0 },
		"many levels":     func(t *layered.Tree) { t.Levels = layered.MaxLevels + 1 },
		"gamma 1":         func(t *layered.Tree) { t.Gamma = 1 },
		"gamma large":     func(t *layered.Tree) { t.Gamma = 1e4 },
		"gamma NaN":       func(t *layered.Tree) { t.Gamma = nan },
		"cap 0":           func(t *layered.Tree) { t.Cap = 0 },
		"cap Inf":         func(t *layered.Tree) { t.Cap = inf },
		"clip 0":          func(t *layered.Tree) { t.Clip = 0 },
		"clip -1":         func(t *layered.Tree) { t.Clip = -1 },
		"clip NaN":        func(t *layered.Tree) { t.Clip = nan },
		"level":           func(t *layered.Tree) { t.Bins[11].Level = 3 },
		"level -1":        func(t *layered.Tree) { t.Bins[0].Level = -1 },
		"parent -1":       func(t *layered.Tree) { t.Bins[0].Parent = -1 },
		"its own parent":  func(t *layered.Tree) { t.Bins[11].Parent = 12 },
		"a bin twice":     func(t *layered.Tree) { t.Bins[4] = t.Bins[3] },
		"out of order":    func(t *layered.Tree) { t.Bins[4], t.Bins[5] = t.Bins[5], t.Bins[4] },
		"a long vector":   func(t *layered.Tree) { t.Bins[4].Direction = []float64{1, 0, 0, 0} },
		"no vector":       func(t *layered.Tree) { t.Bins[4].Direction = nil },
		"norm":            func(t *layered.Tree) { t.Bins[4].Direction = []float64{1, .001, 0} },
		"direction NaN":   func(t *layered.Tree) { t.Bins[4].Direction[1] = nan },
		"direction Inf":   func(t *layered.Tree) { t.Bins[4].Direction[1] = inf },
		"value NaN":       func(t *layered.Tree) { t.Bins[4].Value = nan },
		"value Inf":       func(t *layered.Tree) { t.Bins[4].Value = -inf },
		"flat -1":         func(t *layered.Tree) { t.Bins[4].Flat = -1 },
		"flat NaN":        func(t *layered.Tree) { t.Bins[4].Flat = nan },
		"slope -1":        func(t *layered.Tree) { t.Bins[4].Slope = -1 },
		"slope Inf":       func(t *layered.Tree) { t.Bins[4].Slope = inf },
		"too many layers": func(t *layered.Tree) { deepen(t); deepen(t) },
		"too many bins": func(t *layered.Tree) {
			t.Levels = layered.MaxLevels
			for i := range 2 * layered.MaxBins {
				t.Bins = append(t.Bins, layered.Bin{Parent: 13 + i/layered.MaxLevels, Level: i % layered.MaxLevels,
					Direction: []float64{1, 0, 0}})
			}
		},
	} {
		tree := good.Clone()
		spoil(tree)
		if tree.Validate(3) == nil {
			t.Errorf("%s: no error", name)
		}
	}
	// Without bins, or with bins of one layer, which are good in every other way.
	flat := func(levels, bins int) *layered.Tree {
		t := &layered.Tree{Levels: levels, Gamma: layered.MinGamma, Cap: layered.MaxValue, Clip: layered.MaxValue}
		for i := range min(bins, levels) {
			t.Bins = append(t.Bins, layered.Bin{Level: i, Direction: []float64{1, 0, 0}})
		}
		for i := range bins - len(t.Bins) {
			t.Bins = append(t.Bins, layered.Bin{Parent: 1 + i/levels, Level: i % levels,
				Direction: []float64{0, 1, 0}, Value: -layered.MaxValue, Flat: layered.MaxValue,
				Slope: layered.MaxValue})
		}
		return t
	}
	for name, c := range map[string]struct {
		levels, bins, dimension int
		good                    bool
	}{
		"no bins":              {1, 0, 1, true},
		"no levels":            {0, 0, 1, false},
		"most bins":            {layered.MaxLevels, 2 * layered.MaxBins, 3, true},
		"one bin more":         {layered.MaxLevels, 2*layered.MaxBins + 1, 3, false},
		"one level more":       {layered.MaxLevels + 1, 0, 3, false},
		"most dimensions":      {1, 0, layered.MaxDimension, true},
		"one dimension more":   {1, 0, layered.MaxDimension + 1, false},
		"no dimension":         {1, 0, 0, false},
		"a negative dimension": {1, 0, -1, false},
	} {
		if err := flat(c.levels, c.bins).Validate(c.dimension); (err == nil) != c.good {
			t.Errorf("%s: %v", name, err)
		}
	}
	if (*layered.Tree)(nil).Clone() != nil {
		t.Error("a copy of no tree is one")
	}
	if !slices.EqualFunc(good.Bins, good.Clone().Bins, func(a, b layered.Bin) bool {
		return fmt.Sprint(a) == fmt.Sprint(b)
	}) {
		t.Error("a copy differs")
	}
	for _, d := range []int{0, 2, layered.MaxDimension + 1} {
		if good.Validate(d) == nil {
			t.Errorf("a tree of 3 dimensions is good in %d", d)
		}
	}
}

// deepen adds a layer of one bin.
func deepen(t *layered.Tree) {
	t.Bins = append(t.Bins, layered.Bin{Parent: len(t.Bins), Direction: []float64{1, 0, 0}})
}

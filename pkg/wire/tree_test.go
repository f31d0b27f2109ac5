package wire_test

import (
	"math"
	"reflect"
	"slices"
	"testing"

	"github.com/riffle-dp/riffle/internal/testing/allocated"
	rifflev1 "github.com/riffle-dp/riffle/messages/riffle/v1"
	"github.com/riffle-dp/riffle/pkg/glm"
	"github.com/riffle-dp/riffle/pkg/glm/layered"
	"github.com/riffle-dp/riffle/pkg/glm/statistic"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/seal"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// tree is one of two bins in the first layer, and one below the second of them.
func tree() *rifflev1.Tree {
	return &rifflev1.Tree{Levels: 3, Gamma: 2, Cap: 2, Clip: 1.5, Parents: []uint32{0, 0, 2},
		BinLevels:  []uint32{0, 2, 1},
		Directions: []float64{1, 0, 0.6, -0.8, 0.8, 0.6}, Values: []float64{0.5, -1, math.Copysign(0, -1)},
		Flats: []float64{0, 0.25, 0}, Slopes: []float64{0.5, 4, 0}}
}

// treeAnnouncement asks about the layer below the first of a tree, and its policy has two trees.
func treeAnnouncement(t testing.TB) *rifflev1.Announcement {
	a := announcement(t)
	p := a.Policy
	p.Profile, p.Family.Name, p.Stages, p.Scaling = rifflev1.Profile_PROFILE_REGCB, "linear", nil, nil
	p.Play, p.DesignTolerance, p.Explore = rifflev1.Play_PLAY_SPANNER, 0, 0.5
	first := tree()
	first.Parents, first.BinLevels, first.Directions = first.Parents[:1], first.BinLevels[:1], first.Directions[:2]
	first.Values, first.Flats, first.Slopes = first.Values[:1], first.Flats[:1], first.Slopes[:1]
	p.Trees, a.Tree = []*rifflev1.Tree{{Levels: 1, Gamma: 4, Cap: 1, Clip: 1}, tree()}, first
	asks(a, rifflev1.Statistic_STATISTIC_BIN_COUNT, 3, rifflev1.Statistic_STATISTIC_BIN_FIRST, 6,
		rifflev1.Statistic_STATISTIC_BIN_SECOND, 9)
	return a
}

// errorsAnnouncement asks about the last layer of a tree.
func errorsAnnouncement(t testing.TB) *rifflev1.Announcement {
	a := treeAnnouncement(t)
	a.Policy.Trees, a.Tree = nil, tree()
	asks(a, rifflev1.Statistic_STATISTIC_BIN_ERRORS, 1)
	return a
}

// asks makes an announcement ask for statistics of so many coordinates in one round: pairs of both.
func asks(a *rifflev1.Announcement, of ...rifflev1.Statistic) {
	a.Plan.Rounds, a.Encodings = []*rifflev1.PlannedRound{{}}, nil
	for ; len(of) > 0; of = of[2:] {
		a.Plan.Rounds[0].Releases = append(a.Plan.Rounds[0].Releases,
			&rifflev1.PlannedRelease{Statistic: of[0], Shift: 2.5, NoiseBits: 2, Bias: 1 << 31})
		a.Encodings = append(a.Encodings, &rifflev1.Encoding{Scale: 1,
			Coordinates: slices.Repeat([]*rifflev1.Coordinate{{Offset: -1, Levels: 3}}, int(of[1]))})
	}
}

// Too many trees, and too many bins, are refused before they take memory: of a byte of the message, 64 bytes at most.
func TestManyTreesTakeLittleMemory(t *testing.T) {
	many, long := treeAnnouncement(t), treeAnnouncement(t)
	for range 100 {
		of := tree()
		of.Parents = make([]uint32, 2*layered.MaxBins)
		many.Policy.Trees = append(many.Policy.Trees, of)
	}
	long.Tree.Parents = make([]uint32, 1<<20)
	id := signer(t, 1)
	for name, a := range map[string]*rifflev1.Announcement{"trees": many, "bins": long} {
		signed := forge(t, seal.Announcement, a, id)
		allocated.ForInput(t, len(signed)/4, func() {
			if _, _, err := wire.Open[plan.Announcement](signed, party(id)); err == nil {
				t.Errorf("too many %s are accepted", name)
			}
		})
	}
}

func TestTreesRoundTrip(t *testing.T) {
	roundTrip(t, seal.Announcement, treeAnnouncement(t))
	roundTrip(t, seal.Announcement, errorsAnnouncement(t))
	want := layered.Tree{Levels: 3, Gamma: 2, Cap: 2, Clip: 1.5, Bins: []layered.Bin{
		{Direction: []float64{1, 0}, Value: 0.5, Slope: 0.5},
		{Level: 2, Direction: []float64{0.6, -0.8}, Value: -1, Flat: 0.25, Slope: 4},
		{Parent: 2, Level: 1, Direction: []float64{0.8, 0.6}, Value: math.Copysign(0, -1)},
	}}
	if p := openedOf(t, treeAnnouncement(t)).Policy; p.Profile != glm.RegCB || len(p.Trees) != 2 ||
		p.Trees[0].Bins != nil || !reflect.DeepEqual(p.Trees[1], want) {
		t.Errorf("%+v", p.Trees)
	}
	a := openedOf(t, errorsAnnouncement(t))
	if !reflect.DeepEqual(a.Tree, &want) || a.Plan.Rounds[0].Releases[0].Statistic != statistic.BinErrors {
		t.Errorf("%+v", a.Tree)
	}
	if a := opened(t); a.Tree != nil || a.Policy.Trees != nil {
		t.Errorf("no tree became %+v, %+v", a.Tree, a.Policy.Trees)
	}
}

// lists are those of a tree's bins, as a message has them.
var lists = map[string]func(m *rifflev1.Tree){
	"parents":    func(m *rifflev1.Tree) { m.Parents = m.Parents[:len(m.Parents)-1] },
	"levels":     func(m *rifflev1.Tree) { m.BinLevels = append(m.BinLevels, 0) },
	"directions": func(m *rifflev1.Tree) { m.Directions = m.Directions[:len(m.Directions)-1] },
	"values":     func(m *rifflev1.Tree) { m.Values = nil },
	"flats":      func(m *rifflev1.Tree) { m.Flats = append(m.Flats, 0) },
	"slopes":     func(m *rifflev1.Tree) { m.Slopes = m.Slopes[:len(m.Slopes)-1] },
}

// A tree that glm refuses, larger than its limits, with lists of unequal lengths, where no statistic is over its bins,
// or nowhere where one is.
func TestTreesOutOfRangeAreRefused(t *testing.T) {
	type a = rifflev1.Announcement
	many := func(m *rifflev1.Tree, n int) {
		m.Parents, m.BinLevels = make([]uint32, n), make([]uint32, n)
		m.Values, m.Flats, m.Slopes = make([]float64, n), make([]float64, n), make([]float64, n)
		m.Directions = slices.Repeat([]float64{1, 0}, n)
		m.Levels = layered.MaxLevels
		for i := range n {
			m.Parents[i], m.BinLevels[i] = uint32(i/layered.MaxLevels), uint32(i%layered.MaxLevels)
		}
	}
	cases := []bad[a]{
		{"tree", func(m *a) { m.Tree = nil }},
		{"tree", func(m *a) { m.Tree.Levels = 0 }},
		{"tree", func(m *a) { m.Tree.Levels = math.MaxUint32 }},
		{"tree", func(m *a) { m.Tree.Gamma = 1 }},
		{"tree", func(m *a) { m.Tree.Cap = -1 }},
		{"tree", func(m *a) { m.Tree.Clip = 0 }},
		{"tree", func(m *a) { m.Tree.Parents[0] = 1 }},
		{"tree", func(m *a) { m.Tree.Parents[0] = math.MaxUint32 }},
		{"tree", func(m *a) { m.Tree.BinLevels[0] = 3 }},
		{"tree", func(m *a) { m.Tree.Directions[0] = 0.5 }},
		{"tree", func(m *a) { m.Tree.Slopes[0] = -1 }},
		{"tree", func(m *a) { many(m.Tree, 2*layered.MaxBins+1) }},
		{"tree", func(m *a) { many(m.Tree, 1<<17) }},
		{"encodings[0].coordinates", func(m *a) { m.Tree.Levels = 4 }},
		{"encodings[2].coordinates", func(m *a) { m.Encodings[2].Coordinates = m.Encodings[2].Coordinates[:8] }},
		{"policy", func(m *a) { m.Policy.Family.Name = "logistic" }},
		{"policy", func(m *a) { m.Policy.Trees = slices.Repeat(m.Policy.Trees[:1], glm.MaxTrees+1) }},
		{"policy", func(m *a) { m.Policy.Trees[1].Values[2] = math.Inf(1) }},
		{"policy", func(m *a) { m.Policy.Trees[0] = &rifflev1.Tree{} }},
		{"policy", func(m *a) { many(m.Policy.Trees[0], 1<<17) }},
		{"tree", func(m *a) { asks(m, rifflev1.Statistic_STATISTIC_GRADIENT, 2) }},
	}
	for _, x := range notFinite {
		cases = append(cases, bad[a]{"tree", func(m *a) { m.Tree.Directions[1] = x }},
			bad[a]{"tree", func(m *a) { m.Tree.Gamma = x }}, bad[a]{"tree", func(m *a) { m.Tree.Flats[0] = x }})
	}
	refuses(t, seal.Announcement, func() *a { return treeAnnouncement(t) }, cases)
	by := signer(t, goldenSigner)
	for name, change := range lists {
		for _, in := range []func(a *rifflev1.Announcement) *rifflev1.Tree{
			func(a *rifflev1.Announcement) *rifflev1.Tree { return a.Tree },
			func(a *rifflev1.Announcement) *rifflev1.Tree { return a.Policy.Trees[1] },
		} {
			m := treeAnnouncement(t)
			change(in(m))
			if _, _, err := wire.Open[plan.Announcement](forge(t, seal.Announcement, m, by), party(by)); err == nil {
				t.Errorf("%s of another length than the others are accepted", name)
			}
		}
	}
	final := finalAnnouncement(t)
	final.Tree = tree()
	if _, _, err := wire.Open[plan.Announcement](forge(t, seal.Announcement, final, by), party(by)); err == nil {
		t.Error("a final announcement with a tree is accepted")
	}
}

// Two policies that differ in one number of a tree alone are told apart.
func TestPolicyDigestCoversTheTrees(t *testing.T) {
	p := openedOf(t, treeAnnouncement(t)).Policy
	one, err := wire.PolicyDigest(&p)
	if err != nil {
		t.Fatal(err)
	}
	p.Trees[1].Bins[2].Slope = 1e-300
	if other, err := wire.PolicyDigest(&p); err != nil || other == one {
		t.Errorf("%x, %x, %v", one, other, err)
	}
}

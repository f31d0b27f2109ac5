package glm_test

import (
	"encoding/json"
	"errors"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/riffle-dp/riffle/pkg/glm"
	"github.com/riffle-dp/riffle/pkg/glm/layered"
)

// drawTree is a tree of one or two layers with orthogonal directions.
func drawTree(r *rapid.T, d int) layered.Tree {
	number := func(most float64) float64 { return rapid.Float64Range(0, most).Draw(r, "number") }
	t := layered.Tree{Levels: 2, Gamma: 2, Cap: 2, Clip: 1}
	axis := rapid.IntRange(0, d-1).Draw(r, "axis")
	unit := func(j int) []float64 {
		u := make([]float64, d)
		u[j] = 1
		return u
	}
	for k := range rapid.IntRange(0, 2).Draw(r, "bins") {
		t.Bins = append(t.Bins, layered.Bin{Level: k, Direction: unit(axis), Value: 2*number(1) - 1, Flat: number(.1),
			Slope: number(.5)})
	}
	if len(t.Bins) > 0 && d > 1 {
		t.Bins = append(t.Bins, layered.Bin{Parent: 1, Direction: unit((axis + 1) % d), Value: 2*number(1) - 1,
			Slope: number(.5)})
	}
	return t
}

// drawTreePolicy has trees and no stages.
func drawTreePolicy(r *rapid.T, d int) *glm.Policy {
	p := drawPolicy(r, d)
	p.Profile, p.Family, p.MaxReward, p.Stages, p.Scaling = glm.RegCB, "linear", 1, nil, nil
	p.Play = rapid.SampledFrom([]glm.Play{glm.PlaySpanner, glm.PlayGreedy}).Draw(r, "play")
	p.Explore, p.DesignTolerance = rapid.SampledFrom([]float64{0, .5}).Draw(r, "explore"), 0
	for range rapid.IntRange(1, 4).Draw(r, "trees") {
		p.Trees = append(p.Trees, drawTree(r, d))
	}
	return p
}

// Each tree in its order drops the arms whose upper bound is below the largest lower bound among those left, and greedy
// play takes the first of those whose mean is largest by the last tree.
func TestTreesEliminateAndScore(t *testing.T) {
	eliminated, differs := 0, 0
	rapid.Check(t, func(r *rapid.T) {
		d := rapid.IntRange(1, 4).Draw(r, "d")
		p := drawTreePolicy(r, d)
		if err := p.Validate(); err != nil {
			r.Fatal(err)
		}
		arms := drawArms(r, d)
		left := make([]int, len(arms))
		for a := range left {
			left[a] = a
		}
		mean := func(t layered.Tree, a int) float64 { m, _ := t.Predict(arms[a], p.Radius); return m }
		for _, tree := range p.Trees {
			top := math.Inf(-1)
			for _, a := range left {
				m, b := tree.Predict(arms[a], p.Radius)
				top = math.Max(top, m-b)
			}
			left = slices.DeleteFunc(left, func(a int) bool {
				m, b := tree.Predict(arms[a], p.Radius)
				return m+b < top
			})
		}
		got, err := p.Eliminate(arms)
		if err != nil || !slices.Equal(got, left) {
			r.Fatalf("%v are left, not %v: %v", got, left, err)
		}
		if len(left) < len(arms) {
			eliminated++
		}
		last, best := p.Trees[len(p.Trees)-1], left[0]
		for _, a := range left {
			if mean(last, a) > mean(last, best) {
				best = a
			}
		}
		if best != left[0] {
			differs++
		}
		all, err := p.Probabilities(arms)
		if err != nil {
			r.Fatal(err)
		}
		if least := map[float64]float64{0: 0, .5: .5}[p.Explore]; p.Play == glm.PlayGreedy && all[best] != 1 ||
			all[best] < least-1e-12 {
			r.Fatalf("the best of %v is %d: %v", left, best, all)
		}
		d1, err := p.DecideFor(arms, glm.Choice{Unrecorded: true}, rand.NewChaCha8([32]byte{}))
		if err != nil {
			r.Fatal(err)
		}
		if want := best; d1.Arm != want && (mean(last, want) > mean(last, 0) || d1.Arm != 0) {
			r.Fatalf("nobody learns from the decision, and it is arm %d in place of %d", d1.Arm, want)
		}
		text, err := json.Marshal(p)
		if err != nil {
			r.Fatal(err)
		}
		var back glm.Policy
		if err := json.Unmarshal(text, &back); err != nil || !reflect.DeepEqual(back.Trees, p.Clone().Trees) {
			r.Fatalf("%s comes back as %+v: %v", text, back, err)
		}
	})
	if !testing.Short() && min(eliminated, differs) < 10 {
		t.Errorf("%d of the cases eliminate, in %d the best arm is not the first left: they show nothing", eliminated,
			differs)
	}
}

// Inverse gap play has the gaps of the last tree.
func TestInverseGapsOfTrees(t *testing.T) {
	tree := layered.Tree{Levels: 1, Gamma: 2, Cap: 2, Clip: 1,
		Bins: []layered.Bin{{Direction: []float64{1}, Value: .5, Slope: 1}}}
	p := glm.Policy{Profile: glm.RegCB, Family: "linear", MaxReward: 1, Dimension: 1, Radius: 1, Theta: []float64{-1},
		Play: glm.PlayInverseGap, Gamma: 8, Trees: []layered.Tree{tree}}
	got, err := p.Probabilities([][]float64{{1}, {.6}})
	if want := 1 / (2 + 8*.2); err != nil || math.Abs(got[1]-want) > 1e-12 {
		t.Errorf("%v, want %v of the second arm: %v", got, want, err)
	}
}

// Policies with trees that a device must not follow are refused.
func TestTreesOfPoliciesAreChecked(t *testing.T) {
	tree := layered.Tree{Levels: 2, Gamma: 2, Cap: 2, Clip: 1,
		Bins: []layered.Bin{{Direction: []float64{1, 0}, Value: .5, Slope: 1}}}
	valid := func() *glm.Policy {
		return &glm.Policy{Profile: glm.RegCB, Family: "linear", MaxReward: 1, Dimension: 2, Radius: 1,
			Theta: make([]float64, 2), Play: glm.PlaySpanner, Trees: []layered.Tree{tree, *tree.Clone()}}
	}
	most := valid()
	most.Trees = slices.Repeat([]layered.Tree{tree}, glm.MaxTrees)
	if err := errors.Join(valid().Validate(), most.Validate()); err != nil {
		t.Fatal(err)
	}
	for name, spoil := range map[string]func(p *glm.Policy){
		"too many":  func(p *glm.Policy) { p.Trees = slices.Repeat(p.Trees, glm.MaxTrees) },
		"family":    func(p *glm.Policy) { p.Family = "logistic" },
		"the last":  func(p *glm.Policy) { p.Trees[1].Bins[0].Slope = math.NaN() },
		"dimension": func(p *glm.Policy) { p.Dimension, p.Theta = 3, make([]float64, 3) },
	} {
		p := valid()
		if spoil(p); !errors.Is(p.Validate(), glm.ErrPolicy) {
			t.Errorf("%s: %v", name, p.Validate())
		}
	}
	p, other := valid(), valid().Clone()
	other.Trees[0].Bins[0].Direction[0] = 7
	if !reflect.DeepEqual(p, valid()) {
		t.Error("a copy shares memory with its policy")
	}
}

package glm_test

import (
	"encoding/json"
	"errors"
	"math"
	"reflect"
	"testing"

	"pgregory.net/rapid"

	_ "github.com/riffle-dp/riffle/internal/testing/fixedseed"
	"github.com/riffle-dp/riffle/pkg/convex"
	"github.com/riffle-dp/riffle/pkg/glm"
	"github.com/riffle-dp/riffle/pkg/glm/symmetric"
)

func drawOptimistic(r *rapid.T, d int) *glm.Policy {
	p := drawPolicy(r, d)
	p.Profile, p.Play, p.Scaling, p.Explore = glm.Joint, glm.PlayOptimistic, nil, 0
	if rapid.IntRange(0, 3).Draw(r, "criterion") > 0 {
		p.Criterion = &glm.Criterion{Covariance: drawCovariance(r, d),
			Threshold: rapid.Float64Range(1e-3, 2).Draw(r, "threshold")}
	}
	p.Optimism = &glm.Stage{Theta: p.Theta, Covariance: drawCovariance(r, d),
		Width: rapid.Float64Range(0, 3).Draw(r, "beta")}
	return p
}

// A person explores exactly if there is a criterion and an arm of theirs reaches its threshold, and then with the
// largest arm; otherwise they play the survivor with the largest upper bound. The probabilities say the same.
func TestOptimisticPlay(t *testing.T) {
	explored, exploited, eliminated, always := 0, 0, 0, 0
	rapid.Check(t, func(r *rapid.T) {
		d := rapid.IntRange(1, 4).Draw(r, "d")
		p := drawOptimistic(r, d)
		if err := p.Validate(); err != nil {
			r.Fatal(err)
		}
		arms := drawArms(r, d)
		got, err := p.Decide(arms, nil)
		if err != nil {
			r.Fatal(err)
		}
		norm := func(x []float64) float64 { return p.Criterion.Covariance.Form(x) }
		largest, threshold := 0.0, math.Inf(1)
		if p.Criterion != nil {
			threshold = p.Criterion.Threshold
			for _, x := range arms {
				largest = math.Max(largest, norm(x))
			}
		}
		survivors, err := p.Eliminate(arms)
		if err != nil {
			r.Fatal(err)
		}
		want := largest >= threshold
		if got.Explored != want || got.Propensity != 1 || got.Weight != 1 {
			r.Fatalf("%+v, the largest norm is %v of %v", got, largest, threshold)
		}
		if want {
			explored++
			if norm(arms[got.Arm]) != largest || got.Survivors != len(arms) {
				r.Fatalf("%+v explores with norm %v of %v", got, norm(arms[got.Arm]), largest)
			}
		} else {
			exploited++
			if p.Criterion == nil {
				always++
			}
			if len(survivors) < len(arms) {
				eliminated++
			}
			upper := func(a int) float64 {
				return convex.Dot(arms[a], p.Optimism.Theta) +
					p.Optimism.HalfWidth(arms[a])
			}
			best := survivors[0]
			for _, a := range survivors {
				if upper(a) > upper(best) {
					best = a
				}
			}
			if got.Arm != best || got.Survivors != len(survivors) {
				r.Fatalf("%+v, want arm %d of survivors %v", got, best, survivors)
			}
		}
		all, err := p.Probabilities(arms)
		if err != nil || all[got.Arm] != 1 {
			r.Fatalf("%v, %v for arm %d", all, err, got.Arm)
		}
		text, err := json.Marshal(p)
		if err != nil {
			r.Fatal(err)
		}
		var back glm.Policy
		if err := json.Unmarshal(text, &back); err != nil || !reflect.DeepEqual(*p.Clone(), back) {
			r.Fatalf("%s comes back as %+v, %v", text, back, err)
		}
	})
	// About 11 of 100 cases explore, so that fewer than 3 have a probability below 1e-3; -short draws 20 cases.
	if least := 3; !testing.Short() && min(explored, exploited, eliminated, always) < least {
		t.Errorf("%d explored, %d did not, %d of them with eliminated arms, %d without a criterion: the cases show "+
			"nothing", explored, exploited, eliminated, always)
	}
}

// A device refuses an optimistic policy with a part missing, broken, or in a policy of another play; and a copy shares
// nothing with its original.
func TestOptimisticPoliciesAreChecked(t *testing.T) {
	valid := func() *glm.Policy {
		return &glm.Policy{Profile: glm.Joint, Family: "logistic", MaxReward: 1, Dimension: 2, Radius: 3,
			Theta: []float64{0, 1}, Play: glm.PlayOptimistic,
			Criterion: &glm.Criterion{Covariance: symmetric.Packed{1, 0, 1}, Threshold: 0.5},
			Optimism:  &glm.Stage{Theta: []float64{0, 1}, Covariance: symmetric.Packed{1, 0, 1}, Width: 1}}
	}
	if err := valid().Validate(); err != nil {
		t.Fatal(err)
	}
	for name, spoil := range map[string]func(p *glm.Policy){
		"no optimism":          func(p *glm.Policy) { p.Optimism = nil },
		"another play":         func(p *glm.Policy) { p.Play = glm.PlayGreedy },
		"optimism alone":       func(p *glm.Policy) { p.Play, p.Criterion = glm.PlayDesign, nil },
		"a criterion alone":    func(p *glm.Policy) { p.Play, p.Optimism = glm.PlayDesign, nil },
		"threshold 0":          func(p *glm.Policy) { p.Criterion.Threshold = 0 },
		"threshold NaN":        func(p *glm.Policy) { p.Criterion.Threshold = math.NaN() },
		"threshold Inf":        func(p *glm.Policy) { p.Criterion.Threshold = math.Inf(1) },
		"covariance":           func(p *glm.Policy) { p.Criterion.Covariance = p.Criterion.Covariance[:2] },
		"covariance -1":        func(p *glm.Policy) { p.Criterion.Covariance[0] = -1 },
		"optimism theta":       func(p *glm.Policy) { p.Optimism.Theta = []float64{9, math.NaN()} },
		"optimism means":       func(p *glm.Policy) { p.Optimism.Means = true },
		"optimism width":       func(p *glm.Policy) { p.Optimism.Width = -1 },
		"optimism covariance":  func(p *glm.Policy) { p.Optimism.Covariance[2] = math.NaN() },
		"optimism theta short": func(p *glm.Policy) { p.Optimism.Theta = nil },
	} {
		p := valid()
		spoil(p)
		if err := p.Validate(); !errors.Is(err, glm.ErrPolicy) {
			t.Errorf("%s: %v", name, err)
		}
	}
	linear := valid()
	if linear.Criterion = nil; linear.Validate() != nil {
		t.Errorf("optimistic play without a criterion: %v", linear.Validate())
	}
	for _, spoil := range []func(p *glm.Policy){
		func(p *glm.Policy) { p.Optimism = nil },
		func(p *glm.Policy) { p.Criterion.Covariance = nil },
		func(p *glm.Policy) { p.Optimism.Covariance = nil },
	} {
		p := valid()
		spoil(p)
		if _, err := p.Decide([][]float64{{1, 0}}, nil); !errors.Is(err, glm.ErrPolicy) {
			t.Errorf("a broken policy decides: %v", err)
		}
	}
	p := valid()
	c := p.Clone()
	c.Criterion.Covariance[0], c.Criterion.Threshold, c.Optimism.Theta[0], c.Optimism.Width = 7, 7, 7, 7
	if !reflect.DeepEqual(p, valid()) {
		t.Errorf("a change of the copy reaches the original: %+v", p)
	}
}

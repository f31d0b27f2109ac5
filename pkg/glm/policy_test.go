package glm_test

import (
	"encoding/json"
	"errors"
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/riffle-dp/riffle/pkg/glm"
	"github.com/riffle-dp/riffle/pkg/glm/symmetric"
)

func TestValidateRefusesBadPolicies(t *testing.T) {
	valid := func() *glm.Policy {
		stage := glm.Stage{Theta: []float64{1, 2}, Covariance: symmetric.Packed{2, .5, 1}, Width: 1}
		return &glm.Policy{Profile: glm.Paper, Epoch: 3, Family: "logistic", MaxReward: 1, Dimension: 2, Radius: 3,
			Theta: []float64{0, 3}, Play: glm.PlayDesign,
			Stages: []glm.Stage{stage}, Scaling: &glm.Scaling{Stage: stage, Diameter: 6, SelfConcordance: 1,
				MaxWeight: .25}}
	}
	if err := valid().Validate(); err != nil {
		t.Fatal(err)
	}
	nan := math.NaN()
	for name, spoil := range map[string]func(p *glm.Policy){
		"profile":             func(p *glm.Policy) { p.Profile = "best" },
		"family":              func(p *glm.Policy) { p.Family = "cauchy" },
		"reward":              func(p *glm.Policy) { p.MaxReward = 2 },
		"dimension":           func(p *glm.Policy) { p.Dimension = 0 },
		"large dimension":     func(p *glm.Policy) { p.Dimension = glm.MaxDimension + 1 },
		"radius":              func(p *glm.Policy) { p.Radius = nan },
		"theta above 1e100":   func(p *glm.Policy) { p.Theta = []float64{1.1e100, .1} },
		"theta NaN":           func(p *glm.Policy) { p.Theta[0] = nan },
		"theta length":        func(p *glm.Policy) { p.Theta = p.Theta[:1] },
		"play":                func(p *glm.Policy) { p.Play = "" },
		"tolerance":           func(p *glm.Policy) { p.DesignTolerance = 2 },
		"epoch":               func(p *glm.Policy) { p.Epoch = -1 },
		"explore":             func(p *glm.Policy) { p.Explore = 1.1 },
		"explore NaN":         func(p *glm.Policy) { p.Explore = nan },
		"stage theta":         func(p *glm.Policy) { p.Stages[0].Theta = []float64{9, math.Inf(1)} },
		"stage width":         func(p *glm.Policy) { p.Stages[0].Width = -1 },
		"stage width NaN":     func(p *glm.Policy) { p.Stages[0].Width = nan },
		"covariance length":   func(p *glm.Policy) { p.Stages[0].Covariance = p.Stages[0].Covariance[:2] },
		"covariance Inf":      func(p *glm.Policy) { p.Stages[0].Covariance[1] = math.Inf(1) },
		"covariance negative": func(p *glm.Policy) { p.Stages[0].Covariance[0] = -1 },
		"covariance indefinite": func(p *glm.Policy) {
			p.Stages[0].Covariance = symmetric.Packed{1, 2, 1}
		},
		"scaling weight": func(p *glm.Policy) { p.Scaling.MaxWeight = 0 },
		"scaling theta":  func(p *glm.Policy) { p.Scaling.Theta = nil },
		"scaling ball":   func(p *glm.Policy) { p.Scaling.Theta = []float64{3, .1} },
		"scaling means":  func(p *glm.Policy) { p.Scaling.Means = true },
		"gamma":          func(p *glm.Policy) { p.Gamma = 1 },
		"gamma NaN":      func(p *glm.Policy) { p.Play, p.Gamma = glm.PlayInverseGap, nan },
		"gamma Inf":      func(p *glm.Policy) { p.Play, p.Gamma = glm.PlayInverseGap, math.Inf(1) },
		"gamma below 0":  func(p *glm.Policy) { p.Play, p.Gamma = glm.PlayInverseGap, -1 },
		"gamma -0":       func(p *glm.Policy) { p.Play, p.Gamma = glm.PlayInverseGap, math.Copysign(0, -1) },
	} {
		p := valid()
		p.Stages[0].Covariance = slices.Clone(p.Stages[0].Covariance)
		spoil(p)
		if err := p.Validate(); !errors.Is(err, glm.ErrPolicy) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Covariances of every size and scale are judged without a panic (gonum's eigenvalues panic on the second).
func TestCovariancesOfEveryScaleAreChecked(t *testing.T) {
	for _, c := range []struct {
		covariance symmetric.Packed
		valid      bool
	}{
		{symmetric.Packed{0, 0, 0}, true},
		{symmetric.Packed{1e-123, 1e-123, 1e-123}, true},
		{symmetric.Packed{1e-300, 0, 1e-300}, true},
		{symmetric.Packed{1e99, 0, 1e-99}, true},
		{symmetric.Packed{1, 1, 1}, true},
		{symmetric.Packed{1, 1.001, 1}, false},
		{symmetric.Packed{1, 0, -1e-6}, false},
		{symmetric.Packed{-1e-123, 0, 0}, false},
		{symmetric.Packed{1e101, 0, 1}, false},
	} {
		p := glm.Policy{Profile: glm.Practical, Family: "logistic", MaxReward: 1, Dimension: 2, Radius: 1,
			Theta: []float64{0, 0}, Play: glm.PlayDesign,
			Stages: []glm.Stage{{Theta: []float64{0, 0}, Covariance: c.covariance, Width: 1}}}
		if err := p.Validate(); (err == nil) != c.valid {
			t.Errorf("%v: %v", c.covariance, err)
		}
	}
}

// Every float64 survives the JSON form, so that device and analyzer follow the same function.
func TestPolicySurvivesJSON(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		p := drawPolicy(r, 3)
		text, err := json.Marshal(p)
		if err != nil {
			r.Fatal(err)
		}
		var q glm.Policy
		if err := json.Unmarshal(text, &q); err != nil {
			r.Fatal(err)
		}
		again, err := json.Marshal(q)
		if err != nil || string(again) != string(text) {
			r.Fatalf("%s\n%s", text, again)
		}
		for j, s := range p.Stages {
			if !slices.Equal(s.Covariance, q.Stages[j].Covariance) || !slices.Equal(s.Theta, q.Stages[j].Theta) {
				r.Fatal("a float changed")
			}
		}
	})
}

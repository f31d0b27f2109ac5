package environment_test

import (
	"errors"
	"math"
	"reflect"
	"slices"
	"testing"

	"github.com/riffle-dp/riffle/internal/population"
	"github.com/riffle-dp/riffle/lab/environment"
)

var blocks = []environment.Spec{
	{Kind: environment.Options}, {Kind: environment.Options, Law: environment.Heavy, Arms: 2, Context: 3, Norm: 6},
	{Kind: environment.Options, Law: environment.Correlated, Truth: environment.Misfit},
	{Kind: environment.Options, Law: environment.Useless, Truth: environment.Separable, Offsets: []float64{0, 1, -1}},
	{Kind: environment.Options, Truth: environment.Classes, Arms: 4, Offsets: []float64{1, 0, 0, -1}},
	{Kind: environment.Options, Family: "linear", Spread: 0.5, Norm: 1},
	{Kind: environment.Options, Family: "gaussian", MaxReward: 4, Spread: 1, Norm: 2},
	{Kind: environment.Options, Family: "gaussian", MaxReward: 5, Spread: 1, Norm: 2, Truth: environment.Grades},
	{Kind: environment.Options, Family: "gaussian", MaxReward: 200, Spread: 1, Truth: environment.Skewed},
}

// The people are the same at every pass, others for another seed, arms in the unit ball, rewards in range with the
// means that are stated: the mean of 4000 people's rewards of an option is within 5 standard errors of the mean of
// their means (false alarm 6e-7 each).
func TestOptionsHaveTheirMeans(t *testing.T) {
	const n = 4000
	for _, s := range blocks {
		first, e := people(t, s, 5, n)
		again, _ := people(t, s, 5, n)
		other, _ := people(t, s, 6, n)
		if !reflect.DeepEqual(first, again) || reflect.DeepEqual(first, other) {
			t.Errorf("%s: not a function of the seed", s.Label())
		}
		gaps := make([]float64, e.Info().Arms)
		for _, p := range first {
			for a, x := range p.Arms {
				if norm(x) > 1+1e-12 || p.Rewards[a] < e.Family.MinReward() || p.Rewards[a] > e.Family.MaxReward() {
					t.Fatalf("%s: arm of norm %v, reward %v", s.Label(), norm(x), p.Rewards[a])
				}
				gaps[a] += (p.Rewards[a] - p.Means[a]) / n
			}
		}
		half := (e.Family.MaxReward() - e.Family.MinReward()) / 2 // no deviation is larger
		for a, gap := range gaps {
			if math.Abs(gap) > 5*half/math.Sqrt(n) {
				t.Errorf("%s: rewards of option %d are %v above their means", s.Label(), a, gap)
			}
		}
	}
}

// Arm k of a person is the context in block k and 0 elsewhere, and where the model is right, the parameter gives the
// means.
func TestOptionsShareOneContext(t *testing.T) {
	for _, s := range blocks {
		all, e := people(t, s, 3, 200)
		p := e.Info().Dim / e.Info().Arms
		if misfit := s.Truth != "" || s.Spread > 0; (e.Theta == nil) != misfit {
			t.Errorf("%s: parameter %v", s.Label(), e.Theta)
		}
		for _, x := range all {
			context := x.Arms[0][:p]
			for k, arm := range x.Arms {
				for j, v := range arm {
					if in := j/p == k; in && v != context[j%p] || !in && v != 0 {
						t.Fatalf("%s: arm %d is %v, context %v", s.Label(), k, arm, context)
					}
				}
				if e.Theta != nil && math.Abs(x.Means[k]-e.Family.Mean(population.Dot(arm, e.Theta))) > 1e-12 {
					t.Fatalf("%s: mean %v of arm %d", s.Label(), x.Means[k], k)
				}
			}
		}
	}
}

// What each law of contexts and rewards is for.
func TestLawsOfOptions(t *testing.T) {
	const n = 4000
	far, near := 0, 0
	heavy, _ := people(t, environment.Spec{Kind: environment.Options, Law: environment.Heavy}, 1, n)
	for _, x := range heavy {
		switch u := x.Arms[0][:4]; {
		case norm(u) > 0.8:
			far++
		case norm(u) < 0.3:
			near++
		}
	}
	if far < n/200 || near < n/3 { // contexts are (u/8, 1/2): far is |u| > 5.3, near is |u| < 2.4
		t.Errorf("heavy: %d of %d are far out, %d near", far, n, near)
	}
	cosine := 0.0
	correlated, _ := people(t, environment.Spec{Kind: environment.Options, Law: environment.Correlated}, 1, n)
	for _, x := range correlated {
		if x.Arms[0][0]*x.Arms[0][1] > 0 {
			cosine++
		}
	}
	// Two normal numbers correlated by 1/1.09 have one sign with probability 1/2 + arcsin(0.917)/pi = 0.87.
	if cosine /= n; math.Abs(cosine-0.87) > 0.03 {
		t.Errorf("correlated: two numbers have the same sign in %v", cosine)
	}
	_, useless := people(t, environment.Spec{Kind: environment.Options, Law: environment.Useless, Context: 6}, 1, 1)
	for j, w := range useless.Theta {
		if useful := j%6 < 2; (w != 0) != useful {
			t.Errorf("useless: weight %d is %v", j, w)
		}
	}
	classes, _ := people(t, environment.Spec{Kind: environment.Options, Truth: environment.Classes,
		Offsets: []float64{0, 0, -2}}, 1, n)
	var right [3]float64
	for _, x := range classes {
		total := 0.0
		for k, m := range x.Means {
			right[k] += m
			total += m
			if x.Rewards[k] != m {
				t.Fatalf("classes: reward %v of mean %v", x.Rewards[k], m)
			}
		}
		if total != 1 {
			t.Fatalf("classes: %v labels are right", total)
		}
	}
	if least := min(right[0], right[1], right[2]); least == 0 || least > n/10 {
		t.Errorf("classes: an option that is 2 behind is right for %v of %d", least, n)
	}
}

// People held out are others, of the same parameter, and change no one who decides.
func TestPeopleHeldOut(t *testing.T) {
	for _, s := range append(slices.Clone(synthetic), blocks...) {
		if s.Kind == environment.Adversarial || s.Kind == environment.LowerBound {
			s.Test = 5
			if _, err := s.Open(1, 10); !errors.Is(err, environment.ErrSpec) {
				t.Errorf("%s: %v", s.Label(), err)
			}
			continue
		}
		without, _ := people(t, s, 4, 50)
		s.Test = 30
		with, e := people(t, s, 4, 50)
		if !reflect.DeepEqual(without, with) || e.Info().HeldOut != 30 {
			t.Errorf("%s: people held out change those who decide", s.Label())
		}
		var held []population.Person
		for p, err := range e.Holdout() {
			if err != nil {
				t.Fatal(err)
			}
			held = append(held, p)
			if e.Theta != nil && math.Abs(p.Means[0]-e.Family.Mean(population.Dot(p.Arms[0], e.Theta))) > 1e-12 {
				t.Fatalf("%s: another parameter", s.Label())
			}
		}
		if len(held) != 30 || reflect.DeepEqual(held, with[:30]) {
			t.Errorf("%s: %d people held out", s.Label(), len(held))
		}
	}
}

// Each decision made of the census has one right option for each person, found again from the rows.
func TestDecisionsOfTheCensus(t *testing.T) {
	rows, err := population.ReadAdult()
	if err != nil {
		t.Fatal(err)
	}
	forty, single := 0.0, 0.0
	for _, r := range rows {
		if r.Test && r.Hours == 40 {
			forty++
		}
		if r.Test && r.MaritalStatus == "Never-married" {
			single++
		}
	}
	for name, c := range map[string]struct{ dimension, arms int }{
		"hours": {18, 3}, "marital": {15, 3}, "schooling": {30, 6}, "occupation": {14, 2},
	} {
		s := environment.Spec{Kind: environment.Census, Decision: name}
		first, e := people(t, s, 2, 300)
		other, _ := people(t, s, 3, 300)
		if info := e.Info(); info.Dim != c.dimension || info.Arms != c.arms || info.HeldOut != 16281 {
			t.Errorf("%s: %+v", name, info)
		}
		if reflect.DeepEqual(first, other) {
			t.Errorf("%s: two seeds give one order", name)
		}
		counts := make([]float64, c.arms)
		for p, err := range e.Holdout() {
			if err != nil {
				t.Fatal(err)
			}
			total := 0.0
			for k, r := range p.Rewards {
				total += r
				counts[k] += r
				if math.Abs(norm(p.Arms[k])-1) > 1e-9 {
					t.Fatalf("%s: arm of norm %v", name, norm(p.Arms[k]))
				}
			}
			if total != 1 {
				t.Fatalf("%s: %v options are right", name, total)
			}
		}
		for k, n := range counts {
			if n == 0 {
				t.Errorf("%s: option %d is never right", name, k)
			}
		}
		if name == "hours" && counts[1] != forty || name == "marital" && counts[0] != single {
			t.Errorf("%s: %v, want %v who work 40 hours, %v who never married", name, counts, forty, single)
		}
	}
	if _, err := (environment.Spec{Kind: environment.Census}).Open(1, 10); !errors.Is(err, environment.ErrSpec) {
		t.Errorf("no decision: %v", err)
	}
	if _, err := (environment.Spec{Kind: environment.Census, Decision: "hours"}).Open(1, 40000); err == nil {
		t.Error("more people than there are")
	}
}

func TestBadOptionsAreRefused(t *testing.T) {
	for name, s := range map[string]environment.Spec{
		"law":       {Kind: environment.Options, Law: "none"},
		"truth":     {Kind: environment.Options, Truth: "none"},
		"context":   {Kind: environment.Options, Context: 1},
		"dimension": {Kind: environment.Options, Context: 4, Arms: 2, Dimension: 9},
		"product":   {Kind: environment.Options, Context: 2, Truth: environment.Misfit},
		"offsets":   {Kind: environment.Options, Offsets: []float64{1}},
		"spread":    {Kind: environment.Options, Spread: 1},
		"no spread": {Kind: environment.Options, Family: "linear"},
		"of ball":   {Kind: environment.Ball, Law: environment.Heavy},
		"decision":  {Kind: environment.Ball, Decision: "hours"},
		"parameter": {Kind: environment.Options, Arms: 2, Context: 2, Parameter: []float64{1, 2, 3, 4}},
	} {
		if _, err := s.Resolve(); !errors.Is(err, environment.ErrSpec) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

package glm_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"gonum.org/v1/gonum/floats/scalar"
	"pgregory.net/rapid"

	"github.com/riffle-dp/riffle/pkg/convex"
	"github.com/riffle-dp/riffle/pkg/glm"
	"github.com/riffle-dp/riffle/pkg/glm/design"
	"github.com/riffle-dp/riffle/pkg/glm/family"
	"github.com/riffle-dp/riffle/pkg/glm/symmetric"
)

// Every survivor has the probability 1/(K + Gamma g), the greedy one what is left, at least 1/K; a decision takes one
// word and states its probability.
func TestInverseGapsAreTheFormula(t *testing.T) {
	shared := 0
	rapid.Check(t, func(r *rapid.T) {
		d := rapid.IntRange(1, 4).Draw(r, "d")
		p := drawPolicy(r, d)
		p.Play, p.Explore = glm.PlayInverseGap, 0
		p.Gamma = rapid.OneOf(rapid.Just(0.0), rapid.Float64Range(0, 1e3), rapid.Just(1e100)).Draw(r, "gamma")
		if err := p.Validate(); err != nil {
			r.Fatal(err)
		}
		arms := drawArms(r, d)
		got, err := p.Probabilities(arms)
		if err != nil {
			r.Fatal(err)
		}
		survivors, err := p.Eliminate(arms)
		if err != nil {
			r.Fatal(err)
		}
		best := survivors[0]
		for _, a := range survivors {
			if convex.Dot(arms[a], p.Theta) > convex.Dot(arms[best], p.Theta) {
				best = a
			}
		}
		value := func(a int) float64 { return math.Max(-1, math.Min(1, convex.Dot(arms[a], p.Theta))) }
		k, rest := float64(len(survivors)), 1.0
		for a, v := range got {
			switch {
			case !slices.Contains(survivors, a):
				if v != 0 {
					r.Fatalf("arm %d was eliminated and has probability %v", a, v)
				}
			case a != best:
				if want := 1 / (k + p.Gamma*(value(best)-value(a))); !scalar.EqualWithinAbs(v, want, 1e-15) {
					r.Fatalf("arm %d has probability %v, want %v", a, v, want)
				}
				rest -= v
			}
		}
		if !scalar.EqualWithinAbs(got[best], rest, 1e-12) || got[best] < 1/k-1e-12 {
			r.Fatalf("the best of %v is %d: %v", survivors, best, got)
		}
		if len(survivors) > 1 {
			shared++
		}
		src := &counted{ChaCha8: rand.NewChaCha8([32]byte{6})}
		decision, err := p.Decide(arms, src)
		if err != nil || decision.Propensity != got[decision.Arm] || src.words > 1 {
			r.Fatalf("%+v after %d words, probabilities %v, %v", decision, src.words, got, err)
		}
	})
	if !testing.Short() && shared < 10 {
		t.Errorf("%d cases have several survivors: they show nothing", shared)
	}
}

// A spanner is of the survivors alone, and each of its arms has the same probability.
func TestSpannersAreOfTheSurvivors(t *testing.T) {
	fewer := 0
	rapid.Check(t, func(r *rapid.T) {
		d := rapid.IntRange(1, 4).Draw(r, "d")
		p := drawPolicy(r, d)
		p.Play = glm.PlaySpanner
		p.Explore, p.DesignTolerance = 0, rapid.SampledFrom([]float64{0, 1e-12, 0.5, 1}).Draw(r, "tolerance")
		if err := p.Validate(); err != nil {
			r.Fatal(err)
		}
		arms := drawArms(r, d)
		got, err := p.Probabilities(arms)
		if err != nil {
			r.Fatal(err)
		}
		survivors, err := p.Eliminate(arms)
		if err != nil {
			r.Fatal(err)
		}
		var left [][]float64
		for _, a := range survivors {
			left = append(left, arms[a])
		}
		picked, err := design.Spanner(left, design.Options{Tolerance: p.DesignTolerance})
		if err != nil {
			r.Fatal(err)
		}
		want := make([]float64, len(arms))
		for _, i := range picked {
			want[survivors[i]] = 1 / float64(len(picked))
		}
		if !slices.Equal(got, want) {
			r.Fatalf("%v, want %v", got, want)
		}
		if len(survivors) < len(arms) && len(survivors) > 1 {
			fewer++
		}
	})
	if !testing.Short() && fewer < 3 {
		t.Errorf("%d cases with eliminated arms: they show nothing", fewer)
	}
}

// The tolerance of a spanner is the policy's.
func TestSpannersHaveThePolicysTolerance(t *testing.T) {
	rng, differ := rand.New(rand.NewPCG(3, 4)), 0
	for range 300 {
		arms := make([][]float64, 20)
		for i := range arms {
			for range 4 {
				arms[i] = append(arms[i], rng.NormFloat64()/9)
			}
		}
		p := glm.Policy{Profile: glm.Practical, Family: "linear", MaxReward: 1, Dimension: 4, Radius: 1,
			Theta: make([]float64, 4), Play: glm.PlaySpanner}
		loose, err := p.Probabilities(arms)
		if err != nil {
			t.Fatal(err)
		}
		p.DesignTolerance = 1e-12
		tight, err := p.Probabilities(arms)
		if err != nil {
			t.Fatal(err)
		}
		picked, err := design.Spanner(arms, design.Options{Tolerance: 1e-12})
		if err != nil {
			t.Fatal(err)
		}
		for _, a := range picked {
			if tight[a] != 0.25 {
				t.Fatalf("%v is not of the spanner %v", tight, picked)
			}
		}
		if !slices.Equal(tight, loose) {
			differ++
		}
	}
	if differ < 10 {
		t.Errorf("the tolerance matters in %d of 300 cases: they show nothing", differ)
	}
}

// A stage of means compares mean rewards, whose widths are in the units of rewards.
func TestStagesOfMeansCompareMeanRewards(t *testing.T) {
	stage := glm.Stage{Theta: []float64{8, 0}, Covariance: symmetric.Packed{1, 0, 1}, Width: 0.05}
	p := &glm.Policy{Profile: glm.Practical, Family: "logistic", MaxReward: 1, Dimension: 2, Radius: 3,
		Theta: []float64{8, 0}, Stages: []glm.Stage{stage}, Play: glm.PlayUniform}
	arms := [][]float64{{1, 0}, {0.5, 0}, {-1, 0}} // of mean rewards .9997, .982 and .0003
	f := family.Logistic{}
	for _, c := range []struct {
		means bool
		want  []int
	}{{false, []int{0}}, {true, []int{0, 1}}} {
		p.Stages[0].Means = c.means
		if err := p.Validate(); err != nil { // its theta lies outside the ball, as estimates may
			t.Fatal(err)
		}
		if got, err := p.Eliminate(arms); err != nil || !slices.Equal(got, c.want) {
			t.Errorf("means %v: %v of %v, %v", c.means, got, []float64{f.Mean(8), f.Mean(4), f.Mean(-8)}, err)
		}
	}
	if p.Family = "none"; p.Validate() == nil {
		t.Error("a family that does not exist")
	}
	if _, err := p.Eliminate(arms); err == nil {
		t.Error("means of a family that does not exist")
	}
}

package glm_test

import (
	"encoding/json"
	"errors"
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

// drawPolicy makes a valid policy with stages around theta.
func drawPolicy(r *rapid.T, d int) *glm.Policy {
	p := &glm.Policy{Profile: glm.Practical, Family: "logistic", MaxReward: 1, Dimension: d, Radius: 3,
		Play: glm.PlayDesign}
	vector := func(name string) []float64 {
		v := rapid.SliceOfN(rapid.Float64Range(-1, 1), d, d).Draw(r, name)
		for j := range v {
			v[j] *= 3 / math.Sqrt(float64(d))
		}
		return v
	}
	p.Theta = vector("theta")
	for range rapid.IntRange(0, 4).Draw(r, "stages") {
		p.Stages = append(p.Stages, glm.Stage{Theta: vector("stage"), Covariance: drawCovariance(r, d),
			Width: rapid.Float64Range(0, 3).Draw(r, "width")})
	}
	if rapid.Bool().Draw(r, "some explore") {
		p.Explore = rapid.Float64Range(0, 1).Draw(r, "explore")
	}
	if len(p.Stages) > 0 {
		p.Scaling = &glm.Scaling{Stage: p.Stages[0], Diameter: 6, SelfConcordance: 1, MaxWeight: .25}
	}
	return p
}

// drawCovariance is B B' for a random B, possibly singular.
func drawCovariance(r *rapid.T, d int) symmetric.Packed {
	b := rapid.SliceOfN(rapid.Float64Range(-1, 1), d*d, d*d).Draw(r, "root")
	var m symmetric.Packed
	for i := range d {
		for j := i; j < d; j++ {
			v := 0.0
			for k := range d {
				v += b[i*d+k] * b[j*d+k]
			}
			m = append(m, v)
		}
	}
	return m
}

func drawArms(r *rapid.T, d int) [][]float64 {
	arms := make([][]float64, rapid.IntRange(1, 12).Draw(r, "arms"))
	for i := range arms {
		arms[i], _ = convex.ToUnitBall(rapid.SliceOfN(rapid.Float64Range(-1, 1), d, d).Draw(r, "arm"))
	}
	return arms
}

// Survivors are never empty, do not depend on the order of the arms, and only they are played.
func TestOnlySurvivorsArePlayed(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		d := rapid.IntRange(1, 5).Draw(r, "d")
		p := drawPolicy(r, d)
		if err := p.Validate(); err != nil {
			r.Fatal(err)
		}
		arms := drawArms(r, d)
		survivors, err := p.Eliminate(arms)
		if err != nil || len(survivors) == 0 {
			r.Fatalf("survivors %v, %v", survivors, err)
		}
		order := rapid.Permutation(indices(len(arms))).Draw(r, "order")
		shuffled := make([][]float64, len(arms))
		for i, a := range order {
			shuffled[i] = arms[a]
		}
		again, err := p.Eliminate(shuffled)
		if err != nil {
			r.Fatal(err)
		}
		for i, a := range again {
			again[i] = order[a]
		}
		slices.Sort(again)
		if !tied(arms, p) && !slices.Equal(survivors, again) {
			r.Fatalf("survivors %v, in another order %v", survivors, again)
		}
		src := rand.NewChaCha8([32]byte{1})
		decision, err := p.Decide(arms, src)
		if err != nil {
			r.Fatal(err)
		}
		if !slices.Contains(survivors, decision.Arm) || decision.Survivors != len(survivors) ||
			!(decision.Propensity > 0 && decision.Propensity <= 1) {
			r.Fatalf("%+v of survivors %v", decision, survivors)
		}
		if p.Scaling != nil {
			// s^2 <= w_max and s^2 <= mu'(x.theta_1).
			z := convex.Dot(arms[decision.Arm], p.Scaling.Theta)
			if w := decision.Weight; !(w >= 0 && w <= .25 && w <= (family.Logistic{}).Variance(z)) {
				r.Fatalf("weight %v at z = %v", w, z)
			}
		} else if decision.Weight != 1 {
			r.Fatalf("weight %v without scaling", decision.Weight)
		}
	})
}

// tied reports whether two arms have the same estimate in some stage, which makes the greedy arm ambiguous.
func tied(arms [][]float64, p *glm.Policy) bool {
	for _, s := range p.Stages {
		for i, x := range arms {
			for _, y := range arms[:i] {
				if math.Abs(convex.Dot(x, s.Theta)-convex.Dot(y, s.Theta)) < 1e-12 {
					return true
				}
			}
		}
	}
	return false
}

func indices(n int) []int {
	v := make([]int, n)
	for i := range v {
		v[i] = i
	}
	return v
}

// Width 0 leaves exactly the greedy arm of the stage; with theta_j = theta* the best arm survives at every width; and a
// stage whose confidence set holds theta* keeps it.
func TestEliminationKeepsTheBestArm(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		d := rapid.IntRange(1, 5).Draw(r, "d")
		p := drawPolicy(r, d)
		arms := drawArms(r, d)
		best := func(theta []float64) int {
			b := 0
			for i, x := range arms {
				if convex.Dot(x, theta) > convex.Dot(arms[b], theta) {
					b = i
				}
			}
			return b
		}
		zero := *p
		zero.Stages = []glm.Stage{{Theta: p.Theta, Covariance: drawCovariance(r, d), Width: 0}}
		survivors, err := zero.Eliminate(arms)
		if err != nil {
			r.Fatal(err)
		}
		for _, a := range survivors {
			if convex.Dot(arms[a], p.Theta) < convex.Dot(arms[best(p.Theta)], p.Theta) {
				r.Fatalf("width 0 left %v, best is %d", survivors, best(p.Theta))
			}
		}
		truth := *p
		truth.Stages = slices.Clone(p.Stages)
		for j := range truth.Stages {
			truth.Stages[j].Theta = p.Theta
		}
		survivors, err = truth.Eliminate(arms)
		if err != nil || !slices.Contains(survivors, best(p.Theta)) {
			r.Fatalf("theta_j = theta*: %v without %d, %v", survivors, best(p.Theta), err)
		}
		// theta* inside the confidence set: with covariance I, |x.(theta-theta*)| <= ||theta-theta*|| ||x||.
		held := *p
		held.Stages = slices.Clone(p.Stages)
		for j := range held.Stages {
			distance := 0.0
			for i, v := range held.Stages[j].Theta {
				distance += (v - p.Theta[i]) * (v - p.Theta[i])
			}
			held.Stages[j].Covariance, held.Stages[j].Width = identity(d), math.Sqrt(distance)*(1+1e-9)+1e-9
		}
		survivors, err = held.Eliminate(arms)
		if err != nil || !slices.Contains(survivors, best(p.Theta)) {
			r.Fatalf("theta* in every set: %v without %d, %v", survivors, best(p.Theta), err)
		}
	})
}

func identity(d int) symmetric.Packed {
	var m symmetric.Packed
	for i := range d {
		for j := i; j < d; j++ {
			v := 0.0
			if i == j {
				v = 1
			}
			m = append(m, v)
		}
	}
	return m
}

// At theta_1 = theta*, s^2 <= mu'(x.theta*), with equality if and only if the half-width is zero.
func TestScalingWeightStaysBelowTheVariance(t *testing.T) {
	family := family.Probit{}
	s := glm.Scaling{Stage: glm.Stage{Theta: []float64{1, -1}, Covariance: identity(2), Width: 0}, Diameter: 4,
		SelfConcordance: 2, MaxWeight: .4}
	x := []float64{.6, .3}
	z := convex.Dot(x, s.Theta)
	if w := s.Weight(family, x); w != family.Variance(z) {
		t.Errorf("width 0: %v, want %v", w, family.Variance(z))
	}
	s.Width = .5
	if w, want := s.Weight(family, x), family.Variance(z)*math.Exp(-2*.5*math.Hypot(.6, .3)); !scalar.EqualWithinAbs(w,
		want, 1e-15) {
		t.Errorf("width 0.5: %v, want %v", w, want)
	}
	s.Width = 1e6 // beta is capped by what the ball allows: exp(M_sc 2S)
	if w, want := s.Weight(family, x), family.Variance(z)*math.Exp(-8); !scalar.EqualWithinAbs(w, want, 1e-15) {
		t.Errorf("huge width: %v, want %v", w, want)
	}
	s.Width, s.MaxWeight = 0, .1
	if w := s.Weight(family, x); w != .1 {
		t.Errorf("weight %v above its bound", w)
	}
}

// The draw follows the design: 2e5 draws of a three-arm design with weights 1/3 each. False alarm below 1e-6 (4.9
// sigma, three arms); a bias of 0.6 % in one weight is caught with probability above 0.9.
func TestDecideFollowsTheDesign(t *testing.T) {
	p := &glm.Policy{Profile: glm.Practical, Family: "logistic", MaxReward: 1, Dimension: 2, Radius: 1,
		Theta: []float64{0, 0}, Play: glm.PlayDesign, DesignTolerance: 1e-9}
	arms := [][]float64{{.5, 0}, {0, .5}, {.5, .5}}
	src := rand.NewChaCha8([32]byte{7})
	const n = 200000
	var counts [3]float64
	for range n {
		d, err := p.Decide(arms, src)
		if err != nil {
			t.Fatal(err)
		}
		if !scalar.EqualWithinAbs(d.Propensity, 1.0/3, 1e-9) {
			t.Fatalf("%+v", d)
		}
		counts[d.Arm]++
	}
	for i, c := range counts {
		if math.Abs(c/n-1.0/3) > 4.9*math.Sqrt(2.0/9/n) {
			t.Errorf("arm %d drawn %v times of %d", i, c, n)
		}
	}
}

func TestDecideRefusesBadArmsAndPolicies(t *testing.T) {
	p := &glm.Policy{Profile: glm.Practical, Family: "logistic", MaxReward: 1, Dimension: 2, Radius: 3,
		Theta: []float64{1, 0}, Play: glm.PlayGreedy}
	src := rand.NewChaCha8([32]byte{})
	for name, c := range map[string]struct {
		arms [][]float64
		want error
	}{
		"none":      {nil, glm.ErrNoArms},
		"short":     {[][]float64{{1}}, glm.ErrBadArm},
		"ragged":    {[][]float64{{1, 0}, {1, 0, 0}}, glm.ErrBadArm},
		"NaN":       {[][]float64{{0, math.NaN()}}, glm.ErrBadArm},
		"infinite":  {[][]float64{{0, math.Inf(1)}}, glm.ErrBadArm},
		"dimension": {[][]float64{{1, 0, 0}}, glm.ErrBadArm},
	} {
		if _, err := p.Decide(c.arms, src); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
	// Arms longer than 1 are scaled down before they are compared, even those whose norm overflows, and the caller's
	// arms stay as they were.
	arms := [][]float64{{.9, 0}, {3, 4}, {math.MaxFloat64, math.MaxFloat64}}
	d, err := p.Decide(arms, src)
	if err != nil || d.Arm != 0 || d.Shortened != 2 || arms[1][0] != 3 {
		t.Errorf("%+v, %v, %v", d, err, arms)
	}
	if x, long := convex.ToUnitBall([]float64{3, 4}); !long || !scalar.EqualWithinAbs(x[0], .6, 1e-15) ||
		!scalar.EqualWithinAbs(x[1], .8, 1e-15) {
		t.Errorf("%v", x)
	}
	// A policy without its parts gives an error, not a panic.
	for name, broken := range map[string]glm.Policy{
		"play":  {Dimension: 2, Theta: []float64{0, 0}},
		"theta": {Dimension: 2, Play: glm.PlayGreedy},
		"stage": {Dimension: 2, Theta: []float64{0, 0}, Play: glm.PlayGreedy, Stages: []glm.Stage{{}}},
		"family": {Dimension: 2, Theta: []float64{0, 0}, Play: glm.PlayDesign, Family: "cauchy",
			Scaling: &glm.Scaling{Stage: glm.Stage{Theta: []float64{0, 0}, Covariance: identity(2)}}},
		"scaling": {Dimension: 2, Theta: []float64{0, 0}, Play: glm.PlayDesign, Family: "logistic", MaxReward: 1,
			Scaling: &glm.Scaling{}},
	} {
		if d, err := broken.Decide([][]float64{{.1, .2}, {.3, -.4}}, src); !errors.Is(err, glm.ErrPolicy) &&
			!errors.Is(err, glm.ErrBadArm) {
			t.Errorf("%s: %+v, %v", name, d, err)
		}
	}
}

// With any policy, valid or not, deciding gives a decision or an error.
func FuzzDecide(f *testing.F) {
	f.Add([]byte(`{"profile":"practical","family":"logistic","max_reward":1,"dimension":2,"radius":3,"theta":[1,2],
		"play":"design",
		"stages":[{"theta":[1,2],"covariance":[1,0,1],"width":1}],
		"scaling":{"theta":[1,2],"covariance":[1,0,1],"width":1,"diameter":6,"self_concordance":1,"max_weight":0.25}}`),
		.1, .2, .3, .4)
	f.Add([]byte(`{"dimension":2,"theta":[0,0],"play":"uniform",
		"stages":[{"covariance":[1e308,1e308,1e308],"theta":[1e308,1],"width":1e308}]}`), 1., 1., -1., 1e-300)
	f.Fuzz(func(t *testing.T, text []byte, a, b, c, d float64) {
		var p glm.Policy
		if json.Unmarshal(text, &p) != nil {
			return
		}
		valid := p.Validate() == nil
		decision, err := p.Decide([][]float64{{a, b}, {c, d}, {a, d}}, rand.NewChaCha8([32]byte{}))
		if err == nil && (decision.Arm < 0 || decision.Arm > 2 || !(decision.Propensity > 0)) {
			t.Errorf("%+v", decision)
		}
		finite := true
		for _, v := range []float64{a, b, c, d} {
			finite = finite && !math.IsNaN(v) && !math.IsInf(v, 0)
		}
		if valid && finite && p.Dimension == 2 && err != nil && !errors.Is(err, design.ErrNotCertified) {
			t.Errorf("a valid policy refused: %v", err)
		}
	})
}

func BenchmarkDecide(b *testing.B) {
	src := rand.NewChaCha8([32]byte{1})
	env, err := family.NewBallEnvironment(family.Logistic{}, 5, 10, 3, src)
	if err != nil {
		b.Fatal(err)
	}
	sets := make([][][]float64, 256)
	for i := range sets {
		sets[i] = env.Draw(src)
	}
	stage := glm.Stage{Theta: env.Theta, Covariance: identity(5), Width: .5}
	for name, p := range map[string]glm.Policy{
		"warmup": {Play: glm.PlayDesign, DesignTolerance: .01},
		"later": {Play: glm.PlayDesign, DesignTolerance: .2, Stages: []glm.Stage{stage},
			Scaling: &glm.Scaling{Stage: stage, Diameter: 6, SelfConcordance: 1, MaxWeight: .25}},
		"greedy": {Play: glm.PlayGreedy},
	} {
		p.Family, p.MaxReward, p.Dimension, p.Radius, p.Theta = "logistic", 1, 5, 3, env.Theta
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				if _, err := p.Decide(sets[i%len(sets)], src); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

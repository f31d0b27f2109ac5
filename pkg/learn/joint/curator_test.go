package joint_test

import (
	"encoding/json"
	"errors"
	"math"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/riffle-dp/riffle/pkg/convex"
	"github.com/riffle-dp/riffle/pkg/glm/family"
	"github.com/riffle-dp/riffle/pkg/glm/symmetric"
	"github.com/riffle-dp/riffle/pkg/learn"
	"github.com/riffle-dp/riffle/pkg/learn/joint"
	"github.com/riffle-dp/riffle/pkg/mechanism"
	"github.com/riffle-dp/riffle/pkg/protocol"
)

// What leaves is a function of released matrices and noise where the records themselves are too short to show: if one
// of them explores or not, calls come at the same times, with the same number of steps, the same step sizes and the
// same noise. Arms of length 1e-9 vanish in the grids, so that the worlds differ in nothing but who explored; then all
// releases are equal to the last bit. A call that a raw context triggers, a zero leaf that is not pushed, or a step
// that depends on the number of rows, breaks it.
func TestWhoExploresShowsInNothing(t *testing.T) {
	run := func(flipped int) (all []joint.Release, draws []joint.Draw) {
		s := small(11)
		s.Options = map[string]float64{"ridge": 0.7, "explore_calls": 40, "calls": 40, "iterations": 3}
		c := resolve(t, s, 1)
		curator, rng := joint.NewCurator(c, s.Noise), rand.New(rand.NewPCG(7, 8))
		curator.Watch(func(d joint.Draw) { draws = append(draws, d) })
		for i := range s.Horizon {
			r := records(rng, 1, 2, 1e-9)
			if i == flipped {
				r[0].Tag = 1 - r[0].Tag
			}
			release, err := curator.Absorb(r)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, release)
		}
		return all, draws
	}
	base, draws := run(-1)
	calls := map[string]int{}
	for _, d := range draws {
		calls[d.What]++
	}
	if calls["first"] == 0 || calls["second"] == 0 || calls["first"] >= 40*3 || calls["second"] >= 40*3 {
		t.Fatalf("the noise triggers %v iterations, want some of both kinds", calls)
	}
	for flipped := range 20 {
		if other, also := run(flipped); !reflect.DeepEqual(base, other) || !reflect.DeepEqual(draws, also) {
			t.Errorf("person %d's exploring shows", flipped)
		}
	}
}

// In the literal variant it shows at once: this is the gap.
func TestLiteralShowsWhoExplores(t *testing.T) {
	calls := func(tag int) (first int) {
		s := small(11)
		s.Variant, s.Options = joint.Literal, nil
		curator := joint.NewCurator(resolve(t, s, 1), s.Noise)
		curator.Watch(func(d joint.Draw) {
			if d.What == "first" {
				first++
			}
		})
		if _, err := curator.Absorb([]learn.Record{{Arm: []float64{1e-9, 0}, Tag: tag}}); err != nil {
			t.Fatal(err)
		}
		return first
	}
	if calls(0) != 0 || calls(learn.Explored) == 0 {
		t.Error("the listing refits exactly when a person explores")
	}
}

// none has no random words: whoever asks for some fails the test.
type none struct{ t *testing.T }

func (n none) Uint64() uint64 {
	n.t.Error("noise was drawn")
	return 0
}

// A curator that was built again from the records and the releases is the same curator, and everyone who has the
// releases has the same state and policy.
func TestReplayDrawsNothingAndGivesTheSameState(t *testing.T) {
	for _, variant := range []string{joint.Sound, joint.Proof, joint.Literal} {
		s := small(13)
		s.Variant = variant
		c := resolve(t, s, 2)
		rng := rand.New(rand.NewPCG(9, 1))
		curator, public := joint.NewCurator(c, s.Noise), c.Begin()
		again := joint.NewCurator(c, none{t})
		for i := range c.Leaves() {
			batch := records(rng, 2, 2, 1)
			release, err := curator.Absorb(batch)
			if err != nil {
				t.Fatal(err)
			}
			if release, err = c.ParseRelease(release.Values()); err != nil {
				t.Fatal(err)
			}
			if err = again.Replay(batch, release); err != nil {
				t.Fatal(err)
			}
			if public, err = c.Apply(public, release); err != nil {
				t.Fatal(err)
			}
			text, err := json.Marshal(public)
			if err != nil {
				t.Fatal(err)
			}
			public = joint.State{}
			if err := json.Unmarshal(text, &public); err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(again.State(), curator.State()) {
				t.Fatalf("%s: after micro-batch %d the states differ", variant, i+1)
			}
			p, err := c.Policy(public)
			if err != nil || p.Validate() != nil && variant != joint.Literal {
				t.Fatalf("%s: policy: %v, %v", variant, err, p.Validate())
			}
			own, err := c.Policy(curator.State())
			if err != nil || !reflect.DeepEqual(p, own) {
				t.Fatalf("%s: after micro-batch %d the policies differ: %v", variant, i+1, err)
			}
		}
	}
}

func TestForeignReleasesAreRefused(t *testing.T) {
	c := resolve(t, small(15), 1)
	good := joint.Release{V: make([]int64, 3), H: make([]int64, 3), First: make([]int64, 2), Second: make([]int64, 2)}
	if _, err := c.Apply(c.Begin(), good); err != nil {
		t.Fatal(err)
	}
	for name, r := range map[string]joint.Release{
		"a short node": {V: good.V[:2], H: good.H, First: good.First, Second: good.Second},
		"no estimate":  {V: good.V, H: good.H, Second: good.Second},
		"a long one":   {V: good.V, H: []int64{1 << 40, 0, 0}, First: good.First, Second: []int64{1 << 40, 0}},
		"one not due":  {V: good.V, H: good.H, First: good.First, Second: []int64{1, 0}},
	} {
		if _, err := c.Apply(c.Begin(), r); !errors.Is(err, joint.ErrRelease) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, values := range [][]float64{nil, {0, 0, 0, 0, 0, 0, 0, 0, 0, 0.5}, {0, 0, 0, 0, 0, 0, 0, 0, 0, math.NaN()}} {
		if _, err := c.ParseRelease(values); !errors.Is(err, joint.ErrRelease) {
			t.Errorf("%v: %v", values, err)
		}
	}
	curator := joint.NewCurator(c, none{t})
	for _, r := range [][]learn.Record{{{Arm: []float64{1}}}, {{Arm: []float64{1, math.NaN()}}}, {{Arm: []float64{1, 0},
		Times: 2}}, make([]learn.Record, 2)} {
		if _, err := curator.Absorb(r); !errors.Is(err, joint.ErrRelease) {
			t.Errorf("%v: %v", r, err)
		}
	}
}

// A state whose matrix is singular has no policy, and the error says why.
func TestASingularStateHasNoPolicy(t *testing.T) {
	c := resolve(t, small(15), 1)
	s := c.Begin()
	s.V = make(symmetric.Packed, len(s.V))
	_, err := c.Policy(s)
	if !errors.Is(err, joint.ErrRelease) || !strings.HasSuffix(err.Error(), "its smallest eigenvalue is 0") {
		t.Error(err)
	}
}

// Criterion II asks about directions, not about determinants, and not about coordinates.
func TestSwitchAsksAboutDirections(t *testing.T) {
	one := symmetric.Packed{1, 0, 0, 1, 0, 1}
	for _, c := range []struct {
		m    symmetric.Packed
		want bool
	}{{symmetric.Packed{2.1, 0, 0, 1, 0, 1}, true}, {symmetric.Packed{1.99, 0, 0, 1.99, 0, 1.99}, false}} {
		if got, err := joint.Exceeds(c.m, one, 2, 3); err != nil || got != c.want {
			t.Errorf("%v: %v, %v", c.m, got, err)
		}
		a := mat.NewDense(3, 3, []float64{2, 1, 0, 0, 3, 1, 1, 0, 1})
		moved := func(m symmetric.Packed) symmetric.Packed {
			var out mat.Dense
			out.Product(a.T(), m.Dense(3), a)
			s := mat.NewSymDense(3, nil)
			for i := range 3 {
				for j := i; j < 3; j++ {
					s.SetSym(i, j, out.At(i, j))
				}
			}
			return symmetric.Pack(s)
		}
		if got, err := joint.Exceeds(moved(c.m), moved(one), 2, 3); err != nil || got != c.want {
			t.Errorf("in other coordinates %v: %v, %v", c.m, got, err)
		}
	}
}

// Without noise, descent finds what Newton's method finds; its iterates stay in their set.
func TestDescentFindsTheMinimum(t *testing.T) {
	if testing.Short() {
		t.Skip("nothing of it runs at the same time as anything else")
	}
	rng := rand.New(rand.NewPCG(11, 12))
	var rows []joint.Row
	var arms [][]float64
	var rewards []float64
	for range 1000 {
		x := records(rng, 1, 3, rng.Float64())[0].Arm
		reward := 0.0
		if rng.Float64() < (family.Logistic{}).Mean(2*x[0]-x[1]) {
			reward = 1
		}
		rows, arms, rewards = append(rows, joint.Row{Arm: x, Reward: reward}), append(arms, x), append(rewards, reward)
	}
	loss, err := convex.NewGLMLoss(family.Logistic{}, 3, arms, rewards, 1)
	if err != nil {
		t.Fatal(err)
	}
	for _, radius := range []float64{5, 1} {
		want, err := convex.Minimize(loss, convex.NewtonConfig{Radius: radius})
		if err != nil {
			t.Fatal(err)
		}
		d := joint.Descent{Family: family.Logistic{}, Start: make([]float64, 3), Set: convex.Ball{Radius: radius},
			Iterations: 600, Skip: 500, Ridge: 1, Step: func(int) float64 { return 1.0 / 75 },
			Noise: func([]float64) (mechanism.Noise, error) { return mechanism.None{}, nil }}
		theta, err := d.Run(rows, nil)
		if err != nil || convex.Norm(theta) > radius*(1+1e-12) {
			t.Fatal(theta, err)
		}
		for j := range theta {
			if math.Abs(theta[j]-want.Theta[j]) > 1e-3 {
				t.Fatalf("radius %v: descent finds %v, Newton %v", radius, theta, want.Theta)
			}
		}
	}
}

// A learner asks for one record at a time, and plays optimistically; without privacy there is no noise and all works.
func TestLearnerRuns(t *testing.T) {
	for _, epsilon := range []float64{2, math.Inf(1)} {
		s := small(17)
		s.Epsilon, s.Options = epsilon, nil
		l, err := joint.NewLearner(s)
		if err != nil {
			t.Fatal(err)
		}
		rng := rand.New(rand.NewPCG(13, 14))
		var source protocol.Source = rand.NewPCG(1, 1)
		for range s.Horizon {
			step := l.Next()
			choice, err := step.Policy.Decide([][]float64{{0.5, 0}, {0, 1}}, source)
			if err != nil || step.Question.Form != learn.Records || step.Question.People != 1 ||
				choice.Propensity != 1 {
				t.Fatalf("%+v, %v", choice, err)
			}
			r := records(rng, 1, 2, 1)
			r[0].Tag = choice.Tag
			if err := l.Absorb(learn.Answer{People: 1, Records: r}); err != nil {
				t.Fatal(err)
			}
		}
		if !l.Next().Done {
			t.Error("asks on")
		}
		l.Close()
	}
}

// Without noise the released matrices are lambda I plus x x' of those who explored, and mu'(x.theta_o)/e x x' of the
// others, whatever the micro-batches are.
func TestReleasedMatricesAreTheSums(t *testing.T) {
	s := small(19)
	s.Epsilon = math.Inf(1)
	c := resolve(t, s, 3)
	curator, rng := joint.NewCurator(c, nil), rand.New(rand.NewPCG(15, 16))
	v, h := []float64{c.LambdaV, 0, c.LambdaV}, []float64{c.LambdaH, 0, c.LambdaH}
	for range c.Leaves() {
		batch := records(rng, 3, 2, 0.9)
		theta := curator.State().First
		for _, r := range batch {
			m, w := v, 1.0
			if r.Tag != learn.Explored {
				m, w = h, s.Family.Variance(convex.Dot(r.Arm, theta))/math.E
			}
			for k, x := range []float64{r.Arm[0] * r.Arm[0], r.Arm[0] * r.Arm[1], r.Arm[1] * r.Arm[1]} {
				m[k] += w * x
			}
		}
		if _, err := curator.Absorb(batch); err != nil {
			t.Fatal(err)
		}
	}
	for k := range v {
		if st := curator.State(); math.Abs(st.V[k]-v[k]) > 1e-6 || math.Abs(st.H[k]-h[k]) > 1e-6 {
			t.Fatalf("V %v, want %v; H %v, want %v", st.V, v, st.H, h)
		}
	}
	if convex.Norm(curator.State().First) == 0 {
		t.Error("theta_o was never estimated")
	}
}

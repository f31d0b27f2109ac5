package glm_test

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/riffle-dp/riffle/pkg/convex"
	"github.com/riffle-dp/riffle/pkg/glm"
	"github.com/riffle-dp/riffle/pkg/glm/design"
	"github.com/riffle-dp/riffle/pkg/glm/family"
	"github.com/riffle-dp/riffle/pkg/glm/learner"
	"github.com/riffle-dp/riffle/pkg/glm/symmetric"
)

// choicePolicies are policies of every play, with and without a control group, caution and stages.
func choicePolicies() map[string]*glm.Policy {
	theta := []float64{1, -1, 0.5}
	covariance := symmetric.Pack(mat.NewDiagDense(3, []float64{0.3, 0.2, 0.4}))
	stage := glm.Stage{Theta: theta, Covariance: covariance, Width: 0.6}
	out := map[string]*glm.Policy{}
	for _, play := range []glm.Play{glm.PlayDesign, glm.PlayGreedy, glm.PlayUniform, glm.PlayDefault,
		glm.PlayOptimistic, glm.PlaySampled, glm.PlaySpanner, glm.PlayInverseGap} {
		for _, control := range []float64{0, 0.2} {
			for _, caution := range []float64{0, 0.5, 50} {
				p := &glm.Policy{Profile: glm.Practical, Family: "logistic", MaxReward: 1, Dimension: 3, Radius: 3,
					Theta: theta, Play: play, DesignTolerance: 0.1, Control: control, Caution: caution}
				switch play {
				case glm.PlayDesign:
					p.Stages, p.Explore = []glm.Stage{stage}, 0.3
					p.Scaling = &glm.Scaling{Stage: stage, Diameter: 6, SelfConcordance: 1, MaxWeight: 0.25}
				case glm.PlaySampled:
					p.Stages, p.Explore = []glm.Stage{stage}, 0.7
					p.Draws = [][]float64{{1, -1, 0.5}, {0, 1, 1}, {-1, -2, 0}, {2, 0.1, -1}, {0.2, -0.4, -1.5}}
					p.Scaling = &glm.Scaling{Stage: stage, Diameter: 6, SelfConcordance: 1, MaxWeight: 0.25}
				case glm.PlaySpanner:
					p.Stages, p.Explore = []glm.Stage{stage}, 0.4
					p.Scaling = &glm.Scaling{Stage: stage, Diameter: 6, SelfConcordance: 1, MaxWeight: 0.25}
				case glm.PlayInverseGap:
					p.Stages, p.Gamma = []glm.Stage{stage}, 8
					p.Scaling = &glm.Scaling{Stage: stage, Diameter: 6, SelfConcordance: 1, MaxWeight: 0.25}
				case glm.PlayGreedy:
					p.Scaling = &glm.Scaling{Stage: stage, Diameter: 6, SelfConcordance: 1, MaxWeight: 0.25}
				case glm.PlayOptimistic:
					if p.Optimism = &stage; caution > 0 {
						p.Criterion = &glm.Criterion{Covariance: covariance, Threshold: 1e3}
					}
				}
				out[fmt.Sprintf("%s control %v caution %v", play, control, caution)] = p
			}
		}
	}
	return out
}

// expected is the probability of every arm of a set without exclusions, by the words of Policy and Choice.
func expected(t *testing.T, p *glm.Policy, arms [][]float64, fallback int, unrecorded bool) []float64 {
	t.Helper()
	value := func(a int) float64 { return convex.Dot(arms[a], p.Theta) }
	treated := make([]float64, len(arms))
	greedy := 0
	for a := range arms {
		if value(a) > value(greedy) {
			greedy = a
		}
	}
	safe := greedy
	difference := make([]float64, len(arms[0]))
	for j := range difference {
		difference[j] = arms[greedy][j] - arms[fallback][j]
	}
	gain := value(greedy) - value(fallback)
	if p.Scaling != nil && p.Caution > 0 && gain <= p.Caution*math.Sqrt(p.Scaling.Covariance.Form(difference)) {
		safe = fallback
	}
	switch p.Play {
	case glm.PlayDefault:
		treated[fallback] = 1
	case glm.PlayUniform:
		for a := range arms {
			treated[a] = 1 / float64(len(arms))
		}
	case glm.PlayOptimistic:
		if unrecorded {
			if treated[greedy] = 1; p.Caution > 0 || !(gain > 0) { // without a scaling nothing is sure
				treated[greedy], treated[fallback] = 0, 1
			}
			break
		}
		best := 0
		upper := func(a int) float64 { return value(a) + p.Optimism.HalfWidth(arms[a]) }
		for a := range arms {
			if upper(a) > upper(best) {
				best = a
			}
		}
		treated[best] = 1
	case glm.PlayGreedy:
		treated[safe] = 1
	case glm.PlaySampled:
		explore := p.Explore
		if unrecorded {
			explore = 0
		}
		survivors, err := p.Eliminate(arms)
		if err != nil {
			t.Fatal(err)
		}
		for _, draw := range p.Draws {
			best := survivors[0]
			for _, a := range survivors {
				if convex.Dot(arms[a], draw) > convex.Dot(arms[best], draw) {
					best = a
				}
			}
			treated[best] += explore / float64(len(p.Draws))
		}
		treated[safe] += 1 - explore
	case glm.PlaySpanner, glm.PlayInverseGap:
		survivors, err := p.Eliminate(arms)
		if err != nil {
			t.Fatal(err)
		}
		clipped := func(a int) float64 { return math.Max(-1, math.Min(value(a), 1)) }
		var left [][]float64
		rest := 1.0
		for _, a := range survivors {
			left = append(left, arms[a])
			if p.Play == glm.PlayInverseGap && !unrecorded {
				treated[a] = 1 / (float64(len(survivors)) + p.Gamma*(clipped(greedy)-clipped(a)))
				rest -= treated[a]
			}
		}
		if p.Play == glm.PlaySpanner && !unrecorded {
			picked, err := design.Spanner(left, design.Options{Tolerance: p.DesignTolerance})
			if err != nil {
				t.Fatal(err)
			}
			for _, i := range picked {
				treated[survivors[i]] = p.Explore / float64(len(picked))
			}
			rest = 1 - p.Explore
		}
		treated[safe] += rest
	case glm.PlayDesign:
		explore := p.Explore
		if unrecorded {
			explore = 0
		}
		survivors, err := p.Eliminate(arms)
		if err != nil {
			t.Fatal(err)
		}
		var scaled [][]float64
		for _, a := range survivors {
			row := make([]float64, len(arms[a]))
			for j, v := range arms[a] {
				row[j] = v * math.Sqrt(p.Scaling.Weight(family.Logistic{}, arms[a]))
			}
			scaled = append(scaled, row)
		}
		weights, _, err := design.Optimal(scaled, design.Options{Tolerance: p.DesignTolerance})
		if err != nil {
			t.Fatal(err)
		}
		for i, a := range survivors {
			treated[a] = explore * weights[i]
		}
		treated[safe] += 1 - explore
	}
	if p.Control > 0 && !unrecorded {
		for a := range treated {
			treated[a] *= 1 - p.Control
		}
		treated[fallback] += p.Control
	}
	return treated
}

// Every arm is played with the probability that the policy's words give it: with a control group, with caution, with
// exclusions, and for decisions that nobody learns from. The decision's propensity is the total probability of its arm,
// however it came about, and the control group has its share and plays the default alone.
//
// 6000 decisions each are within 5 standard errors: with some 1500 frequencies false alarms have probability below
// 1e-3, and a probability of 0.2 that is off by 0.06 is found with probability 0.999. Propensities are compared
// exactly.
func TestChoicesHaveTheirProbabilities(t *testing.T) {
	src := rand.NewChaCha8([32]byte{17})
	env, err := family.NewBallEnvironment(family.Logistic{}, 3, 7, 2, src)
	if err != nil {
		t.Fatal(err)
	}
	cautious, eliminated := 0, 0
	for name, p := range choicePolicies() {
		if err := p.Validate(); err != nil {
			t.Fatal(err)
		}
		for i, c := range []glm.Choice{{}, {Default: 3}, {Default: 2, Excluded: []int{1, 4, 1}}, {Default: 5,
			Excluded: []int{5, 0}}, {Default: 6, Unrecorded: true}} {
			arms := env.Draw(src)
			out := map[int]bool{}
			for _, a := range c.Excluded {
				out[a] = true
			}
			var left [][]float64
			var index []int
			fallback := 0
			for a, x := range arms {
				if out[a] {
					continue
				}
				if a == c.Default {
					fallback = len(left)
				}
				left, index = append(left, x), append(index, a)
			}
			want := make([]float64, len(arms))
			for a, v := range expected(t, p, left, fallback, c.Unrecorded) {
				want[index[a]] = v
			}
			if p.Play == glm.PlayDesign && p.Caution > 10 && want[index[fallback]] > 0.6 {
				cautious++
				if kept, _ := p.Eliminate(left); len(kept) < len(left) {
					eliminated++
				}
			}
			got, err := p.ProbabilitiesFor(arms, c)
			if err != nil {
				t.Fatal(err)
			}
			for a := range want {
				if math.Abs(got[a]-want[a]) > 1e-9 || out[a] && got[a] != 0 {
					t.Errorf("%s, choice %d: arm %d has probability %v, want %v", name, i, a, got[a], want[a])
				}
			}
			draws := 6000
			if testing.Short() {
				draws = 200
			}
			counts, control := make([]float64, len(arms)), 0.0
			for range draws {
				d, err := p.DecideFor(arms, c, src)
				if err != nil {
					t.Fatal(err)
				}
				counts[d.Arm]++
				if d.Control {
					control++
				}
				if d.Control && d.Arm != index[fallback] || math.Abs(d.Propensity-got[d.Arm]) > 1e-12 {
					t.Fatalf("%s, choice %d: %+v, probabilities %v", name, i, d, got)
				}
				if p.Play == glm.PlayGreedy && d.Weight != p.Scaling.Weight(family.Logistic{}, arms[d.Arm]) {
					t.Fatalf("%s: weight %v of arm %d", name, d.Weight, d.Arm)
				}
			}
			n := float64(draws)
			near := func(count, p float64) bool { return math.Abs(count-n*p) <= 5*math.Sqrt(n*p*(1-p))+1e-9 }
			for a := range counts {
				if !near(counts[a], want[a]) {
					t.Errorf("%s, choice %d: arm %d was played %v times of %d, probability %v", name, i, a, counts[a],
						draws,
						want[a])
				}
			}
			share := p.Control
			if c.Unrecorded {
				share = 0
			}
			if !near(control, share) {
				t.Errorf("%s, choice %d: %v of %d in the control group of %v", name, i, control, draws, share)
			}
		}
	}
	if cautious == 0 || eliminated == 0 {
		t.Errorf("%d cautious policies, %d with an eliminated arm: the test is blind", cautious, eliminated)
	}
}

// Before anything is known, a cautious policy plays the default but for its explorers, and a decision that nobody
// learns from gets the default of any policy.
func TestCautionBeforeAnythingIsKnown(t *testing.T) {
	src := rand.NewChaCha8([32]byte{18})
	env, err := family.NewBallEnvironment(family.Logistic{}, 3, 5, 2, src)
	if err != nil {
		t.Fatal(err)
	}
	arms := env.Draw(src)
	for name, c := range map[string]struct {
		tune    learner.PracticalConfig
		choice  glm.Choice
		explore float64
	}{
		"cautious":         {learner.PracticalConfig{Caution: 1}, glm.Choice{Default: 3}, learner.DefaultExplorerShare},
		"wary":             {learner.PracticalConfig{Caution: 1, ExplorerShare: 0.05}, glm.Choice{Default: 3}, 0.05},
		"nobody explores":  {learner.PracticalConfig{Caution: 1, ExplorerShare: -1}, glm.Choice{Default: 3}, 0},
		"no record":        {learner.PracticalConfig{}, glm.Choice{Default: 3, Unrecorded: true}, 0},
		"everybody, as is": {learner.PracticalConfig{}, glm.Choice{Default: 3}, 1},
	} {
		c.tune.Panel = 100
		l, err := learner.New(learner.Config{Dimension: 3, Horizon: 3000, Practical: c.tune})
		if err != nil {
			t.Fatal(err)
		}
		step := l.Next()
		got, err := step.Policy.ProbabilitiesFor(arms, c.choice)
		if err != nil {
			t.Fatal(err)
		}
		explored := 0.0
		for a, v := range got {
			if a != 3 {
				explored += v
			}
		}
		if explored > c.explore || c.explore > 0 && explored < c.explore/3 {
			t.Errorf("%s: explores with probability %v, want about %v", name, explored, c.explore)
		}
	}
}

func TestChoicesThatCannotBeMade(t *testing.T) {
	p := choicePolicies()["greedy control 0.2 caution 0.5"]
	arms := [][]float64{{1, 0, 0}, {0, 1, 0}}
	for name, c := range map[string]struct {
		choice glm.Choice
		want   error
	}{
		"default":           {glm.Choice{Default: 2}, glm.ErrBadArm},
		"negative default":  {glm.Choice{Default: -1}, glm.ErrBadArm},
		"exclusion":         {glm.Choice{Excluded: []int{2}}, glm.ErrBadArm},
		"negative":          {glm.Choice{Excluded: []int{-1}}, glm.ErrBadArm},
		"nothing is left":   {glm.Choice{Excluded: []int{1, 0}}, glm.ErrNoArms},
		"the only one left": {glm.Choice{Excluded: []int{0}}, nil},
	} {
		d, err := p.DecideFor(arms, c.choice, rand.NewChaCha8([32]byte{}))
		if !errors.Is(err, c.want) || err == nil && (d.Arm != 1 || d.Propensity != 1) {
			t.Errorf("%s: %+v, %v", name, d, err)
		}
		if _, err = p.ProbabilitiesFor(arms, c.choice); !errors.Is(err, c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

package replay_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/riffle-dp/riffle/internal/play"
	"github.com/riffle-dp/riffle/internal/population/decisions"
	"github.com/riffle-dp/riffle/pkg/convex"
	"github.com/riffle-dp/riffle/pkg/glm"
	"github.com/riffle-dp/riffle/pkg/glm/family"
	"github.com/riffle-dp/riffle/pkg/glm/learner"
)

// world is people with options, of whom a policy of the log decides.
type world struct {
	family string // logistic: rewards 0 and 1; linear: -1 and 1
	draw   func(src *rand.ChaCha8) [][]float64
	means  func(arms [][]float64) []float64 // of the rewards of each arm
	logged func(arms [][]float64) []float64 // probability with which the log's policy plays each arm
}

// newWorld has arms in the unit ball and a parameter of this norm. The log's policy is uniform.
func newWorld(t testing.TB, name string, dim, arms int, norm float64) world {
	t.Helper()
	f, err := family.New(name, 1)
	if err != nil {
		t.Fatal(err)
	}
	env, err := family.NewBallEnvironment(f, dim, arms, norm, rand.NewChaCha8([32]byte{7}))
	if err != nil {
		t.Fatal(err)
	}
	return world{name, func(src *rand.ChaCha8) [][]float64 { return env.Draw(src) }, env.Means, uniform}
}

// fixed has the same arms for everybody, apart by this gap of the means around this middle: a policy plays one of them
// for all.
func fixed(middle, gap float64) world {
	arms := [][]float64{{0.7, 0.7, 0}, {0.7, 0, 0.7}}
	return world{"logistic", func(*rand.ChaCha8) [][]float64 { return arms },
		func([][]float64) []float64 { return []float64{middle - gap/2, middle + gap/2} }, uniform}
}

// rare has rewards of 5 % on average, from a constant and two numbers.
func rare() world {
	w := world{family: "logistic", logged: uniform, draw: func(src *rand.ChaCha8) [][]float64 {
		arms, r := make([][]float64, 2), rand.New(src)
		for a := range arms {
			arms[a] = []float64{0.7, r.Float64() - 0.5, r.Float64() - 0.5}
		}
		return arms
	}}
	w.means = func(arms [][]float64) (m []float64) {
		for _, x := range arms {
			m = append(m, 1/(1+math.Exp(3.1-2.5*x[1])))
		}
		return m
	}
	return w
}

// bent has rewards that no generalised linear model fits: a middle is best. Their means are .07 to .8.
func bent() world {
	w := world{family: "logistic", logged: uniform, draw: func(src *rand.ChaCha8) [][]float64 {
		arms, r := make([][]float64, 3), rand.New(src)
		for a := range arms {
			arms[a] = []float64{0.5, 1.4 * (r.Float64() - 0.5), 0.4 * (r.Float64() - 0.5)}
		}
		return arms
	}}
	w.means = func(arms [][]float64) (m []float64) {
		for _, x := range arms {
			m = append(m, 0.8-0.9*(x[1]-0.2)*(x[1]-0.2))
		}
		return m
	}
	return w
}

func uniform(arms [][]float64) []float64 {
	p := make([]float64, len(arms))
	for a := range p {
		p[a] = 1 / float64(len(arms))
	}
	return p
}

// greedy plays arm 0, and each other one with probability 0.1.
func greedy(arms [][]float64) []float64 {
	p := uniform(arms)
	for a := range p {
		p[a] = 0.1
	}
	p[0] = 1 - 0.1*float64(len(arms)-1)
	return p
}

// ranked prefers arms by the rank of their first number: each half as often as the one before it, as a softmax of ranks
// does.
func ranked(arms [][]float64) []float64 {
	p, sum := uniform(arms), 0.0
	for a, x := range arms {
		p[a] = 1
		for _, other := range arms {
			if other[0] > x[0] {
				p[a] /= 2.5
			}
		}
		sum += p[a]
	}
	for a := range p {
		p[a] /= sum
	}
	return p
}

func (w world) loggedBy(policy func([][]float64) []float64) world {
	w.logged = policy
	return w
}

func (w world) reward(mean float64, r *rand.Rand) float64 {
	if w.family == "linear" {
		return 2*w.coin((1+mean)/2, r) - 1
	}
	return w.coin(mean, r)
}

func (world) coin(chance float64, r *rand.Rand) float64 {
	if !(chance >= 0 && chance <= 1) { // the rewards would not have the means that the world says
		panic(fmt.Sprintf("a chance of %v", chance))
	}
	if r.Float64() < chance {
		return 1
	}
	return 0
}

func (w world) log(n int, src *rand.ChaCha8) (log []decisions.Decision) {
	r := rand.New(src)
	for range n {
		arms := w.draw(src)
		p, u, arm := w.logged(arms), r.Float64(), 0
		for u >= p[arm] && arm < len(p)-1 {
			u -= p[arm]
			arm++
		}
		log = append(log, decisions.Decision{Arms: arms, Arm: arm, Propensity: p[arm],
			Reward: w.reward(w.means(arms)[arm], r)})
	}
	return log
}

// played is what the log's policy earns, with its standard error.
func (w world) played() (mean, se float64) {
	src, all := rand.NewChaCha8([32]byte{11}), make([]float64, 200_000)
	for i := range all {
		arms := w.draw(src)
		all[i] = convex.Dot(w.logged(arms), w.means(arms))
	}
	return play.MeanAndError(all)
}

// live runs a deployment, with luck of its own.
func (w world) live(t testing.TB, c learner.Config, trust play.Trust, luck [32]byte) (learning, last float64) {
	src := rand.NewChaCha8(luck)
	r := rand.New(src)
	b, err := play.NewBatched(c, trust, src, src)
	if err != nil {
		t.Fatal(err)
	}
	for range c.Horizon {
		arms := w.draw(src)
		means := w.means(arms)
		a, err := b.Choose(arms)
		if err != nil {
			t.Fatal(err)
		}
		learning += means[a] / float64(c.Horizon)
		if err := b.Learn(w.reward(means[a], r)); err != nil {
			t.Fatal(err)
		}
	}
	p, err := b.FinalPolicy()
	if err != nil {
		t.Fatal(err)
	}
	const fresh = 500
	for range fresh {
		arms := w.draw(src)
		q, err := p.ProbabilitiesFor(arms, glm.Choice{Unrecorded: true})
		if err != nil {
			t.Fatal(err)
		}
		last += convex.Dot(q, w.means(arms)) / fresh
	}
	return learning, last
}

package replay_test

import (
	"math/rand/v2"
	"testing"

	"github.com/riffle-dp/riffle/internal/play"
	"github.com/riffle-dp/riffle/internal/population/decisions"
	"github.com/riffle-dp/riffle/pkg/convex"
	"github.com/riffle-dp/riffle/pkg/glm"
	"github.com/riffle-dp/riffle/pkg/glm/family"
	"github.com/riffle-dp/riffle/pkg/glm/learner"
)

// world is people with a context, of whom each option has a score of its own.
type world struct {
	env   family.Environment
	arms  int
	greed float64 // share of decisions in which the log plays its favourite, arm 0
}

func newWorld(t testing.TB, dim, arms int, norm, greed float64) world {
	t.Helper()
	f, err := family.New("logistic", 1)
	if err != nil {
		t.Fatal(err)
	}
	env, err := family.NewBallEnvironment(f, dim, arms, norm, rand.NewChaCha8([32]byte{7}))
	if err != nil {
		t.Fatal(err)
	}
	return world{*env, arms, greed}
}

func (w world) draw(src *rand.ChaCha8) ([][]float64, []float64) {
	arms := w.env.Draw(src)
	return arms, w.env.Means(arms)
}

func (w world) log(n int, src *rand.ChaCha8) (log []decisions.Decision) {
	r := rand.New(src)
	for range n {
		arms, means := w.draw(src)
		d := decisions.Decision{Arms: arms, Arm: r.IntN(w.arms), Propensity: (1 - w.greed) / float64(w.arms)}
		if r.Float64() < w.greed {
			d.Arm = 0
		}
		if d.Arm == 0 {
			d.Propensity += w.greed
		}
		if r.Float64() < means[d.Arm] {
			d.Reward = 1
		}
		log = append(log, d)
	}
	return log
}

// live runs a deployment.
func (w world) live(t testing.TB, c learner.Config, trust play.Trust, number int) (learning, last float64) {
	key := [32]byte{9, byte(number), byte(number >> 8), byte(number >> 16)}
	src := rand.NewChaCha8(key)
	r := rand.New(src)
	b, err := play.NewBatched(c, trust, src, src)
	if err != nil {
		t.Fatal(err)
	}
	for range c.Horizon {
		arms, means := w.draw(src)
		a, err := b.Choose(arms)
		if err != nil {
			t.Fatal(err)
		}
		learning += means[a] / float64(c.Horizon)
		reward := 0.0
		if r.Float64() < means[a] {
			reward = 1
		}
		if err := b.Learn(reward); err != nil {
			t.Fatal(err)
		}
	}
	p, err := b.FinalPolicy()
	if err != nil {
		t.Fatal(err)
	}
	const fresh = 500
	for range fresh {
		arms, _ := w.draw(src)
		means := w.env.Means(arms)
		q, err := p.ProbabilitiesFor(arms, glm.Choice{Unrecorded: true})
		if err != nil {
			t.Fatal(err)
		}
		last += convex.Dot(q, means) / fresh
	}
	return learning, last
}

package learner_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/riffle-dp/riffle/pkg/convex"
	"github.com/riffle-dp/riffle/pkg/glm/family"
	"github.com/riffle-dp/riffle/pkg/glm/learner"
	"github.com/riffle-dp/riffle/pkg/glm/statistic"
)

// returning is a deployment of panels: the same people, of whom each epoch asks some.
type returning struct {
	cfg    learner.Config
	mu     float64 // of Gaussian differential privacy, of one epoch; 0: no noise
	people int
	// effect is the standard deviation, over people, of what the model does not know of them: it is added to the
	// score of all their decisions.
	effect float64
	fixed  bool    // every person has arms of their own, the same all the time
	active float64 // probability of each of the K_max decisions of an epoch
	arms   int     // per decision
	epochs int
	drift  float64 // standard deviation of each coordinate's change between epochs; the norm stays
	change int     // epoch at which the parameter becomes another, at a right angle or more; 0: never
}

// result is what came of it, by epoch.
type result struct {
	unchanged []float64 // Learner.Unchanged
	regret    []float64 // per decision
}

// run plays it. Noise is normal, with a third more variance than the Gaussian mechanism's, as rounding has it: the
// exact channel is in other tests.
func (w returning) run(t testing.TB, seed uint64) (out result) {
	t.Helper()
	l := newLearner(t, w.cfg)
	cfg := l.Config()
	words := rand.NewChaCha8([32]byte{byte(seed), byte(seed >> 8), 5})
	src := rand.New(words)
	model, err := family.New(cfg.Family, cfg.MaxReward)
	if err != nil {
		t.Fatal(err)
	}
	world := func() *family.Environment {
		env, err := family.NewBallEnvironment(model, cfg.Dimension, w.arms, 0.8*cfg.Radius, words)
		if err != nil {
			t.Fatal(err)
		}
		return env
	}
	env := world()
	effects, sets := make([]float64, w.people), make([][][]float64, w.people)
	for i := range sets {
		effects[i], sets[i] = w.effect*src.NormFloat64(), env.Draw(words)
	}
	most := max(1, cfg.Practical.Decisions)
	var vector []float64
	for e := range w.epochs {
		if e == w.change && e > 0 {
			for theta := env.Theta; convex.Dot(theta, env.Theta) > 0; {
				env.Theta = world().Theta
			}
		}
		if w.drift > 0 {
			for j := range env.Theta {
				env.Theta[j] += w.drift * src.NormFloat64()
			}
			for j, norm := 0, convex.Norm(env.Theta); j < len(env.Theta); j++ {
				env.Theta[j] *= 0.8 * cfg.Radius / norm
			}
		}
		step := l.Next()
		sums := sumsOf(step, func(int) float64 { return 0 }, 0, step.Cohort)
		regret, decisions := 0.0, 0
		for _, who := range src.Perm(w.people)[:step.Cohort] {
			for range most {
				if src.Float64() >= w.active {
					continue
				}
				arms := sets[who]
				if !w.fixed {
					arms = env.Draw(words)
				}
				d, err := step.Policy.Decide(arms, words)
				if err != nil {
					t.Fatal(err)
				}
				best, means := 0.0, env.Means(arms)
				for _, m := range means {
					best = math.Max(best, m)
				}
				regret, decisions = regret+best-means[d.Arm], decisions+1
				record := statistic.Record{Arm: arms[d.Arm], Control: d.Control}
				if src.Float64() < model.Mean(convex.Dot(record.Arm, env.Theta)+effects[who]) {
					record.Reward = 1
				}
				for i, s := range step.Statistics[0] {
					if vector, err = s.Vector(vector, record); err != nil {
						t.Fatal(err)
					}
					for j, v := range vector {
						sums[i].Sum[j] += v
					}
				}
			}
		}
		for i, s := range step.Statistics[0] {
			sums[i].Decisions = most
			if w.mu == 0 {
				continue
			}
			bounds, err := s.Bounds()
			if err != nil {
				t.Fatal(err)
			}
			deviation := float64(most) * bounds.Diameter / (w.mu * math.Sqrt(step.Shares[0][i])) * math.Sqrt(4./3)
			for j := range sums[i].Sum {
				sums[i].Sum[j] += deviation * src.NormFloat64()
				sums[i].Variance[j] = deviation * deviation
			}
		}
		if err := l.Absorb(sums); err != nil {
			t.Fatal(err)
		}
		out.unchanged = append(out.unchanged, l.Unchanged())
		out.regret = append(out.regret, regret/float64(max(1, decisions)))
	}
	return out
}

package bandit_test

import (
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"testing"

	"github.com/riffle-dp/riffle/internal/play"
	"github.com/riffle-dp/riffle/lab/learn/bandit"
	"github.com/riffle-dp/riffle/pkg/convex"
	"github.com/riffle-dp/riffle/pkg/glm/family"
	"github.com/riffle-dp/riffle/pkg/learn"
	own "github.com/riffle-dp/riffle/pkg/learn/bandit"
	"github.com/riffle-dp/riffle/pkg/mechanism"
	"github.com/riffle-dp/riffle/pkg/plan"
)

// regCBContexts are 8 contexts of two actions, whose features are opposite pairs among unit directions of the plane.
func regCBContexts() (contexts [][][]float64) {
	direction := func(i int) []float64 {
		sin, cos := math.Sincos(2 * math.Pi * (float64(i) + .3) / 8)
		return []float64{cos, sin}
	}
	for i := range 8 {
		contexts = append(contexts, [][]float64{direction(i), direction(i + 3)})
	}
	return contexts
}

// regCBRun plays a learner for a horizon of people of eight equally frequent contexts. Those of one context and
// question are decided for by some representatives, each of whom stands for as many people. It returns the regret per
// person of uniform play, of the last epoch's policy, and of the whole run.
func regCBRun(t *testing.T, l *learn.Learner, c *play.Channel, horizon int, seed uint64) (
	uniform, last, all float64,
) {
	t.Helper()
	defer l.Close()
	const representatives = 25
	coins, theta := rand.New(rand.NewPCG(seed, 5)), []float64{.36, .81}
	regret := func(arms [][]float64, a int) float64 {
		return max(convex.Dot(arms[0], theta), convex.Dot(arms[1], theta)) - convex.Dot(arms[a], theta)
	}
	for left := horizon; left > 0; {
		step := l.Next()
		people := step.Question.People
		if step.Done || people > left {
			people = left
		}
		left -= people
		var records []learn.Record
		uniform, last = 0, 0
		for k, arms := range regCBContexts() {
			here := people*(k+1)/8 - people*k/8
			for i := range min(here, representatives) {
				choice, err := step.Policy.Decide(arms, coins)
				if err != nil {
					t.Fatal(err)
				}
				n := here / min(here, representatives)
				if i == 0 {
					n += here % min(here, representatives)
				}
				last += float64(n) / float64(people) * regret(arms, choice.Arm)
				up := 0
				mean := (1 + convex.Dot(arms[choice.Arm], theta)) / 2
				if n < 50 {
					for range n {
						if coins.Float64() < mean {
							up++
						}
					}
				} else {
					up = min(n, max(0, int(math.Round(float64(n)*mean+math.Sqrt(float64(n)*mean*(1-mean))*
						coins.NormFloat64()))))
				}
				r := learn.Record{Arm: arms[choice.Arm], Tag: choice.Tag, Reward: 1, Times: up}
				if up > 0 {
					records = append(records, r)
				}
				if r.Reward, r.Times = -1, n-up; n > up {
					records = append(records, r)
				}
			}
			uniform += (regret(arms, 0) + regret(arms, 1)) / 16
		}
		all += last * float64(people) / float64(horizon)
		if step.Done || people < step.Question.People {
			break
		}
		answer, err := c.Answer(step.Question, slices.Values(records))
		if err != nil {
			t.Fatal(err)
		}
		if err := l.Absorb(answer); err != nil {
			t.Fatal(err)
		}
	}
	return uniform, last, all
}

func regCBSetting(epsilon float64, horizon int) learn.Setting {
	return learn.Setting{Family: family.Linear{}, Dimension: 2, Arms: 2, Horizon: horizon, Radius: 1, Epsilon: epsilon,
		Delta: 1e-6, Failure: .05}
}

// In a run of 2^24 people of epsilon 4 that are alone, the last policy has less than half of uniform play's regret,
// with one oracle and with one for each action.
func TestRegCBEliminates(t *testing.T) {
	if testing.Short() {
		t.Skip("nothing of it runs at the same time as anything else")
	}
	const horizon = 1 << 24
	for name, start := range map[string]func(learn.Setting) (*learn.Learner, error){
		"one oracle": own.RegCB, "one for each action": bandit.NewRegCBActions,
	} {
		runs := uint64(1)
		if os.Getenv("RIFFLE_LONG") != "" {
			runs = 20
		}
		for seed := range runs {
			l, err := start(regCBSetting(4, horizon))
			if err != nil {
				t.Fatal(err)
			}
			c := &play.Channel{Trust: plan.Local, Epsilon: 4, Noise: rand.NewPCG(seed, 6)}
			uniform, last, all := regCBRun(t, l, c, horizon, seed)
			t.Logf("%s: per person %.4f in the last epoch, %.4f in all, uniform %.4f", name, last, all, uniform)
			if !(last < uniform/2) {
				t.Errorf("%s, seed %d: a regret of %v per person in the last epoch, uniform play has %v", name, seed,
					last, uniform)
			}
		}
	}
}

// Every question of a run spends at most epsilon of a person, and each person answers one.
func TestRegCBSpendsItsBudget(t *testing.T) {
	for _, start := range []func(learn.Setting) (*learn.Learner, error){own.RegCB, bandit.NewRegCBActions} {
		s := regCBSetting(2, 1<<20)
		l, err := start(s)
		if err != nil {
			t.Fatal(err)
		}
		people, c := 0, &play.Channel{Trust: plan.Local, Epsilon: 2, Noise: rand.NewPCG(1, 6)}
		for !l.Next().Done {
			q := l.Next().Question
			people += q.People
			records := []learn.Record{{Arm: []float64{1, 0}, Reward: 1, Times: q.People}}
			answer, err := c.Answer(q, slices.Values(records))
			if err != nil {
				t.Fatal(err)
			}
			pure := 0.0
			for i, statistic := range q.Statistics {
				scale := math.Sqrt(answer.Sums[i].Variance[0]/float64(q.People)) / math.Sqrt2
				pure += mechanism.Laplace{Scale: scale}.Guarantee(mechanism.Sensitivity{Dim: statistic.Dim(),
					L1: statistic.Diameter1}).Pure
			}
			if !q.Pure || pure > s.Epsilon || pure < .98*s.Epsilon {
				t.Fatalf("a question spends %v of epsilon %v, pure: %v", pure, s.Epsilon, q.Pure)
			}
			if err := l.Absorb(answer); err != nil {
				t.Fatal(err)
			}
		}
		if people > s.Horizon || people < s.Horizon/4 {
			t.Errorf("%d people of %d were asked", people, s.Horizon)
		}
		l.Close()
	}
}

// The settings that no run can have are refused at the start.
func TestRegCBRefuses(t *testing.T) {
	for _, change := range []func(*learn.Setting){
		func(s *learn.Setting) { s.Horizon = 100 },
		func(s *learn.Setting) { s.Options = map[string]float64{"first": 2} },
		func(s *learn.Setting) { s.Options = map[string]float64{"last": 2} },
		func(s *learn.Setting) { s.Family = family.Logistic{} },
		func(s *learn.Setting) { s.Variant = "fast" },
	} {
		s := regCBSetting(1, 1<<16)
		change(&s)
		if _, err := own.RegCB(s); err == nil {
			t.Errorf("%+v: no error", s)
		}
	}
}

package bandit_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/riffle-dp/riffle/pkg/convex"
	"github.com/riffle-dp/riffle/pkg/glm/family"
	"github.com/riffle-dp/riffle/pkg/learn"
	"github.com/riffle-dp/riffle/pkg/learn/bandit"
	"github.com/riffle-dp/riffle/pkg/learn/estimate"
	"github.com/riffle-dp/riffle/pkg/mechanism"
)

// played is what a run of an elimination bandit was like.
type played struct {
	regret, second float64 // over all people, and over the second half
	lost           int     // people whose best arm had been eliminated
	eliminated     int     // arms, over all people
	asked          int
	worst          float64 // delta at epsilon of one answer
	epochs         int
}

// run plays a learner for people with arms from a fixed table and linear rewards.
func run(t *testing.T, start func(learn.Setting) (*learn.Learner, error), s learn.Setting, local bool,
	seed uint64) played {
	t.Helper()
	l, err := start(s)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	rng, src := rand.New(rand.NewPCG(seed, 1)), rand.NewChaCha8([32]byte{byte(seed)})
	theta := make([]float64, s.Dimension)
	theta[0], theta[1] = 0.6, -0.7
	rho, err := mechanism.Budget(s.Epsilon, s.Delta)
	if err != nil {
		t.Fatal(err)
	}
	var out played
	step, records := l.Next(), []learn.Record(nil)
	for person := range s.Horizon {
		arms := make([][]float64, s.Arms)
		best, first := math.Inf(-1), 0
		for a := range arms {
			arms[a] = make([]float64, s.Dimension)
			for i := range arms[a] {
				arms[a][i] = rng.NormFloat64()
			}
			n := convex.Norm(arms[a])
			for i := range arms[a] {
				arms[a][i] /= n
			}
			if v := convex.Dot(arms[a], theta); v > best {
				best, first = v, a
			}
		}
		choice, err := step.Policy.Decide(arms, src)
		if err != nil {
			t.Fatal(err)
		}
		if !(choice.Propensity > 0 && choice.Propensity <= 1) {
			t.Fatalf("a propensity of %v", choice.Propensity)
		}
		p := step.Policy.(learn.Data)
		if err := p.Validate(); err != nil {
			t.Fatal(err)
		}
		left, err := p.Eliminate(arms)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Contains(left, first) {
			out.lost++
		}
		out.eliminated += len(arms) - len(left)
		out.epochs = len(p.Stages)
		mean, reward := convex.Dot(arms[choice.Arm], theta), -1.0
		if rng.Float64() < (1+mean)/2 {
			reward = 1
		}
		out.regret += best - mean
		if person >= s.Horizon/2 {
			out.second += best - mean
		}
		if step.Done {
			continue
		}
		records = append(records, learn.Record{Arm: arms[choice.Arm], Reward: reward})
		if len(records) < step.Question.People {
			continue
		}
		out.asked += len(records)
		if err := l.Absorb(answer(t, step.Question, records, rho, local, src, s.Epsilon, &out.worst)); err != nil {
			t.Fatal(err)
		}
		step, records = l.Next(), nil
	}
	if !step.Done {
		t.Errorf("after all people there is a question for %d more", step.Question.People)
	}
	return out
}

func answer(t *testing.T, q learn.Question, records []learn.Record, rho float64, local bool, src *rand.ChaCha8,
	epsilon float64, worst *float64,
) learn.Answer {
	t.Helper()
	s := q.Statistics[0]
	sum := learn.Sum{Values: make([]float64, s.Dim()), Variance: make([]float64, s.Dim())}
	for _, r := range records {
		for i, v := range s.Vector(nil, r) {
			sum.Values[i] += v
		}
	}
	of := mechanism.Sensitivity{Dim: s.Dim(), L2: s.Diameter}
	noise, err := s.Noise, error(nil)
	if noise == nil {
		if noise, err = mechanism.ForRho(of, rho); err != nil {
			t.Fatal(err)
		}
	}
	if g, ok := noise.(mechanism.Gaussian); ok {
		*worst = math.Max(*worst, g.Guarantee(of).Delta(epsilon))
		if local {
			g.Sigma *= math.Sqrt(float64(len(records)))
		}
		g.Add(sum.Values, src)
		for i := range sum.Variance {
			sum.Variance[i] = g.Sigma * g.Sigma
		}
	}
	return learn.Answer{People: len(records), Sums: []learn.Sum{sum}}
}

func eliminationSetting(horizon int, epsilon float64) learn.Setting {
	return learn.Setting{Family: family.Linear{}, Dimension: 2, Arms: 5, Horizon: horizon, Radius: 1, Epsilon: epsilon,
		Delta: 1e-5, Failure: 0.05}
}

// Without privacy and jointly private, arms are eliminated, the best arm of a person never (the bounds' failure of 5 %
// per run is far from reached), and the regret of the second half is far below that of uniform play, which is about 0.6
// per person here. Each person is asked once and spends at most the budget; with half the noise more.
func TestEliminationLearns(t *testing.T) {
	if testing.Short() {
		t.Skip("nothing of it runs at the same time as anything else")
	}
	for _, c := range []struct {
		name    string
		start   func(learn.Setting) (*learn.Learner, error)
		epsilon float64
		variant string
		most    float64 // regret per person of the second half
	}{
		{"L1 without privacy", bandit.NewElimination, math.Inf(1), "", 0.12},
		{"L1", bandit.NewElimination, 4, "", 0.3},
		{"linear without privacy", bandit.NewLinearElimination, math.Inf(1), "", 0.12},
		{"linear", bandit.NewLinearElimination, 4, "", 0.3},
	} {
		const horizon = 20_000
		s := eliminationSetting(horizon, c.epsilon)
		s.Variant = c.variant
		p := run(t, c.start, s, false, 1)
		t.Logf("%s: %+v, per person of the second half %.3f", c.name, p, p.second/(horizon/2))
		if p.lost > 0 {
			t.Errorf("%s: %d people lost their best arm", c.name, p.lost)
		}
		if p.eliminated < horizon/10 {
			t.Errorf("%s: only %d arms were eliminated", c.name, p.eliminated)
		}
		if per := p.second / (horizon / 2); per > c.most {
			t.Errorf("%s: the second half's regret is %v per person", c.name, per)
		}
		if p.asked != horizon {
			t.Errorf("%s: %d of %d people were asked", c.name, p.asked, horizon)
		}
		if !math.IsInf(c.epsilon, 1) && !(p.worst > 0 && p.worst <= s.Delta) {
			t.Errorf("%s: an answer spends delta %v", c.name, p.worst)
		}
	}
}

// The paper's constants run, locally private too, and are valid; they eliminate nothing at such a horizon.
func TestEliminationWithThePapersConstants(t *testing.T) {
	if testing.Short() {
		t.Skip("nothing of it runs at the same time as anything else")
	}
	for _, start := range []func(learn.Setting) (*learn.Learner, error){bandit.NewElimination,
		bandit.NewLinearElimination} {
		s := eliminationSetting(6000, 1)
		s.Variant = estimate.Literal
		if p := run(t, start, s, true, 2); p.lost > 0 || p.asked != s.Horizon || p.epochs < 1 {
			t.Errorf("%+v", p)
		}
	}
}

func TestDoubling(t *testing.T) {
	for _, c := range []struct {
		horizon, first int
		want           []int
	}{{100, 100, []int{100}}, {199, 100, []int{199}}, {1000, 100, []int{100, 100, 200, 400, 200}}, {850, 100,
		[]int{100, 100, 200, 450}}} {
		got, err := bandit.Doubling(c.horizon, c.first)
		if err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%d from %d: %v, %v, not %v", c.horizon, c.first, got, err, c.want)
		}
	}
	if _, err := bandit.Doubling(99, 100); err == nil {
		t.Error("fewer people than the first epoch: no error")
	}
}

func TestEliminationRefuses(t *testing.T) {
	for _, options := range []map[string]float64{{bandit.SpannerFactor: 0.5}, {bandit.SpannerFactor: 2.1},
		{bandit.Exploit: 1}, {"width": 1}} {
		s := eliminationSetting(6000, 1)
		s.Options = options
		if _, err := bandit.NewElimination(s); err == nil {
			t.Errorf("%v: no error", options)
		}
	}
}

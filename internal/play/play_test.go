package play_test

import (
	"context"
	"math"
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/riffle-dp/riffle/internal/play"
	"github.com/riffle-dp/riffle/internal/population"
	"github.com/riffle-dp/riffle/pkg/channel/simulated"
	"github.com/riffle-dp/riffle/pkg/glm"
	"github.com/riffle-dp/riffle/pkg/glm/learner"
	"github.com/riffle-dp/riffle/pkg/plan"
)

const people = 700

var (
	config = learner.Config{Dimension: 3, Radius: 2, Horizon: people, Epsilon: 4}
	terms  = plan.Terms{Epsilon: 4, Delta: 1e-6, DropOut: 0.05, MinCohort: 50, MaxMessages: 150, MaxShift: 16}
)

func crowd(t testing.TB) *population.Population {
	t.Helper()
	p, err := population.Synthetic(population.SyntheticOptions{Users: people, Seed: 3, Dim: 3, Arms: 5, Norm: 2})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func played(t testing.TB, cfg learner.Config, trust play.Trust, seed byte) *play.History {
	t.Helper()
	out, err := play.Run(context.Background(), cfg, crowd(t).People(), trust, rand.NewChaCha8([32]byte{seed}),
		rand.NewChaCha8([32]byte{seed, 1}), nil)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestRunIsAFunctionOfItsSources(t *testing.T) {
	a, b, c := played(t, config, play.Planned(terms), 1), played(t, config, play.Planned(terms), 1), played(t, config,
		play.Planned(terms), 2)
	if !reflect.DeepEqual(a, b) {
		t.Error("two runs with the same sources differ")
	}
	if reflect.DeepEqual(a.Played, c.Played) {
		t.Error("runs with other sources are the same")
	}
	if len(a.Played) != people || a.Epochs < 2 || a.Final.Play != glm.PlayGreedy {
		t.Errorf("%d decisions in %d epochs, final play %q", len(a.Played), a.Epochs, a.Final.Play)
	}
}

// The channel's encodings are those of an announcement, so that the announced guarantee holds for them.
func TestShuffleUsesThePlan(t *testing.T) {
	learner, err := learner.New(config)
	if err != nil {
		t.Fatal(err)
	}
	step := learner.Next()
	c, cost, err := play.Planned(terms)(step)
	if err != nil {
		t.Fatal(err)
	}
	p, err := plan.Propose(step, terms)
	if err != nil {
		t.Fatal(err)
	}
	shuffle := c.(simulated.Integer)
	total := 0
	for i, e := range shuffle.Encodings {
		total += e.Messages()
		if e.Scale != p.Encodings[i].Scale || e.NoiseBits != p.Plan.Rounds[0].Releases[i].NoiseBits {
			t.Errorf("encoding %d differs from the plan", i)
		}
	}
	if total != cost.Messages || cost.Messages > terms.MaxMessages || shuffle.MinCohort != int(p.Cohort.Minimum) {
		t.Errorf("%d messages, said %d; minimum cohort %d", total, cost.Messages, shuffle.MinCohort)
	}
}

// The paper profile runs its rounds: several releases of one record, at iterates that depend on each other.
func TestPaperProfileRunsItsRounds(t *testing.T) {
	cfg := config
	cfg.Profile, cfg.MinCohort, cfg.Paper = glm.Paper, 100, learner.PaperConfig{Rounds: 3}
	local := played(t, cfg, play.GaussianLocal(8, 1e-6), 1)
	exact := played(t, cfg, play.Exact, 1)
	if local.Epochs != exact.Epochs || reflect.DeepEqual(local.Final.Theta, exact.Final.Theta) {
		t.Errorf("%d and %d epochs", local.Epochs, exact.Epochs)
	}
}

// Over all rounds of an epoch the mu^2 of central noise add up to that of the guarantee. The mu of a release is
// diameter/sigma, with the variance that the channel states.
func TestRoundsShareTheBudget(t *testing.T) {
	cfg := config
	cfg.Profile, cfg.MinCohort, cfg.Paper = glm.Paper, 100, learner.PaperConfig{Rounds: 4}
	learner, err := learner.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	step := learner.Next()
	square := 0.0
	for round := range step.Statistics {
		at := step
		at.Round = round
		c, _, err := play.GaussianCentral(1, 1e-6)(at)
		if err != nil {
			t.Fatal(err)
		}
		reports := func(yield func(simulated.Report) bool) {
			r := simulated.Report{}
			for _, s := range step.Statistics[round] {
				r = append(r, make([]float64, s.Dim()))
			}
			yield(r)
		}
		sums, err := c.Aggregate(reports, rand.NewChaCha8([32]byte{}))
		if err != nil {
			t.Fatal(err)
		}
		for i, s := range step.Statistics[round] {
			b, err := s.Bounds()
			if err != nil {
				t.Fatal(err)
			}
			square += b.Diameter * b.Diameter / sums[i].Variance[0]
		}
	}
	if mu := math.Sqrt(square); math.Abs(mu-0.2367) > 0.0005 { // mu of (1, 1e-6)
		t.Errorf("mu %v", mu)
	}
}

// 100, then 200, then 400 people: each sends once, whether the learner goes on or a new one starts.
func TestAnytimeDoublesItsHorizon(t *testing.T) {
	for _, profile := range []glm.Profile{glm.Practical, glm.Paper} {
		t.Run(string(profile), func(t *testing.T) { checkAnytime(t, profile) })
	}
}

func checkAnytime(t *testing.T, profile glm.Profile) {
	cfg := config
	cfg.Profile, cfg.Horizon, cfg.MinCohort, cfg.Paper.Rounds = profile, 100, 20, 2
	p, err := play.NewAnytime(cfg, play.Exact, rand.NewChaCha8([32]byte{1}), nil)
	if err != nil {
		t.Fatal(err)
	}
	score, err := play.Play(context.Background(), p, crowd(t).People(), people, []int{1, people}, nil)
	if err != nil || score.People != people || score.Marks[1] != people || score.Course[1] != score.Regret {
		t.Fatalf("%+v, %v", score, err)
	}
	if m := p.MessagesPerPerson(); math.Abs(m-1) > 1e-9 {
		t.Errorf("%v reports per person", m)
	}
	if theta, err := p.Final(); err != nil || len(theta) != 3 {
		t.Error(theta, err)
	}
}

func TestPlayStopsWithoutPeopleOrWhenCancelled(t *testing.T) {
	p, err := play.NewBatched(config, play.Exact, rand.NewChaCha8([32]byte{1}), nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := play.Play(context.Background(), p, crowd(t).People(), people+1, nil, nil); err == nil {
		t.Error("accepted a horizon beyond the population")
	}
	if _, err := p.Final(); err != nil {
		t.Error(err) // the learner's own horizon is over
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	big, err := population.Synthetic(population.SyntheticOptions{Users: 5000, Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := play.Play(ctx, first{}, big.People(), 5000, nil, nil); err == nil {
		t.Error("went on after cancellation")
	}
}

type first struct{}

func (first) Choose([][]float64) (int, error) { return 0, nil }
func (first) Learn(float64) error             { return nil }

// Runs that share a plan have its noise: where the sources are the same, the run that plans, one that takes its plans
// and one that plans for itself are one and the same run. With other sources the noise is scaled to what that run
// releases, as a plan for it would scale it (to a tenth). Before there is a plan there is no channel.
func TestRunsSharePlans(t *testing.T) {
	of := terms
	of.Channel, of.MaxMessages, of.MaxShift = plan.Central, 0, 0
	first, others := play.PlannedOnce(of)
	if _, err := play.NewBatched(config, others, rand.NewChaCha8([32]byte{}), rand.NewChaCha8([32]byte{})); err != nil {
		t.Fatal(err)
	}
	l, err := learner.New(config)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := others(l.Next()); err == nil {
		t.Error("a channel without a plan")
	}
	own := played(t, config, play.Planned(of), 1)
	if a := played(t, config, first, 1); !reflect.DeepEqual(a, own) {
		t.Error("the run that plans for others differs from one that plans for itself")
	}
	if a := played(t, config, others, 1); !reflect.DeepEqual(a, own) {
		t.Error("the run that takes the plans differs from the one that made them")
	}
	compared := 0
	planned := play.Planned(of)
	played(t, config, func(step learner.Step) (simulated.Channel, play.Cost, error) {
		mine, cost, err := planned(step)
		if err != nil {
			return mine, cost, err
		}
		taken, _, err := others(step)
		if err != nil {
			return mine, cost, err
		}
		a, b := mine.(simulated.Integer), taken.(simulated.Integer)
		for i, e := range a.Encodings {
			ratio := b.Encodings[i].Variance(uint64(step.Cohort), b.ServerNoise[i])[0] /
				e.Variance(uint64(step.Cohort), a.ServerNoise[i])[0]
			if compared++; ratio < 0.9 || ratio > 1.1 {
				t.Errorf("epoch %d, statistic %d: a shared plan has %.3f of the variance of its own", step.Epoch, i,
					ratio)
			}
		}
		return mine, cost, nil
	}, 2)
	if compared < 4 {
		t.Errorf("%d sums were compared", compared)
	}
}

package learner_test

import (
	"math"
	"testing"

	"gonum.org/v1/gonum/floats/scalar"

	"github.com/riffle-dp/riffle/pkg/convex"
	"github.com/riffle-dp/riffle/pkg/glm"
	"github.com/riffle-dp/riffle/pkg/glm/family"
	"github.com/riffle-dp/riffle/pkg/glm/learner"
	"github.com/riffle-dp/riffle/pkg/glm/statistic"
)

// The paper profile's stages, number by number: after a warm-up whose covariance release is 400 I with variance 4, the
// stage is (400 + lambda)^-1 I with the width of the constants chosen. The kappa of the warm-up does not enter the
// second batch, whose descent starts inside the warm-up's set.
func TestPaperStagesHaveTheirStatedNumbers(t *testing.T) {
	const d, horizon, variance, rounds = 2, 6000, 4.0, 3
	kappa := learner.KappaBound(family.Logistic{}, 2)
	proof := learner.ProofInputs{Dimension: d, MaxReward: 1, Radius: 2, SelfConcordance: 1,
		Failure: 1.0 / horizon / horizon, Eta: .5}
	proved := func(j, reports int, _ glm.Stage) float64 {
		bound, err := convex.OptimizerError(convex.ErrorInputs{Reports: reports, Dimension: d, Rounds: rounds,
			Radius: 2, MaxGradient: 1,
			Ridge: proof.Ridge(variance), SumProxy: variance, Failure: proof.Failure})
		if err != nil {
			t.Fatal(err)
		}
		if j == 0 {
			return math.Sqrt(kappa) * proof.Gamma(proof.Ridge(variance), bound.Nu)
		}
		return proof.Gamma(proof.Ridge(variance), bound.Nu)
	}
	lambda := learner.TunedRidge(variance, d, 5)
	const warmup = 500
	step := 1 / (.25*400/warmup + 1.0/warmup) // 1/(w_max lmax + ridge/n), of the warm-up's covariance, for all batches
	tuned := func(j, reports int, last glm.Stage) float64 {
		w := learner.TunedWidth{Constant: learner.DefaultPaperWidth, MaxReward: 1, Dimension: d, Horizon: horizon,
			Radius: 2,
			Lambda: lambda, Kappa: kappa}
		start := 2.0
		if j > 0 {
			w.Kappa, start = 1, math.Min(4, last.Width*math.Sqrt(last.Covariance[0]))
		}
		nu, err := convex.SmoothError(convex.SmoothInputs{Reports: reports, Dimension: d, Rounds: rounds, Step: step,
			Start: start, SumVariance: variance})
		if err != nil {
			t.Fatal(err)
		}
		w.Nu = nu
		return w.Gamma()
	}
	for _, c := range []struct {
		name   string
		paper  learner.PaperConfig
		lambda float64
		width  func(stage, reports int, last glm.Stage) float64
	}{
		{"tuned", learner.PaperConfig{}, lambda, tuned},
		{"proof", learner.PaperConfig{Constants: learner.ProofConstants}, proof.Ridge(variance), proved},
	} {
		t.Run(c.name, func(t *testing.T) {
			cfg := learner.Config{Profile: glm.Paper, Dimension: d, Radius: 2, Horizon: horizon, Paper: c.paper}
			cfg.Paper.Rounds, cfg.Paper.Second, cfg.Paper.Alpha = rounds, 600, 50
			l := newLearner(t, cfg)
			if n := len(l.Schedule()); n != 5 { // 500 600 1225 1750 1925
				t.Fatalf("schedule %v", l.Schedule())
			}
			var reports []int
			for range 2 {
				for range rounds {
					step := l.Next()
					if step.Round == 0 {
						reports = append(reports, step.Cohort)
					}
					sums := sumsOf(step, func(int) float64 { return 0 }, variance, step.Cohort)
					if sums[0].Kind == statistic.Covariance {
						sums[0].Sum = []float64{400, 0, 400}
					}
					if err := l.Absorb(sums); err != nil {
						t.Fatal(err)
					}
				}
			}
			p := l.Next().Policy
			for j, s := range p.Stages {
				if want := c.width(j, reports[j], p.Stages[0]); !scalar.EqualWithinAbs(s.Width, want, 1e-9*want) {
					t.Errorf("stage %d: width %v, want %v", j, s.Width, want)
				}
				if want := 1 / (400 + c.lambda); !scalar.EqualWithinAbs(s.Covariance[0], want, 1e-12) ||
					!scalar.EqualWithinAbs(s.Covariance[1], 0, 1e-15) ||
					!scalar.EqualWithinAbs(s.Covariance[2], want, 1e-12) {
					t.Errorf("stage %d: covariance %v, want %v I", j, s.Covariance, want)
				}
			}
			if len(p.Stages) != 2 || p.Scaling == nil || p.Scaling.Width != p.Stages[0].Width ||
				p.Scaling.MaxWeight != .25 || p.Scaling.Diameter != 4 {
				t.Errorf("%d stages, scaling %+v", len(p.Stages), p.Scaling)
			}
		})
	}
}

// A released Hessian with no more spread than its noise explains is replaced by a multiple of the identity; the same
// matrix released without noise is used as it is.
func TestHessianIsShrunkByItsNoise(t *testing.T) {
	spread := func(variance float64) float64 {
		l := newLearner(t, learner.Config{Dimension: 2, Radius: 1, Horizon: 100000,
			Practical: learner.PracticalConfig{FirstCohort: 1000}})
		step := l.Next()
		sums := sumsOf(step, func(int) float64 { return 0 }, variance, step.Cohort)
		sums[0].Sum = []float64{40, 0, 60} // mean 50, squared deviation 200 on two free coordinates
		if err := l.Absorb(sums); err != nil {
			t.Fatal(err)
		}
		c := l.Next().Policy.Stages[0].Covariance
		return c[0] / c[2]
	}
	if r := spread(150); !scalar.EqualWithinAbs(r, 1, 1e-9) {
		t.Errorf("noise explains the spread, yet the variances' ratio is %v", r)
	}
	if r := spread(50); !(r > 1.05 && r < spread(1e-9)) {
		t.Errorf("half of the spread is noise: ratio %v, without noise %v", r, spread(1e-9))
	}
}

// In the practical profile the width follows the number of people still to come and of explorers, who are at most the
// configured multiple of the first cohort; the last epoch and the final policy are greedy, and the first has no stage.
func TestPracticalPoliciesFollowThePeopleToCome(t *testing.T) {
	l := newLearner(t, learner.Config{Dimension: 3, Horizon: 3000,
		Practical: learner.PracticalConfig{Width: .5, AheadWidth: .8, Explorers: 3, ExplorerShare: -1}})
	sizes := l.Schedule()
	after := 3000
	for k, n := range sizes {
		after -= n
		step := l.Next()
		p := step.Policy
		switch {
		case k == 0:
			if p.Play != glm.PlayDesign || p.Stages != nil || p.Scaling != nil {
				t.Errorf("first: %+v", p)
			}
		case k == len(sizes)-1:
			if p.Play != glm.PlayGreedy || p.Stages != nil {
				t.Errorf("last: %+v", p)
			}
		default:
			c, explorers := .5, math.Min(float64(n), 3*float64(sizes[0]))
			if k > 1 {
				c = .8
			}
			if want := c * math.Sqrt(math.Log(1+float64(after)/explorers)); p.Play != glm.PlayDesign ||
				!scalar.EqualWithinAbs(p.Stages[0].Width, want, 1e-12) {
				t.Errorf("epoch %d: %+v, want width %v", k, p, want)
			}
			if share := explorers / float64(n); share == 1 && p.Explore != 0 ||
				share < 1 && !scalar.EqualWithinAbs(p.Explore, share, 1e-12) {
				t.Errorf("epoch %d: a share of %v explores, want %v", k, p.Explore, share)
			}
		}
		if err := l.Absorb(sumsOf(step, func(j int) float64 { return float64(j) }, 1, n)); err != nil {
			t.Fatal(err)
		}
	}
	if last := l.Next(); !last.Done || last.Policy.Play != glm.PlayGreedy || last.Epoch != len(sizes) {
		t.Errorf("%+v", last)
	}
}

// From the third cohort on, stages look ahead: a direction about which the last cohort gave much information is as
// certain as it will be after the next cohort; one about which it gave none stays as uncertain as it is. Without
// foresight both are as at present.
func TestPracticalStagesLookAhead(t *testing.T) {
	third := func(ahead float64) glm.Policy {
		l := newLearner(t, learner.Config{Dimension: 2, Horizon: 100000,
			Practical: learner.PracticalConfig{AheadWidth: ahead}})
		for range 2 {
			step := l.Next()
			n := float64(step.Cohort)
			sums := sumsOf(step, func(int) float64 { return 0 }, 1, step.Cohort)
			sums[0].Sum = []float64{n / 10, 0, 0} // all decisions along the first axis
			if err := l.Absorb(sums); err != nil {
				t.Fatal(err)
			}
		}
		return l.Next().Policy
	}
	first, second := []float64{1, 0}, []float64{0, 1}
	today, ahead := third(-1).Stages[0], third(1).Stages[0]
	// With growth 2 there will be three times the people.
	if got, want := ahead.Covariance.Form(first)/today.Covariance.Form(first), 0.6; !(got < want) {
		t.Errorf("told about: variance %v of today's, want below %v", got, want)
	}
	if got := ahead.Covariance.Form(second) / today.Covariance.Form(second); !(got > 0.9 && got <= 1+1e-12) {
		t.Errorf("not told about: variance %v of today's", got)
	}
	if ratio := ahead.Width / today.Width; !scalar.EqualWithinAbs(ratio, 1/learner.DefaultWidth, 1e-9) {
		t.Errorf("widths %v and %v", ahead.Width, today.Width)
	}
}

// The covariance of the estimate is there once something was learnt, where the profile has one, and is the caller's.
func TestCovarianceIsThatOfTheEstimate(t *testing.T) {
	for name, cfg := range profiles() {
		l := newLearner(t, cfg)
		if got := l.Covariance(); (got != nil) != (len(cfg.Practical.PriorTheta) > 0) { // or is known from the prior
			t.Errorf("%s: before the first cohort: %v", name, got)
		}
		for step := l.Next(); step.Epoch == 0; step = l.Next() {
			if err := l.Absorb(sumsOf(step, func(i int) float64 { return float64(i + 1) }, 1,
				step.Cohort)); err != nil {
				t.Fatal(err)
			}
		}
		got := l.Covariance()
		if (got != nil) != (l.Config().Profile == glm.Practical) {
			t.Errorf("%s: after the first cohort: %v", name, got)
		}
		if got != nil {
			got[0] = -1
			if l.Covariance()[0] == -1 {
				t.Errorf("%s: the covariance shares the learner's memory", name)
			}
		}
	}
}

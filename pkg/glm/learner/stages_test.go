package learner_test

import (
	"math"
	"slices"
	"testing"

	"gonum.org/v1/gonum/floats/scalar"

	"github.com/riffle-dp/riffle/pkg/convex"
	"github.com/riffle-dp/riffle/pkg/glm"
	"github.com/riffle-dp/riffle/pkg/glm/family"
	"github.com/riffle-dp/riffle/pkg/glm/learner"
	"github.com/riffle-dp/riffle/pkg/glm/posterior"
	"github.com/riffle-dp/riffle/pkg/glm/statistic"
	"github.com/riffle-dp/riffle/pkg/glm/structure"
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
		c := l.Next().Policy.Scaling.Covariance
		return c[0] / c[2]
	}
	if r := spread(150); !scalar.EqualWithinAbs(r, 1, 1e-9) {
		t.Errorf("noise explains the spread, yet the variances' ratio is %v", r)
	}
	if r := spread(50); !(r > 1.05 && r < spread(1e-9)) {
		t.Errorf("half of the spread is noise: ratio %v, without noise %v", r, spread(1e-9))
	}
}

// In the practical profile the first cohort explores by design; the others sample from draws around the estimate, whose
// spread follows the number of people to come; the last cohort and the final policy are greedy, without draws. What is
// known is announced as soon as something is.
func TestPracticalPoliciesFollowThePeopleToCome(t *testing.T) {
	cfg := learner.Config{Dimension: 3, Horizon: 3000, Practical: learner.PracticalConfig{Sampling: 0.5}}
	l := newLearner(t, cfg)
	sizes := l.Schedule()
	after := 3000
	for k, n := range sizes {
		after -= n
		step := l.Next()
		p := step.Policy
		if p.Explore != 0 || p.Stages != nil || (p.Scaling != nil) != (k > 0) {
			t.Errorf("epoch %d: %+v", k, p)
		}
		if k > 0 && !slices.Equal(p.Scaling.Covariance, l.Covariance()) {
			t.Errorf("epoch %d: caution asks for %v, known is %v", k, p.Scaling.Covariance, l.Covariance())
		}
		switch {
		case k == 0:
			if p.Play != glm.PlayDesign || p.Draws != nil {
				t.Errorf("first: %+v", p)
			}
		case k == len(sizes)-1:
			if p.Play != glm.PlayGreedy || p.Draws != nil {
				t.Errorf("last: %+v", p)
			}
		default:
			want := 0.5 * math.Sqrt(math.Log(1+float64(after)/float64(n)))
			if p.Play != glm.PlaySampled || len(p.Draws) != learner.DrawsPerPolicy {
				t.Fatalf("epoch %d: %+v", k, p)
			}
			// They are spread less than what is known now says, but not by much more than the cohort can tell.
			wide, err := posterior.Draws(p.Theta, p.Scaling.Covariance, want, p.Radius, len(p.Draws), k)
			if err != nil {
				t.Fatal(err)
			}
			away, most := 0.0, 0.0
			for i, draw := range p.Draws {
				away, most = away+math.Pow(distance(draw, p.Theta), 2), most+math.Pow(distance(wide[i], p.Theta), 2)
			}
			if !(away < most && away > most/5) {
				t.Errorf("epoch %d: draws are spread by %v, by what is known now %v", k, away, most)
			}
		}
		if err := l.Absorb(sumsOf(step, func(j int) float64 { return float64(j) }, 1, n)); err != nil {
			t.Fatal(err)
		}
	}
	if last := l.Next(); !last.Done || last.Policy.Play != glm.PlayGreedy || last.Policy.Draws != nil ||
		last.Epoch != len(sizes) {
		t.Errorf("%+v", last)
	}
}

// With a half-life the last panel explores, too; the final policy does not, and announces no draws.
func TestTheFinalPolicyExploresNothing(t *testing.T) {
	for _, caution := range []float64{0, 1} {
		l := newLearner(t, learner.Config{Dimension: 3, Horizon: 300,
			Practical: learner.PracticalConfig{Panel: 100, HalfLife: 4, Caution: caution}})
		var last glm.Policy
		for !l.Next().Done {
			last = l.Next().Policy
			absorb(t, l, steady, 1)
		}
		p := l.Next().Policy
		err := p.Validate()
		if err != nil || last.Play != glm.PlaySampled || p.Play != glm.PlayGreedy || p.Draws != nil || p.Explore != 0 {
			t.Errorf("caution %v: %v, %+v after %+v", caution, err, p, last)
		}
	}
}

func distance(x, y []float64) float64 {
	away := slices.Clone(x)
	for i, v := range y {
		away[i] -= v
	}
	return convex.Norm(away)
}

// Draws look ahead: in a direction about which the last cohort gave much information they are spread as it will be
// known after the next cohort; in one about which it gave none, as it is known now.
func TestDrawsLookAhead(t *testing.T) {
	l := newLearner(t, learner.Config{Dimension: 2, Horizon: 100000, Radius: 3})
	for range 2 {
		step := l.Next()
		n := float64(step.Cohort)
		sums := sumsOf(step, func(int) float64 { return 0 }, 1, step.Cohort)
		sums[0].Sum = []float64{n / 10, 0, 0} // all decisions along the first axis
		if err := l.Absorb(sums); err != nil {
			t.Fatal(err)
		}
	}
	step, after := l.Next(), 100000
	for _, n := range l.Schedule()[:3] {
		after -= n
	}
	p := step.Policy
	spread := learner.DefaultSampling * math.Sqrt(math.Log(1+float64(after)/float64(step.Cohort)))
	today, err := posterior.Draws(p.Theta, p.Scaling.Covariance, spread, 1e6, learner.DrawsPerPolicy, 2)
	if err != nil {
		t.Fatal(err)
	}
	compared := 0
	for i, draw := range p.Draws {
		if convex.Norm(draw) > p.Radius*(1-1e-9) || convex.Norm(today[i]) > p.Radius {
			continue // projected
		}
		compared++
		ratio := func(j int) float64 { return (draw[j] - p.Theta[j]) / (today[i][j] - p.Theta[j]) }
		// With growth 2 there will be twice the people.
		if told, untold := math.Pow(ratio(0), 2), math.Pow(ratio(1), 2); !(told < 0.6 && told > 0.1) ||
			!(untold > 0.9 && untold <= 1+1e-9) {
			t.Errorf("draw %d: variance %v of today's where decisions told, %v where they did not", i, told, untold)
		}
	}
	if compared == 0 {
		t.Error("every draw was projected: the test is blind")
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

// What a cohort adds, number by number: sampling counts with the family's dispersion, where the model bends it is
// tempered, and where the estimate keeps nothing of a noisy Hessian's deviation, the Hessian's noise is not counted.
// The prior's precision is d/S^2, but of the family linear at least that of scores of standard deviation 1/2, and of
// gaussian 0.7.
func TestACohortAddsWhatItIsWorth(t *testing.T) {
	for _, c := range []struct {
		family                              string
		reward, variance, prior, dispersion float64
	}{{family.NameLogistic, 1, 0, 2. / 9, 1}, {family.NameLinear, 1, 0, 4, 1}, {family.NameLinear, 1, 30, 4, 1},
		{family.NameGaussian, 10, 0, 0.7, 1.9343532588748}, {family.NameGaussian, 10, 30, 0.7, 1.9343532588748}} {
		l := newLearner(t, learner.Config{Family: c.family, MaxReward: c.reward, Dimension: 2, Radius: 3,
			Horizon: 100000, Practical: learner.PracticalConfig{FirstCohort: 1000}})
		sums := sumsOf(l.Next(), func(int) float64 { return 0 }, c.variance, 1000)
		sums[0].Sum = []float64{50, 0, 50} // a multiple of I: nothing deviates from what it is shrunk towards
		if err := l.Absorb(sums); err != nil {
			t.Fatal(err)
		}
		model, err := family.New(c.family, c.reward)
		if err != nil {
			t.Fatal(err)
		}
		bent := family.Flatness(model, 3) // 0 of linear
		want := 1 / (c.prior + 1/((c.dispersion*50+c.variance)/(50*50)+bent*bent/c.prior))
		if got := l.Covariance()[0]; !scalar.EqualWithinRel(got, want, 1e-9) {
			t.Errorf("%s, variance %v: %v, want %v", c.family, c.variance, got, want)
		}
	}
}

// The Hessian's noise is multiplied by how far the truth may be within one run of coordinates: here half of the prior's
// squared distance of 1, where each run deviates from the shape of their sum and the estimate keeps three quarters of
// that.
func TestHessianNoiseCountsTheDistanceOfOneRun(t *testing.T) {
	l := newLearner(t, learner.Config{Family: family.NameLinear, Dimension: 4, Radius: 3, Horizon: 100000,
		Structure: structure.Options(2, 2), Practical: learner.PracticalConfig{FirstCohort: 1000}})
	const variance, prior = 100.0, 4.0
	const kept = 1 - 4*variance/1600 // of a squared deviation of 1600
	sums := sumsOf(l.Next(), func(int) float64 { return 0 }, variance, 1000)
	sums[0].Sum = []float64{60, 0, 20, 20, 0, 60}
	if err := l.Absorb(sums); err != nil {
		t.Fatal(err)
	}
	value, noise := 40+20*kept, variance+learner.DefaultHessianNoise/2*kept*variance/2
	want := 1 / (prior + value*value/(value+noise))
	if got := l.Covariance()[0]; !scalar.EqualWithinRel(got, want, 1e-9) {
		t.Errorf("%v, want %v", got, want)
	}
}

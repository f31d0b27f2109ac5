package learner_test

import (
	"fmt"
	"iter"
	"math"
	"os"
	"sync"
	"testing"

	"github.com/riffle-dp/riffle/internal/population"
	"github.com/riffle-dp/riffle/pkg/glm"
	"github.com/riffle-dp/riffle/pkg/glm/learner"
	"github.com/riffle-dp/riffle/pkg/protocol"
)

var headline = budget{epsilon: 1, delta: 1e-6, maxShift: 16}

// TestMeasure prints the table from which the defaults were chosen. It checks nothing and takes most of an hour:
//
//	RIFFLE_LONG=1 go test ./pkg/glm -run TestMeasure -v -timeout 2h
//
// A group runs alone with -run TestMeasure/<group>: choices (every tunable at demo size), frontier (other sizes,
// budgets, families), adult (the census, both maps), width (the exploration that fixed arm sets need and its cost
// elsewhere), messages, coverage (of the paper profile's confidence sets), lasting (worlds that change).
func TestMeasure(t *testing.T) {
	if os.Getenv("RIFFLE_LONG") == "" {
		t.Skip("set RIFFLE_LONG=1 to measure")
	}
	t.Run("choices", measureChoices)
	t.Run("frontier", measureFrontier)
	t.Run("adult", measureAdult)
	t.Run("sampling", measureSampling)
	t.Run("messages", measureMessages)
	t.Run("coverage", measureCoverage)
	t.Run("lasting", measureLasting)
}

// overSeeds runs seeds in two goroutines. A test that calls it is left out by -short: the race detector is not run over
// this package, because these goroutines are all that runs at the same time in it, and they share nothing.
func overSeeds(seeds int, once func(seed uint64) outcome) []outcome {
	if testing.Short() {
		panic("under -short nothing of pkg/glm runs at the same time as anything else: see .ci/run")
	}
	outcomes := make([]outcome, seeds)
	var group sync.WaitGroup
	for worker := range 2 {
		group.Go(func() {
			for s := worker; s < seeds; s += 2 {
				outcomes[s] = once(uint64(s))
			}
		})
	}
	group.Wait()
	return outcomes
}

func meanOf(outcomes []outcome, f func(o outcome) float64) (mean, se float64) {
	square, n := 0.0, float64(len(outcomes))
	for _, o := range outcomes {
		mean += f(o) / n
		square += f(o) * f(o) / n
	}
	return mean, math.Sqrt(math.Max(0, square-mean*mean) / n)
}

func measure(t *testing.T, name, kind, family string, reward float64, cfg learner.Config, arms int, norm float64,
	b budget,
	seeds int) {
	t.Helper()
	cfg.Family, cfg.MaxReward = family, reward
	outcomes := overSeeds(seeds, func(s uint64) outcome {
		return simulate(t, cfg, environment(t, kind, family, reward, cfg.Dimension, arms, norm, s), b, s)
	})
	ratio, se := meanOf(outcomes, outcome.ratio)
	regret, regretSE := meanOf(outcomes, func(o outcome) float64 { return o.regret })
	last, _ := meanOf(outcomes, func(o outcome) float64 { return o.last })
	survival, _ := meanOf(outcomes, func(o outcome) float64 { return o.survival })
	worst, above, messages, largest := 0.0, 0, 0.0, 0
	for _, o := range outcomes {
		worst, messages = math.Max(worst, o.ratio()), messages+o.messages/float64(seeds)
		largest = max(largest, o.largest)
		if o.ratio() > 0.15 {
			above++
		}
	}
	fmt.Printf("%-30s %-5s %s d=%d K=%d S=%g T=%d eps=%g: ratio %.4f +- %.4f, worst %.3f, %d/%d above .15, "+
		"regret %.0f +- %.0f, last epoch %.4f, epochs %d, messages %.0f (most %d), survival %.3f\n",
		name, kind, family, cfg.Dimension, arms, norm, cfg.Horizon, b.epsilon, ratio, se, worst, above, seeds,
		regret, regretSE, last, outcomes[0].epochs, messages, largest, survival)
}

func measureChoices(t *testing.T) {
	for _, kind := range []string{"ball", "fixed"} {
		try := func(name string, change func(p *learner.PracticalConfig, b *budget)) {
			cfg, b := learner.Config{Dimension: 5, Horizon: 5000}, headline
			change(&cfg.Practical, &b)
			measure(t, name, kind, "logistic", 1, cfg, 10, 3, b, 60)
		}
		try("default", func(*learner.PracticalConfig, *budget) {})
		for _, v := range []int{100, 150, 250, 300} {
			try(fmt.Sprint("first cohort ", v), func(p *learner.PracticalConfig, _ *budget) { p.FirstCohort = v })
		}
		for _, v := range []float64{1.5, 2.5, 3} {
			try(fmt.Sprint("growth ", v), func(p *learner.PracticalConfig, _ *budget) { p.Growth = v })
		}
		for _, v := range []float64{-1, .2, .3, .6, .8, 1.2} {
			try(fmt.Sprint("sampling ", v), func(p *learner.PracticalConfig, _ *budget) { p.Sampling = v })
		}
		for _, v := range []float64{.05, .1, .2, .3, .5} {
			try(fmt.Sprint("hessian share ", v), func(p *learner.PracticalConfig, _ *budget) { p.HessianShare = v })
		}
		for _, v := range []float64{-1, .25, 1, 2} {
			try(fmt.Sprint("hessian noise ", v), func(p *learner.PracticalConfig, _ *budget) { p.HessianNoise = v })
		}
		for _, v := range []float64{.25, .5, 2, 4} {
			try(fmt.Sprint("prior ", v), func(p *learner.PracticalConfig, _ *budget) { p.Prior = v })
		}
		for _, v := range []float64{1.25, 1.6, 2} {
			try(fmt.Sprint("variance ratio ", v), func(_ *learner.PracticalConfig, b *budget) { b.ratio = v })
		}
		try("variance ratio 2, shift 8", func(_ *learner.PracticalConfig, b *budget) { b.ratio, b.maxShift = 2, 8 })
		try("design tolerance 0.01", func(p *learner.PracticalConfig, _ *budget) { p.DesignTolerance = .01 })
		try("no privacy", func(_ *learner.PracticalConfig, b *budget) { b.epsilon = 0 })
	}
}

func measureFrontier(t *testing.T) {
	for _, epsilon := range []float64{.5, 1, 4, 0} {
		b := headline
		b.epsilon = epsilon
		rule := epsilon
		if epsilon == 0 {
			rule = 10
		}
		for _, c := range []struct {
			d       int
			s       float64
			horizon int
			kind    string
			seeds   int
		}{
			{5, 3, 1000, "ball", 20}, {5, 3, 5000, "ball", 20}, {5, 3, 20000, "ball", 12}, {5, 3, 100000, "ball", 8},
			{3, 1, 20000, "ball", 12}, {3, 5, 20000, "ball", 12}, {5, 1, 20000, "ball", 12}, {5, 5, 20000, "ball", 12},
			{5, 3, 20000, "fixed", 12}, {5, 3, 100000, "fixed", 8},
		} {
			cfg := learner.Config{Dimension: c.d, Radius: c.s, Horizon: c.horizon, Epsilon: rule}
			measure(t, "default", c.kind, "logistic", 1, cfg, 10, c.s, b, c.seeds)
		}
	}
	for _, f := range []struct {
		name   string
		reward float64
	}{{"probit", 1}, {"poisson", 5}, {"gaussian", 1}} {
		measure(t, "default", "ball", f.name, f.reward, learner.Config{Dimension: 5, Radius: 2, Horizon: 5000}, 10, 2,
			headline, 20)
	}
	paper := learner.Config{Profile: glm.Paper, Dimension: 5, Horizon: 20000, Paper: learner.PaperConfig{Rounds: 8}}
	measure(t, "paper, tuned, 8 rounds", "ball", "logistic", 1, paper, 10, 3,
		budget{epsilon: 1, delta: 1e-6, ratio: 2, maxShift: 16}, 8)
}

// measureMessages prints the cost of a cap on the messages of a person, planned as in deployments: with the least
// variance under the cap, and without counting on 5 % of a cohort's noise.
func measureMessages(t *testing.T) {
	for _, v := range []int{80, 100, 120, 150, 200, 300} {
		b := headline
		b.ratio, b.maxMessages, b.dropOut = -1, v, .05
		measure(t, fmt.Sprintf("at most %d messages", v), "ball", "logistic", 1,
			learner.Config{Dimension: 5, Horizon: 5000}, 10, 3, b, 60)
	}
	for v, shift := range map[int]float64{150: 3, 200: 4.5, 300: 7, 400: 10} {
		b := headline
		b.ratio, b.maxMessages, b.dropOut, b.maxShift = -1, v, .05, shift
		measureCensusPlanned(t, population.MapB7, 32561, b, 10, func(*learner.PracticalConfig) {},
			fmt.Sprintf("at most %d messages", v))
	}
}

func measureSampling(t *testing.T) {
	for _, sampling := range []float64{.1, .2, .3, .4, .5, .6, .8} {
		try := func(kind string, horizon int, epsilon float64, seeds int) {
			cfg, b := learner.Config{Dimension: 5, Horizon: horizon, Epsilon: math.Max(epsilon, .5),
				Practical: learner.PracticalConfig{Sampling: sampling}}, headline
			b.epsilon = epsilon
			measure(t, fmt.Sprint("sampling ", sampling), kind, "logistic", 1, cfg, 10, 3, b, seeds)
		}
		try("ball", 5000, 1, 60)
		try("fixed", 5000, 1, 60)
		try("fixed", 20000, 1, 40)
		try("fixed", 20000, .5, 20)
		try("ball", 100000, 1, 6)
		try("fixed", 100000, 1, 16)
		try("fixed", 100000, 0, 16)
		measureCensus(t, population.MapBlock, 5000, 1, 20, func(p *learner.PracticalConfig) { p.Sampling = sampling },
			fmt.Sprint("sampling ", sampling))
		measureCensus(t, population.MapBlock, 32561, .5, 6, func(p *learner.PracticalConfig) { p.Sampling = sampling },
			fmt.Sprint("sampling ", sampling))
	}
}

func measureAdult(t *testing.T) {
	for _, m := range []population.FeatureMap{population.MapB7, population.MapBlock} {
		for _, epsilon := range []float64{.5, 1, 4, 0} {
			for _, users := range []int{5000, 32561} {
				measureCensus(t, m, users, epsilon, 10, func(*learner.PracticalConfig) {}, "default")
			}
		}
	}
}

// measureCensus evaluates the policies of runs on the Adult census on the people of the original test file.
func measureCensus(t *testing.T, m population.FeatureMap, users int, epsilon float64, seeds int,
	change func(*learner.PracticalConfig), name string) {
	t.Helper()
	b := headline
	b.epsilon = epsilon
	measureCensusPlanned(t, m, users, b, seeds, change, name)
}

func measureCensusPlanned(t *testing.T, m population.FeatureMap, users int, b budget, seeds int,
	change func(*learner.PracticalConfig), name string) {
	t.Helper()
	epsilon := b.epsilon
	finals := make([]float64, seeds)
	outcomes := overSeeds(seeds, func(seed uint64) outcome {
		people, err := population.Adult(population.AdultOptions{Users: users, Seed: seed, Map: m, TestHoldout: true})
		if err != nil {
			t.Error(err)
			return outcome{}
		}
		info := people.Info()
		cfg := learner.Config{Dimension: info.Dim, Radius: info.NormBound, Horizon: info.People, Epsilon: epsilon}
		if epsilon == 0 {
			cfg.Epsilon = 10
		}
		change(&cfg.Practical)
		next, stop := iter.Pull2(people.People())
		defer stop()
		o := run(t, cfg, func(protocol.Source) ([][]float64, []float64, func(int) float64) {
			p, err, ok := next()
			if err != nil || !ok {
				panic(fmt.Sprint("the census is over: ", err))
			}
			return p.Arms, p.Rewards, func(arm int) float64 { return p.Rewards[arm] }
		}, b, seed)
		right, all := 0.0, 0.0
		for p, err := range people.Holdout() {
			if err != nil {
				t.Error(err)
				return o
			}
			d, err := o.final.Decide(p.Arms, nil)
			if err != nil {
				t.Error(err)
				return o
			}
			right, all = right+p.Rewards[d.Arm], all+1
		}
		finals[seed] = right / all
		return o
	})
	value, _ := meanOf(outcomes, func(o outcome) float64 { return o.value })
	final, se := 0.0, 0.0
	worst := 1.0
	for _, v := range finals {
		final += v / float64(seeds)
		worst = math.Min(worst, v)
	}
	for _, v := range finals {
		se += (v - final) * (v - final) / float64(seeds*seeds)
	}
	messages, _ := meanOf(outcomes, func(o outcome) float64 { return o.messages })
	fmt.Printf("%-20s adult %s T=%d eps=%g: last policy right for %.4f +- %.4f of unseen people, worst seed %.4f, "+
		"average reward %.4f, epochs %d, messages %.0f (most %d)\n",
		name, m, users, epsilon, final, math.Sqrt(se), worst, value, outcomes[0].epochs, messages, outcomes[0].largest)
}

package learner

import (
	"fmt"
	"math"

	"github.com/riffle-dp/riffle/pkg/glm/family"
	"github.com/riffle-dp/riffle/pkg/glm/statistic"
)

// Defaults of the practical profile. They were chosen on one synthetic population (logistic, d = 5, K = 10, S = 3, 5000
// people, epsilon 1) and a fixed arm set of the same size, and checked on others; TestMeasure reproduces the table.
const (
	DefaultGrowth = 2.0 // 1.5 to 2.5 are within the noise of 60 seeds; 3 is 8 % worse
	// DefaultWidth is c of the second cohort: 0.2 gets stuck on fixed arm sets, 0.45 costs 20 % more where contexts
	// vary by themselves.
	DefaultWidth      = 0.3
	DefaultAheadWidth = 0.7 // c of the later cohorts: 1 costs 20 % more on both kinds of population
	DefaultExplorers  = 7.5 // 5 gets stuck more often on fixed arm sets
	// DefaultExplorerShare of 0.2 has a fifth less regret than 0 on fixed arm sets at epsilon 4, where noise is
	// smallest, and costs nothing where contexts vary by themselves.
	DefaultExplorerShare = 0.2
	DefaultHessianShare  = 0.25 // of mu^2: 0.15, 0.35 and 0.5 are 2 to 18 % worse where contexts vary by themselves
	DefaultHessianNoise  = 0.5
	DefaultPrior         = 1.0
	// DefaultControlShare takes a tenth of mu^2 from what is learnt; the interval of the lift has a width of about
	// 1/sqrt(share) as long as noise dominates it.
	DefaultControlShare = 0.1
	// SuggestedHalfLife and SuggestedAlarm are what to set where the world may change; 0, the default, forgets nothing.
	// Panels of 300, logistic, d = 5 (TestMeasure/lasting): a half-life of 8 panels costs nothing where nothing
	// changes, and 2 has half as much regret again; with a slow drift 8 has 30 % less regret than none. With an abrupt
	// change in the middle, at epsilon 4, the regret of a decision is 0.20 with neither, 0.13 with the half-life, 0.05
	// with the alarm and 0.04 with both. An alarm at 0.01 is false in one deployment of eight over 24 panels; at 0.001
	// one of 64 was.
	SuggestedHalfLife = 8
	SuggestedAlarm    = 0.001
	// DefaultPracticalTolerance is the design tolerance of the practical profile: its designs need not be exact, and
	// 0.2 takes a third of the steps of 0.01.
	DefaultPracticalTolerance = 0.2
	// firstCohortSignal is the information about one direction that FirstCohort demands of the first cohort, as a
	// multiple of the prior's. It gives a first cohort of 180 for the tuning population.
	firstCohortSignal = 1.4
)

func (c Config) resolvePractical() (Config, error) {
	p := &c.Practical
	fill(&p.Growth, DefaultGrowth)
	fill(&p.Width, DefaultWidth)
	fill(&p.AheadWidth, DefaultAheadWidth)
	fill(&p.Explorers, DefaultExplorers)
	fill(&p.ExplorerShare, DefaultExplorerShare)
	fill(&p.HessianShare, DefaultHessianShare)
	fill(&p.HessianNoise, DefaultHessianNoise)
	fill(&p.Prior, DefaultPrior)
	fill(&p.DesignTolerance, DefaultPracticalTolerance)
	if p.MaxEpochs == 0 {
		p.MaxEpochs = 64
	}
	if p.Control > 0 {
		fill(&p.ControlShare, DefaultControlShare)
	}
	if p.MaxEpochs < 1 || p.FirstCohort < 0 {
		return c, fmt.Errorf("%w: practical.max_epochs %d and first_cohort %d must be positive",
			ErrConfig, p.MaxEpochs, p.FirstCohort)
	}
	err := within(
		limit{"practical.growth", p.Growth, 1, 1e6},
		limit{"practical.width", p.Width, -1e9, 1e9},
		limit{"practical.ahead_width", p.AheadWidth, -1e9, 1e9},
		limit{"practical.explorers", p.Explorers, -1e9, 1e9},
		limit{"practical.explorer_share", p.ExplorerShare, -1e9, 1},
		limit{"practical.hessian_share", p.HessianShare, 1e-6, 1 - 1e-6},
		limit{"practical.hessian_noise", p.HessianNoise, -1e9, 1e9},
		limit{"practical.prior", p.Prior, 1e-9, 1e9},
		limit{"practical.design_tolerance", p.DesignTolerance, 1e-12, 1})
	if err == nil {
		err = c.checkLasting()
	}
	if err == nil && p.FirstCohort == 0 {
		p.FirstCohort, err = FirstCohort(c)
	}
	return c, err
}

// FirstCohort is the rule for n1. The information of n1 decisions drawn from the design about one direction of theta is
// h^2/(h+v), with h = 0.8 n1 w_max/d the curvature per direction under the optimal design and v the noise of the two
// releases: v = (D_g/mu_g)^2 + HessianNoise/2 * (D_H/mu_H)^2 * S^2 and a third more for randomised rounding, D being
// the diameters at theta = 0, mu_g and mu_H the shares of mu*(epsilon, delta). The rule demands firstCohortSignal times
// the prior's d/S^2. It balances the regret of the first cohort (proportional to n1) against that of the cohorts that
// decide by its estimate (proportional to 1/n1 while noise dominates). Both scale alike with the rewards, so the rule
// needs no gap. It grows like d^1.5/epsilon; the result is at most T/5, but at least MinCohort. TestFirstCohortRule has
// examples.
func FirstCohort(c Config) (int, error) {
	model, err := family.New(c.Family, c.MaxReward)
	if err != nil {
		return 0, fmt.Errorf("%w: %w", ErrConfig, err)
	}
	zero := make([]float64, c.Dimension)
	score := family.Bounded(model)
	g, err := statistic.Statistic{Kind: statistic.Gradient, Family: score, Theta: zero, ArmDim: c.Dimension}.Bounds()
	if err != nil {
		return 0, err
	}
	h, err := statistic.Statistic{Kind: statistic.Hessian, Family: score, Theta: zero, ArmDim: c.Dimension}.Bounds()
	if err != nil {
		return 0, err
	}
	const rounding, filled = 4.0 / 3, 0.8
	mu, share := gaussianMu(c.Epsilon, c.Delta), c.Practical.HessianShare
	d, s := float64(c.Dimension), c.Radius
	noise := rounding * (g.Diameter*g.Diameter/(1-share) +
		math.Max(0, c.Practical.HessianNoise)/2*h.Diameter*h.Diameter/share*s*s) / (mu * mu)
	want := firstCohortSignal * c.Practical.Prior * d / (s * s)
	curvature := (want + math.Sqrt(want*want+4*want*noise)) / 2 // h with h^2/(h+v) = want
	n := curvature * d / (filled * score.Variance(0))
	return int(math.Max(float64(c.MinCohort), math.Min(math.Ceil(n), float64(c.Horizon)/5))), nil
}

// gaussianMu is the mu of Gaussian differential privacy that corresponds to (epsilon, delta). It tunes cohort sizes
// only; the privacy package certifies releases.
func gaussianMu(epsilon, delta float64) float64 {
	normal := func(x float64) float64 { return math.Erfc(-x/math.Sqrt2) / 2 }
	low, high := 0.0, 100.0
	for range 100 {
		mu := (low + high) / 2
		if normal(-epsilon/mu+mu/2)-math.Exp(epsilon)*normal(-epsilon/mu-mu/2) > delta {
			high = mu
		} else {
			low = mu
		}
	}
	return (low + high) / 2
}

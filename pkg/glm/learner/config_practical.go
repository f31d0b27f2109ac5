package learner

import (
	"fmt"
	"math"

	"github.com/riffle-dp/riffle/pkg/glm/family"
	"github.com/riffle-dp/riffle/pkg/glm/statistic"
)

// Defaults of the practical profile. TestMeasure reproduces the table of the first population (logistic, d = 5, K = 10,
// S = 3, 5000 people, epsilon 1) and of a fixed arm set of the same size. Sampling, growth, the prior and what is said
// below of them were chosen on people of one context and K options, each with weights of its own, at epsilon 1 in the
// channel shares: letters, shuttle states and two columns of the Adult census, 3 to 7 options, 4000 to 16 000 people,
// and eight synthetic ones (K = 2 to 10, effects from small to large, a misfit, heavy tails), 8 to 20 seeds of each.
const (
	DefaultGrowth = 2.0 // 1.5 is within the noise of 8 seeds; 2.5 keeps 4 % less of the gain on data
	// DefaultQuietGrowth is that of learners with little or no noise, who lose nothing by more cohorts: shuttle states
	// keep .93 of the gain with 1.5 and .87 with 2.
	DefaultQuietGrowth = 1.25
	// DefaultSampling of 0.2 and less leaves single runs on shuttle states with the constant arm; 0.8 keeps a tenth
	// less of the gain while learning.
	DefaultSampling = 0.4
	// DefaultExplorerShare is a fifth of decisions: what those risk who are cautious.
	DefaultExplorerShare = 0.2
	DefaultHessianShare  = 0.25 // of mu^2: 0.15, 0.35 and 0.5 are 2 to 18 % worse where contexts vary by themselves
	DefaultHessianNoise  = 0.5
	DefaultPrior         = 1.0
	// leastPrecision is the least precision of a direction before anything is known, for one prior observation: scores
	// of unit arms then have a standard deviation of 3.2, and those beyond it are 0 or 1 to most models. .03 follows
	// the noise where effects are small; .3 costs shuttle states, whose parameter is long, a tenth of the gain.
	leastPrecision = 0.1
	// leastLinear is the same of the family linear, whose scores are mean rewards in [-1, 1]: a standard deviation of
	// 1/2. With leastPrecision the first estimates follow the noise: unit arms drawn from the ball then have a quarter
	// more regret, and people of one context and 2 or 3 options keep .77 of the gain while learning instead of .84.
	leastLinear = 4
	// leastGaussian is the same of the family gaussian: a standard deviation of 1.2, which is 0.3 of the range of
	// rewards near its middle. Chosen for that, it does as well as leastPrecision within the noise of 4 seeds.
	leastGaussian = 0.7
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
	// mostFirst is the least number of people for each one of the first cohort.
	mostFirst = 10
)

func (c Config) resolvePractical(model family.Family) (Config, error) {
	p := &c.Practical
	fill(&p.Sampling, DefaultSampling)
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
	fill(&p.Bend, family.Flatness(family.Bounded(model), c.Radius))
	if p.MaxEpochs < 1 || p.FirstCohort < 0 {
		return c, fmt.Errorf("%w: practical.max_epochs %d and first_cohort %d must be positive",
			ErrConfig, p.MaxEpochs, p.FirstCohort)
	}
	if p.Growth != 0 {
		if err := within(limit{"practical.growth", p.Growth, 1, 1e6}); err != nil {
			return c, err
		}
	}
	err := within(
		limit{"practical.sampling", p.Sampling, -1e9, 1e9},
		limit{"practical.explorer_share", p.ExplorerShare, -1e9, 1},
		limit{"practical.hessian_share", p.HessianShare, 1e-6, 1 - 1e-6},
		limit{"practical.hessian_noise", p.HessianNoise, -1e9, 1e9},
		limit{"practical.prior", p.Prior, 1e-9, 1e9},
		limit{"practical.bend", p.Bend, -1e9, 1},
		limit{"practical.design_tolerance", p.DesignTolerance, 1e-12, 1})
	if err == nil {
		err = c.checkLasting()
	}
	if err != nil {
		return c, err
	}
	if p.FirstCohort != 0 && p.Growth != 0 {
		return c, nil
	}
	first, err := FirstCohort(c)
	if p.Growth == 0 {
		if p.Growth = DefaultGrowth; first <= c.MinCohort && c.MinCohort < c.Horizon/mostFirst {
			p.Growth = DefaultQuietGrowth
		}
	}
	if p.FirstCohort == 0 {
		p.FirstCohort = first
	}
	return c, err
}

// FirstCohort is the rule for n1. The information of n1 decisions drawn from the design about one direction of theta is
// h^2/(phi h + v), with h = 0.8 n1 w_max/d the curvature per direction under the optimal design and v the noise of the
// two releases: v = (D_g/mu_g)^2 + HessianNoise/2 * (D_H/mu_H)^2 * |theta*|^2 and a third more for randomised rounding,
// D being the diameters at theta = 0, mu_g and mu_H the shares of mu*(epsilon, delta), and |theta*|^2 the prior's mean
// of it, for one run of coordinates where arms lie in disjoint ones. The rule demands firstCohortSignal times the
// prior's precision. It balances the regret of the first cohort (proportional to n1) against that of the cohorts that
// decide by its estimate (proportional to 1/n1 while noise dominates). Both scale alike with the rewards, so the rule
// needs no gap. It grows like d^1.5/epsilon; the result is at most T/10, but at least MinCohort. TestFirstCohortRule
// has examples.
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
	d, precision := float64(c.Dimension), c.priorPrecision()
	distance := d / precision / float64(max(1, len(c.Structure.Disjoint(c.Dimension))))
	noise := rounding * (g.Diameter*g.Diameter/(1-share) +
		math.Max(0, c.Practical.HessianNoise)/2*h.Diameter*h.Diameter/share*distance) / (mu * mu)
	want := firstCohortSignal * precision
	sampling := score.Dispersion() * want
	curvature := (sampling + math.Sqrt(sampling*sampling+4*want*noise)) / 2 // h with h^2/(phi h + v) = want
	n := curvature * d / (filled * score.Variance(0))
	return int(math.Max(float64(c.MinCohort), math.Min(math.Ceil(n), float64(c.Horizon)/mostFirst))), nil
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

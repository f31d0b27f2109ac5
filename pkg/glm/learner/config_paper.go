package learner

import (
	"fmt"
	"math"

	"github.com/riffle-dp/riffle/pkg/convex"
	"github.com/riffle-dp/riffle/pkg/glm/design"
	"github.com/riffle-dp/riffle/pkg/glm/family"
)

// Defaults of the paper profile.
const (
	// DefaultPaperWidth is c of TunedWidth: of 0.5, 0.55 and 0.6 the smallest with which, at every epsilon from 0.25 to
	// no privacy, the sets of all batches of a run hold theta* in nine runs of ten, on all six populations tried
	// (TestMeasure/coverage). Coverage costs regret: where contexts explore by themselves, 0.05 has at most a tenth of
	// the regret, with sets that hold nothing.
	DefaultPaperWidth      = 0.6
	DefaultCovarianceShare = 0.5 // of mu^2; the paper splits the budget in two and leaves the halves to the reader
)

func (c Config) resolvePaper() (Config, error) {
	p := &c.Paper
	if p.Constants == "" {
		p.Constants = TunedConstants
	}
	if p.Constants != TunedConstants && p.Constants != ProofConstants {
		return c, fmt.Errorf("%w: paper.constants %q is neither %q nor %q",
			ErrConfig, p.Constants, TunedConstants, ProofConstants)
	}
	if p.Constants == ProofConstants && p.Width != 0 {
		return c, fmt.Errorf("%w: paper.width %v belongs to tuned constants; the proof's widths are fixed",
			ErrConfig, p.Width)
	}
	if p.Constants == TunedConstants {
		fill(&p.Width, DefaultPaperWidth)
	}
	horizon := float64(c.Horizon)
	family, err := family.New(c.Family, c.MaxReward)
	if err != nil {
		return c, fmt.Errorf("%w: %w", ErrConfig, err)
	}
	fill(&p.Alpha, 2*math.Sqrt(horizon))
	if p.Warmup == 0 {
		p.Warmup = max(c.MinCohort, int(math.Ceil(math.Pow(horizon, 2.0/3))))
	}
	if p.Second == 0 {
		p.Second = max(int(math.Ceil(p.Alpha)), p.Warmup)
	}
	fill(&p.Kappa, KappaBound(family, c.Radius))
	fill(&p.Eta, 0.5)
	fill(&p.Failure, 1/math.Max(4, horizon*horizon))
	if p.Rounds == 0 {
		p.Rounds = convex.DefaultRounds
	}
	fill(&p.CovarianceShare, DefaultCovarianceShare)
	fill(&p.EstimationRidge, 1)
	fill(&p.ProxyRatio, 1)
	fill(&p.DesignTolerance, design.DefaultTolerance)
	if p.Warmup < 1 || p.Second < 1 || p.Warmup > c.Horizon/2 {
		return c, fmt.Errorf("%w: the warm-up of %d people and second batch of %d must be positive, and the warm-up "+
			"at most half of the horizon %d; use more people, the practical profile, or a smaller min_cohort",
			ErrConfig, p.Warmup, p.Second, c.Horizon)
	}
	if p.Rounds < 1 || p.Rounds > 1<<16 {
		return c, fmt.Errorf("%w: paper.rounds %d must be in [1, 65536]", ErrConfig, p.Rounds)
	}
	return c, within(
		limit{"paper.alpha", p.Alpha, 1, 1e12},
		limit{"paper.kappa", p.Kappa, 1, 1e300},
		limit{"paper.width", p.Width, 0, 1e9},
		limit{"paper.eta", p.Eta, 1e-6, 1 - 1e-6},
		limit{"paper.failure", p.Failure, 1e-300, 0.5},
		limit{"paper.covariance_share", p.CovarianceShare, 1e-6, 1 - 1e-6},
		limit{"paper.estimation_ridge", p.EstimationRidge, 0, 1e12},
		limit{"paper.proxy_ratio", p.ProxyRatio, 1, 100},
		limit{"paper.design_tolerance", p.DesignTolerance, 1e-12, 1})
}

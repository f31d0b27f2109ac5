package learner

import (
	"fmt"

	"github.com/riffle-dp/riffle/pkg/convex"
)

// MaxDecisions bounds K_max, the decisions of one report, and with it what an announcement can make a device keep and
// work: the arms of so many decisions, and their vectors in every report. Noise grows with K_max, so that nobody wants
// as many. Up to 2^16 the rounding of their sum would be far below what every bound of a statistic is widened by
// (docs/privacy.md, section 21).
const MaxDecisions = 1 << 12

// lasts reports whether the configuration has anything of deployments that last.
func (p PracticalConfig) lasts() bool {
	return p.Panel > 0 || p.HalfLife > 0 || p.Alarm > 0 || len(p.PriorTheta) > 0 || p.Control > 0 || p.Caution > 0
}

// checkLasting checks what the practical profile has for deployments that last.
func (c Config) checkLasting() error {
	p := c.Practical
	if p.Panel < 0 || p.Panel > c.Horizon || p.Panel > 0 && c.Horizon/p.Panel > mostPanels {
		return fmt.Errorf("%w: practical.panel %d must be in [1, %d], with at most %d panels in the horizon of %d, "+
			"or 0 for cohorts that grow", ErrConfig, p.Panel, c.Horizon, mostPanels, c.Horizon)
	}
	if p.Decisions < 0 || p.Decisions > MaxDecisions || p.Decisions > 1 && p.Panel == 0 {
		return fmt.Errorf("%w: practical.decisions %d must be in [1, %d], and above 1 only with panels", ErrConfig,
			p.Decisions, MaxDecisions)
	}
	if err := within(
		limit{"practical.half_life", p.HalfLife, 0, 1e9},
		limit{"practical.alarm", p.Alarm, 0, 0.5},
		limit{"practical.control", p.Control, 0, 0.99},
		limit{"practical.control_share", p.ControlShare, 0, 0.99},
		limit{"practical.caution", p.Caution, 0, 1e9}); err != nil {
		return err
	}
	if p.Control > 0 != (p.ControlShare > 0) {
		return fmt.Errorf("%w: practical.control_share %v without a control group: set practical.control", ErrConfig,
			p.ControlShare)
	}
	return c.checkPrior()
}

// checkPrior refuses public knowledge of which a part is missing, or that is no estimate in the ball of radius S with a
// positive definite precision.
func (c Config) checkPrior() error {
	theta, precision := c.Practical.PriorTheta, c.Practical.PriorPrecision
	if len(theta) == 0 && len(precision) == 0 {
		return nil
	}
	if len(theta) != c.Dimension {
		return fmt.Errorf("%w: practical.prior_theta has %d coordinates, the dimension is %d", ErrConfig, len(theta),
			c.Dimension)
	}
	if norm := convex.Norm(theta); !(norm <= c.Radius) {
		return fmt.Errorf("%w: practical.prior_theta has norm %v, above the radius %v", ErrConfig, norm, c.Radius)
	}
	if err := precision.Check(c.Dimension); err != nil {
		return fmt.Errorf("%w: practical.prior_precision: %w", ErrConfig, err)
	}
	values, _, err := convex.Spectrum(precision.Dense(c.Dimension))
	if err != nil || !(values[0] > 1e-12*values[len(values)-1]) {
		return fmt.Errorf("%w: practical.prior_precision is not positive definite: a direction of which nothing is "+
			"known needs a small positive precision", ErrConfig)
	}
	return nil
}

package learner

import (
	"fmt"

	"github.com/riffle-dp/riffle/pkg/glm"
	"github.com/riffle-dp/riffle/pkg/glm/family"
	"github.com/riffle-dp/riffle/pkg/glm/statistic"
)

// Resolve checks the configuration and returns it with every default filled in; only the active profile's part is
// touched. Resolving twice changes nothing. Errors wrap ErrConfig and name the field.
func (c Config) Resolve() (Config, error) {
	if c.Profile == "" {
		c.Profile = glm.Practical
	}
	if c.Profile != glm.Practical && c.Profile != glm.Paper {
		return c, fmt.Errorf("%w: profile %q is none: known are %q, %q and %q", ErrConfig, c.Profile, glm.Practical,
			glm.Paper,
			glm.Joint)
	}
	if c.Family == "" {
		c.Family = family.NameLogistic
	}
	fill(&c.MaxReward, 1)
	fill(&c.Radius, DefaultRadius)
	fill(&c.Epsilon, 1)
	fill(&c.Delta, 1e-6)
	if c.MinCohort == 0 {
		c.MinCohort = 50
		if c.Profile == glm.Paper {
			c.MinCohort = 500
		}
	}
	model, err := family.New(c.Family, c.MaxReward)
	if err != nil {
		return c, fmt.Errorf("%w: %w", ErrConfig, err)
	}
	if c.Dimension < 1 || c.Dimension > glm.MaxDimension {
		return c, fmt.Errorf("%w: dimension %d must be in [1, %d]", ErrConfig, c.Dimension, glm.MaxDimension)
	}
	if err := c.Structure.Validate(c.Dimension); err != nil {
		return c, fmt.Errorf("%w: %w", ErrConfig, err)
	}
	if c.Horizon < 1 || c.Horizon > 1<<40 {
		return c, fmt.Errorf("%w: horizon %d must be in [1, 2^40]", ErrConfig, c.Horizon)
	}
	if c.MinCohort < 1 {
		return c, fmt.Errorf("%w: min_cohort %d must be positive", ErrConfig, c.MinCohort)
	}
	if err := within(limit{"radius", c.Radius, 1e-6, statistic.MaxParameterNorm},
		limit{"epsilon", c.Epsilon, 1e-6, 1e3},
		limit{"delta", c.Delta, 1e-300, 0.5}); err != nil {
		return c, err
	}
	if c.Profile == glm.Paper {
		return c.resolvePaper()
	}
	return c.resolvePractical(model)
}

package learner

import (
	"fmt"

	"github.com/riffle-dp/riffle/pkg/glm"
	"github.com/riffle-dp/riffle/pkg/glm/family"
	"github.com/riffle-dp/riffle/pkg/glm/statistic"
	"github.com/riffle-dp/riffle/pkg/strict"
)

// Resolve checks the configuration and returns it with every default filled in; only the active profile's part is
// touched. Resolving twice changes nothing. Errors wrap ErrConfig and name the field.
func (c Config) Resolve() (Config, error) {
	if c.Profile == "" {
		c.Profile = glm.Practical
	}
	program := c.Profile.Program()
	if c.Profile != glm.Practical && c.Profile != glm.Paper && !program {
		return c, fmt.Errorf("%w: profile %q is none: known are %s", ErrConfig, c.Profile,
			strict.List(glm.Profiles(), "or"))
	}
	if c.Family == "" {
		c.Family = family.NameLogistic
		if program {
			c.Family = family.NameLinear
		}
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
	switch {
	case program:
		return c.resolveProgram()
	case c.Program != nil:
		return c, fmt.Errorf("%w: the profile %s takes no options of programs", ErrConfig, c.Profile)
	case c.Profile == glm.Paper:
		return c.resolvePaper()
	}
	return c.resolvePractical(model)
}

// resolveProgram checks what all programs have in common. The options are the program's own.
func (c Config) resolveProgram() (Config, error) {
	if c.Family != family.NameLinear {
		return c, fmt.Errorf("%w: family %q: the profile %s is for the family %s, whose mean reward is linear in the "+
			"arm", ErrConfig, c.Family, c.Profile, family.NameLinear)
	}
	p := ProgramConfig{}
	if c.Program != nil {
		p = *c.Program
	}
	if p.Arms == 0 {
		p.Arms = DefaultArms
	}
	fill(&p.Failure, DefaultFailure)
	c.Program = &p
	return c, within(limit{"program.arms", float64(p.Arms), 1, 1 << 20},
		limit{"program.failure", p.Failure, 1e-300, 1 - 1e-9})
}

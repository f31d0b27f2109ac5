package glm

import (
	"errors"
	"fmt"
)

// Profile names a set of formulas; the two are never mixed.
type Profile string

const (
	// Practical is the default: one report per device, Newton-type estimation, pooling over cohorts. Its utility is
	// measured, not proved; its privacy has the same certificate.
	Practical Profile = "practical"
	// Paper is Algorithm 1 of Riffle's seed paper as written: a weighted covariance release and several gradient rounds
	// per cohort.
	Paper Profile = "paper"
	// Joint is Algorithm 2 of the seed paper, for a trusted curator who reads records: package learn/joint, whose
	// policies devices follow. A Config cannot name it.
	Joint Profile = "joint"
)

// MaxDimension bounds d: a policy of this dimension is about a megabyte of JSON per stage, and a report has d(d+1)/2+d
// coordinates.
const MaxDimension = 512

// ErrConfig wraps every reason to refuse a configuration.
var ErrConfig = errors.New("glm: bad configuration")

// Config says what is learnt and how. It is public, fixed before the first person, and must not be derived from private
// data. A zero tunable means its documented default, which Resolve fills in.
type Config struct {
	Profile   Profile `json:"profile"`    // default Practical
	Family    string  `json:"family"`     // see NewFamily; default "logistic"
	MaxReward float64 `json:"max_reward"` // R, default 1
	Dimension int     `json:"dimension"`  // d in [1, MaxDimension]
	// Radius is S in (0, MaxParameterNorm], a bound of ||theta*||; default 3. A bound that is too large costs little;
	// one that is too small biases the estimate.
	Radius  float64 `json:"radius"`
	Horizon int     `json:"horizon"` // T, people; each is in one cohort
	Epsilon float64 `json:"epsilon"` // privacy target of a record, which only FirstCohort uses here; default 1
	Delta   float64 `json:"delta"`   // likewise; default 1e-6
	// MinCohort is the smallest cohort to plan: a shorter remainder of the horizon joins the cohort before it. The
	// fewest reports that may be released are a matter of the privacy plan instead. Default 50 (Practical), 500 (Paper;
	// n_floor: the noise makes smaller batches useless).
	MinCohort int             `json:"min_cohort"`
	Practical PracticalConfig `json:"practical"`
	Paper     PaperConfig     `json:"paper"`
}

// Resolve checks the configuration and returns it with every default filled in; only the active profile's part is
// touched. Resolving twice changes nothing. Errors wrap ErrConfig and name the field.
func (c Config) Resolve() (Config, error) {
	if c.Profile == "" {
		c.Profile = Practical
	}
	if c.Profile != Practical && c.Profile != Paper {
		return c, fmt.Errorf("%w: profile %q is none: known are %q, %q and %q", ErrConfig, c.Profile, Practical, Paper,
			Joint)
	}
	if c.Family == "" {
		c.Family = FamilyLogistic
	}
	fill(&c.MaxReward, 1)
	fill(&c.Radius, 3)
	fill(&c.Epsilon, 1)
	fill(&c.Delta, 1e-6)
	if c.MinCohort == 0 {
		c.MinCohort = 50
		if c.Profile == Paper {
			c.MinCohort = 500
		}
	}
	if _, err := NewFamily(c.Family, c.MaxReward); err != nil {
		return c, fmt.Errorf("%w: %w", ErrConfig, err)
	}
	if c.Dimension < 1 || c.Dimension > MaxDimension {
		return c, fmt.Errorf("%w: dimension %d must be in [1, %d]", ErrConfig, c.Dimension, MaxDimension)
	}
	if c.Horizon < 1 || c.Horizon > 1<<40 {
		return c, fmt.Errorf("%w: horizon %d must be in [1, 2^40]", ErrConfig, c.Horizon)
	}
	if c.MinCohort < 1 {
		return c, fmt.Errorf("%w: min_cohort %d must be positive", ErrConfig, c.MinCohort)
	}
	if err := within(limit{"radius", c.Radius, 1e-6, MaxParameterNorm}, limit{"epsilon", c.Epsilon, 1e-6, 1e3},
		limit{"delta", c.Delta, 1e-300, 0.5}); err != nil {
		return c, err
	}
	if c.Profile == Paper {
		return c.resolvePaper()
	}
	return c.resolvePractical()
}

// fill sets a zero tunable to its default.
func fill(v *float64, value float64) {
	if *v == 0 {
		*v = value
	}
}

// limit is the range of a parameter; low and high are finite.
type limit struct {
	name         string
	v, low, high float64
}

// within refuses the first parameter that is out of its range.
func within(limits ...limit) error {
	for _, l := range limits {
		if !(l.v >= l.low && l.v <= l.high) {
			return fmt.Errorf("%w: %s %v must be in [%v, %v]", ErrConfig, l.name, l.v, l.low, l.high)
		}
	}
	return nil
}

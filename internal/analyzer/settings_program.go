package analyzer

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/riffle-dp/riffle/internal/config"
	"github.com/riffle-dp/riffle/pkg/glm"
	"github.com/riffle-dp/riffle/pkg/glm/family"
	"github.com/riffle-dp/riffle/pkg/glm/learner"
)

// program are the settings that only programs have, nil for other profiles. A tunable that cannot be read is left out;
// Validate names it.
func (l LearnerSettings) program() *learner.ProgramConfig {
	if !glm.Profile(l.Profile).Program() {
		return nil
	}
	c := &learner.ProgramConfig{Arms: l.Arms, Failure: l.Failure, Variant: l.Variant}
	for _, text := range l.Tunables {
		if name, v, err := tunable(text); err == nil {
			if c.Options == nil {
				c.Options = map[string]float64{}
			}
			c.Options[name] = v
		}
	}
	return c
}

// tunable reads NAME=VALUE.
func tunable(text string) (name string, v float64, err error) {
	name, value, _ := strings.Cut(text, "=")
	if v, err = strconv.ParseFloat(value, 64); err != nil || name == "" || math.IsNaN(v) || math.IsInf(v, 0) {
		return "", 0, fmt.Errorf("%q is not NAME=NUMBER", text)
	}
	return name, v, nil
}

// othersFaults lists settings that the profile would not read. What is not asked of a profile is 0.
func (l LearnerSettings) othersFaults() (faults []error) {
	for _, of := range []struct {
		key   string
		value any
		set   bool
		reads glm.Profile
	}{
		{"first_cohort", l.FirstCohort, l.FirstCohort != 0, glm.Practical},
		{"growth", l.Growth, l.Growth != 0, glm.Practical},
		{"sampling", l.Sampling, l.Sampling != 0, glm.Practical},
		{"explorer_share", l.ExplorerShare, l.ExplorerShare != 0, glm.Practical},
		{"width", l.Width, l.Width != 0, glm.Paper}, {"rounds", l.Rounds, l.Rounds != 0, glm.Paper},
		{"batch", l.Batch, l.Batch > 0, glm.Joint},
	} {
		if of.set && of.reads != glm.Profile(l.Profile) {
			faults = append(faults, config.Conflict(of.key, of.value, "cannot go with", "profile", l.Profile).
				Because("only the profile "+string(of.reads)+" reads it; learners of other papers have tunables"))
		}
	}
	return faults
}

// programFaults lists what is wrong with the settings of programs by themselves. What a program makes of its tunables
// is found out when it is planned.
func (l LearnerSettings) programFaults() (faults []error) {
	profile := glm.Profile(l.Profile)
	if !profile.Program() {
		for _, of := range []struct {
			key   string
			value any
			set   bool
		}{
			{"arms", l.Arms, l.Arms != 0}, {"failure", l.Failure, l.Failure != 0},
			{"variant", l.Variant, l.Variant != ""},
			{"tunables", strings.Join(l.Tunables, ","), len(l.Tunables) > 0},
		} {
			if of.set {
				faults = append(faults, config.Conflict(of.key, of.value, "cannot go with", "profile", l.Profile).
					Because("it is for the profiles of other papers' learners"))
			}
		}
		return faults
	}
	if l.Family != family.NameLinear {
		if _, err := family.New(l.Family, 1); err == nil {
			faults = append(faults, config.Conflict("family", l.Family, "cannot go with", "profile", l.Profile).
				Because("this learner takes the mean reward to be linear in the arm: set family to "+family.NameLinear))
		}
	}
	seen := map[string]bool{}
	for _, text := range l.Tunables {
		name, _, err := tunable(text)
		if err != nil || seen[name] {
			faults = append(faults, config.Wrong("tunables", text, "must be NAME=NUMBER, each name once"))
		}
		seen[name] = true
	}
	for _, try := range []struct {
		key   string
		value any
		set   func(*learner.ProgramConfig)
	}{
		{"arms", l.Arms, func(c *learner.ProgramConfig) { c.Arms = l.Arms }},
		{"failure", l.Failure, func(c *learner.ProgramConfig) { c.Failure = l.Failure }},
	} {
		c := plausible(profile)
		c.Program = &learner.ProgramConfig{}
		try.set(c.Program)
		if _, err := c.Resolve(); err != nil {
			faults = append(faults, refusal(try.key, try.value, err, learner.ErrConfig))
		}
	}
	return faults
}

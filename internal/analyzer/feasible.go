package analyzer

import (
	"fmt"
	"strings"

	"github.com/riffle-dp/riffle/internal/config"
	"github.com/riffle-dp/riffle/pkg/deployment"
	"github.com/riffle-dp/riffle/pkg/glm"
	"github.com/riffle-dp/riffle/pkg/glm/family"
	"github.com/riffle-dp/riffle/pkg/glm/learner"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/privacy"
	"github.com/riffle-dp/riffle/pkg/seal"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// configuration is the public part of the settings.
func (s Settings) configuration() wire.Configuration {
	return Config{Learner: s.learner(), Anytime: s.Learner.Anytime, Batch: s.Learner.Batch, Terms: s.terms(),
		Timing: s.timing(), Rules: s.Rules.rules(), Schema: s.announcedSchema()}.configuration()
}

// Planned plans every cohort of the schedule and gives each plan to f, which does not change it.
func (s Settings) Planned(f func(learner.Step, *plan.Proposal)) error {
	_, err := deployment.Planned(s.configuration(), f)
	return err
}

// NoiseRatio is the largest variance of a planned release over that of a trusted curator's Gaussian mechanism with the
// same budget; 1 in the profile joint, whose curator is one.
func (s Settings) NoiseRatio() (largest float64, err error) {
	err = s.Planned(func(_ learner.Step, p *plan.Proposal) {
		for _, r := range p.Details.Releases {
			largest = max(largest, r.VarianceRatio)
		}
		if p.Plan.Curator != nil {
			largest = 1
		}
	})
	return largest, err
}

// sizeFaults is the fault that the broker would not store the reports of a plan: people would enrol, and each cohort
// would be destroyed.
func (s Settings) sizeFaults(largest int) []error {
	size := wire.EnvelopeSize(largest)
	if largest == 0 || s.MaxReportSize <= 0 || size <= s.MaxReportSize {
		return nil
	}
	needs := fmt.Sprintf("is less than the %d bytes of a report, which the plan needs", size)
	remedy := fmt.Sprintf("give the broker room with riffle broker provision --max-report-size %d or more "+
		"and say so here", size)
	if s.Privacy.channel() == plan.Shuffle {
		needs = fmt.Sprintf("is less than the %d bytes of a report of %d bit messages, which the plan needs", size,
			largest/seal.BitSize)
		remedy += ", or lower privacy.max_messages"
	}
	fault := config.Wrong("max_report_size", s.MaxReportSize, needs)
	return []error{fault.Because(remedy).Given("learner", "privacy")}
}

// Feasible tells why a deployment with these settings cannot be planned; nil if it can. It does not look at keys and
// broker.
func (s Settings) Feasible() error {
	_, _, err := deployment.Feasible(s.configuration())
	return err
}

// infeasible makes an error of feasible a fault of the configuration.
func infeasible(err error) error {
	return config.Jointly(err.Error(), "learner", "privacy")
}

// faults lists what is wrong with the settings together, and with the keys.
func (s Settings) faults() (faults []error) {
	if _, err := s.keys(); err != nil {
		faults = append(faults, err)
	}
	_, largest, err := deployment.Feasible(s.configuration())
	if err != nil {
		faults = append(faults, infeasible(err))
	}
	return append(faults, s.sizeFaults(largest)...)
}

// plausible is a valid learner's configuration, in which one value at a time is tried.
func plausible(profile glm.Profile) learner.Config {
	return learner.Config{Profile: profile, Dimension: 2, Horizon: 10_000}
}

// Validate lists what is wrong with values by themselves, by the learner's rules.
func (l LearnerSettings) Validate() (faults []error) {
	profile := glm.Profile(l.Profile)
	horizons := profile == glm.Practical // whether the profile can go on after its horizon
	if profile == glm.Joint {
		profile = glm.Practical // whose rules for what they have in common are the same
	}
	wrong := func(key string, value any, c learner.Config) {
		if _, err := c.Resolve(); err != nil {
			faults = append(faults, refusal(key, value, err, learner.ErrConfig))
		}
	}
	if wrong("profile", l.Profile, plausible(profile)); len(faults) > 0 {
		profile, horizons = glm.Practical, true
	} else {
		faults = l.othersFaults()
	}
	if l.Anytime && !horizons {
		faults = append(faults, config.Conflict("anytime", true, "must be false with", "profile", l.Profile).
			Because("this profile's schedule and widths are made for one horizon"))
	}
	faults = append(append(faults, l.armFaults()...), l.programFaults()...)
	if l.Batch < 0 {
		faults = append(faults, config.Wrong("batch", l.Batch, "must be at least 0"))
	}
	if _, err := family.New(l.Family, 1); err != nil {
		faults = append(faults, refusal("family", l.Family, err, learner.ErrConfig))
	} else if _, err := family.New(l.Family, l.MaxReward); err != nil {
		faults = append(faults, refusal("max_reward", l.MaxReward, err, learner.ErrConfig).Given("family"))
	}
	for _, try := range []struct {
		key   string
		value any
		set   func(*learner.Config)
	}{
		{"radius", l.Radius, func(c *learner.Config) { c.Radius = l.Radius }},
		{"horizon", l.Horizon, func(c *learner.Config) { c.Horizon = l.Horizon }},
		{"first_cohort", l.FirstCohort, func(c *learner.Config) { c.Practical.FirstCohort = l.FirstCohort }},
		{"growth", l.Growth, func(c *learner.Config) { c.Practical.Growth = l.Growth }},
		{"width", l.Width, func(c *learner.Config) { c.Paper.Width = l.Width }},
		{"sampling", l.Sampling, func(c *learner.Config) { c.Practical.Sampling = l.Sampling }},
		{"explorer_share", l.ExplorerShare, func(c *learner.Config) { c.Practical.ExplorerShare = l.ExplorerShare }},
		{"rounds", l.Rounds, func(c *learner.Config) { c.Paper.Rounds = l.Rounds }},
		{"half_life", l.HalfLife, func(c *learner.Config) { c.Practical.HalfLife = l.HalfLife }},
		{"alarm", l.Alarm, func(c *learner.Config) { c.Practical.Alarm = l.Alarm }},
		{"control", l.Control, func(c *learner.Config) { c.Practical.Control = l.Control }},
		{"control_share", l.ControlShare, func(c *learner.Config) {
			c.Practical.Control, c.Practical.ControlShare = 0.05, l.ControlShare
		}},
		{"caution", l.Caution, func(c *learner.Config) { c.Practical.Caution = l.Caution }},
	} {
		c := plausible(profile)
		try.set(&c)
		wrong(try.key, try.value, c)
	}
	return faults
}

// promise lists what is wrong with epsilon and delta, and with the limits of what they may cost.
func (p PrivacySettings) promise() (faults []error) {
	for _, try := range []struct {
		key   string
		value float64
		check func(float64) error
	}{{"epsilon", p.Epsilon, privacy.CheckEpsilon}, {"delta", p.Delta, privacy.CheckDelta}} {
		if err := try.check(try.value); err != nil {
			faults = append(faults, refusal(try.key, try.value, err, privacy.ErrTarget))
		}
	}
	for _, limit := range []struct {
		key   string
		value any
		good  bool
	}{{"variance_ratio", p.VarianceRatio, p.VarianceRatio >= 0}, {"max_shift", p.MaxShift, p.MaxShift >= 0 ||
		p.MaxShift == byChannel}} {
		if !limit.good {
			faults = append(faults, config.Wrong(limit.key, limit.value, "must not be negative"))
		}
	}
	return faults
}

// refusal is the fault of a value that is not accepted with an error of the given kind, which the key says already.
func refusal(key string, value any, err, kind error) *config.Fault {
	return config.Wrong(key, value, "is refused").Because(strings.TrimPrefix(err.Error(), kind.Error()+": "))
}

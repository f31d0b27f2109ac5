package learner_test

import (
	"encoding/json"
	"errors"
	"math"
	"testing"

	"github.com/riffle-dp/riffle/pkg/glm"
	"github.com/riffle-dp/riffle/pkg/glm/family"
	"github.com/riffle-dp/riffle/pkg/glm/learner"
	"github.com/riffle-dp/riffle/pkg/glm/statistic"
)

func TestConfigRefusesBadValues(t *testing.T) {
	good := learner.Config{Dimension: 3, Horizon: 3000}
	for name, spoil := range map[string]func(c *learner.Config){
		"profile":       func(c *learner.Config) { c.Profile = "best" },
		"family":        func(c *learner.Config) { c.Family = "cauchy" },
		"reward":        func(c *learner.Config) { c.MaxReward = 3 },
		"dimension":     func(c *learner.Config) { c.Dimension = 0 },
		"horizon":       func(c *learner.Config) { c.Horizon = -1 },
		"radius":        func(c *learner.Config) { c.Radius = math.NaN() },
		"large radius":  func(c *learner.Config) { c.Radius = 1e9 },
		"epsilon":       func(c *learner.Config) { c.Epsilon = -1 },
		"delta":         func(c *learner.Config) { c.Delta = 1 },
		"min cohort":    func(c *learner.Config) { c.MinCohort = -1 },
		"growth":        func(c *learner.Config) { c.Practical.Growth = .5 },
		"share":         func(c *learner.Config) { c.Practical.HessianShare = 1 },
		"prior":         func(c *learner.Config) { c.Practical.Prior = -1 },
		"first":         func(c *learner.Config) { c.Practical.FirstCohort = -1 },
		"paper horizon": func(c *learner.Config) { c.Profile, c.Horizon = glm.Paper, 900 },
		"paper width with proof": func(c *learner.Config) {
			c.Profile, c.Paper.Constants, c.Paper.Width = glm.Paper, learner.ProofConstants, 1
		},
		"paper constants": func(c *learner.Config) { c.Profile, c.Paper.Constants = glm.Paper, "lucky" },
		"paper kappa":     func(c *learner.Config) { c.Profile, c.Paper.Kappa = glm.Paper, .5 },
		"paper rounds":    func(c *learner.Config) { c.Profile, c.Paper.Rounds = glm.Paper, -1 },
	} {
		cfg := good
		spoil(&cfg)
		if _, err := learner.New(cfg); !errors.Is(err, learner.ErrConfig) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, cfg := range profiles() { // resolving twice changes nothing, through JSON too
		once, err := cfg.Resolve()
		if err != nil {
			t.Fatal(err)
		}
		var back learner.Config
		if err := json.Unmarshal([]byte(text(t, once)), &back); err != nil {
			t.Fatal(err)
		}
		twice, err := back.Resolve()
		if err != nil || text(t, twice) != text(t, once) {
			t.Errorf("%s\n%s\n%v", text(t, once), text(t, twice), err)
		}
		if l := newLearner(t, cfg); sum(l.Schedule()) != cfg.Horizon {
			t.Errorf("schedule %v of %d people", l.Schedule(), cfg.Horizon)
		}
	}
}

// The resolved configuration, which is what a log holds, has the share by which slopes may be wrong, at the largest
// radius too.
func TestConfigurationsSayHowSlopesBend(t *testing.T) {
	for _, c := range []struct {
		family             string
		radius, bend, want float64
	}{
		{family.NameLogistic, 3, 0, family.Flatness(family.Logistic{}, 3)},
		{family.NameLogistic, statistic.MaxParameterNorm, 0, 1},
		{family.NameLogistic, 3, 0.1, 0.1},
		{family.NameLogistic, 3, -1, -1},
		{family.NameLinear, 3, 0, 0},
	} {
		cfg := learner.Config{Dimension: 2, Horizon: 1000, Family: c.family, Radius: c.radius}
		cfg.Practical.Bend = c.bend
		for range 2 { // resolved again it is the same
			var err error
			if cfg, err = cfg.Resolve(); err != nil || math.Abs(cfg.Practical.Bend-c.want) > 1e-9 {
				t.Errorf("%+v: %v, %v", c, cfg.Practical.Bend, err)
			}
		}
	}
}

package device

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/riffle-dp/riffle/pkg/glm"
	"github.com/riffle-dp/riffle/pkg/glm/learner"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/privacy"
)

// planned is an announcement that was planned for epsilon 1 on one machine, and what its plan came to there.
type planned struct {
	Name      string            `json:"name"`
	Signed    []byte            `json:"signed"`
	Guarantee privacy.Guarantee `json:"guarantee"`
	Alone     privacy.Epsilon   `json:"alone"`
}

// measured is how far guarantees of two platforms were apart at most, with room: 4e-13 between amd64 and arm64.
const measured = 1e-11

// What an analyzer plans on amd64 for exactly the epsilon that people's limits have, a device accepts on every
// platform: it comes to the same guarantee but for rounding, and what the planner leaves unused is many times that.
func TestPlatformsAgree(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	file := filepath.Join("testdata", "platforms.json")
	var all []planned
	if *update {
		all = f.planned()
	} else if err := json.Unmarshal(must(os.ReadFile(file)), &all); err != nil || len(all) < 12 {
		t.Fatal(len(all), err)
	}
	c := f.everywhere()
	c.Limits = DefaultLimits()
	c.Limits.Trust = plan.Channels()
	core, worst, least := must(New(c)), 0.0, 1.0
	off := func(x, y float64) float64 {
		if x == y { // infinite, too
			return 0
		}
		return math.Abs(x/y - 1)
	}
	for i, p := range all {
		a := must(core.Judge(p.Signed, 1, 0))
		if a.Weak() != nil {
			t.Fatalf("%s: %v", p.Name, a.Weak())
		}
		n := a.Plan.PerPerson()
		g, alone := a.Guarantee(), a.Alone().Epsilon(c.Limits.Delta)
		if *update {
			all[i].Guarantee, all[i].Alone = g, privacy.Epsilon(alone)
			p = all[i]
		}
		apart := max(off(g.Mu, p.Guarantee.Mu), off(g.TailDelta, p.Guarantee.TailDelta), off(g.Rho, p.Guarantee.Rho),
			off(alone, float64(p.Alone)))
		unused := 1 - privacy.Repeat(g, n).Epsilon(c.Limits.Delta)/c.Limits.Epsilon
		if !(apart <= measured) {
			t.Errorf("%s: %+v and %v alone, and it was %+v and %v: apart by %.1g", p.Name, g, alone, p.Guarantee,
				p.Alone, apart)
		}
		if !(unused >= privacy.Agreement) {
			t.Errorf("%s: the planner leaves only %.2g of epsilon", p.Name, unused)
		}
		worst, least = max(worst, apart), min(least, unused)
	}
	t.Logf("%d plans: apart by %.1g at most, unused at least %.2g of epsilon", len(all), worst, least)
	if *update {
		if err := os.WriteFile(file, append(must(json.MarshalIndent(all, "", "\t")), '\n'), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	// Ten thousand times as much is less than what certificates are raised by, and what plans leave.
	if measured*1e4 > privacy.Agreement {
		t.Error("the margin is no margin")
	}
}

// planned are plans of every channel: of one round and of two, in 2 and 5 dimensions, of arrivals and panels.
func (f *fixture) planned() (all []planned) {
	for _, c := range plan.Channels() {
		for _, of := range []struct {
			profile     glm.Profile
			dim, cohort int
			registered  int
		}{
			{glm.Practical, 2, 200, 0}, {glm.Practical, 5, 1000, 0}, {glm.Practical, 5, 1000, 20_000},
			{glm.Paper, 2, 200, 0},
		} {
			l := must(learner.New(learner.Config{
				Profile: of.profile, Dimension: of.dim, Radius: 1, Horizon: 100_000, Epsilon: 1, Delta: 1e-6,
				MinCohort: of.cohort, Practical: learner.PracticalConfig{FirstCohort: of.cohort, Growth: 1},
				Paper: learner.PaperConfig{Rounds: 2},
			}))
			step := l.Next()
			step.Cohort = of.cohort
			terms := plan.Terms{Epsilon: 1, Delta: 1e-6, DropOut: 0.05, MinCohort: of.cohort * 95 / 100, Channel: c}
			if of.registered > 0 {
				terms.Registered, terms.Decisions, terms.Records = of.registered, 3, 2
			}
			if c == plan.Central {
				terms.NoDeviceNoise, terms.ServerNoise = true, 1
			}
			p := must(plan.Propose(step, terms))
			a := f.announcement(glm.Practical)
			a.Policy, a.Plan, a.Cohort, a.Encodings = step.Policy, p.Plan, p.Cohort, p.Encodings
			a.Evaluate(step)
			if of.registered > 0 {
				a.Commitment = make([]byte, 32)
			}
			all = append(all, planned{
				Name: fmt.Sprintf("%s, %s, dimension %d, %d people of %d", c, of.profile, of.dim, of.cohort,
					of.registered),
				Signed: f.announce(a),
			})
		}
	}
	return all
}

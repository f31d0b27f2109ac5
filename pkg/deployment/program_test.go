package deployment_test

import (
	"bytes"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/riffle-dp/riffle/pkg/deployment"
	"github.com/riffle-dp/riffle/pkg/glm"
	"github.com/riffle-dp/riffle/pkg/glm/family"
	"github.com/riffle-dp/riffle/pkg/glm/learner"
	"github.com/riffle-dp/riffle/pkg/glm/statistic"
	"github.com/riffle-dp/riffle/pkg/learn/bandit"
	"github.com/riffle-dp/riffle/pkg/learn/program"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// programmed is a small deployment of a program. The channel local carries what every program asks for.
func programmed(p glm.Profile, channel plan.Channel) wire.Configuration {
	c := wire.Configuration{
		Deployment: "clinic",
		Learner: learner.Config{Profile: p, Dimension: 2, Radius: 1, Horizon: 400, Epsilon: 4, Delta: 1e-3,
			MinCohort: 40},
		Terms: plan.DefaultTermsFor(channel),
	}
	c.Terms.Epsilon, c.Terms.Delta, c.Terms.MinCohort = 4, 1e-3, 30
	return c
}

// A program's rounds are announced, absorbed and learned from; a machine that is made of the resolved configuration and
// given the same counts, as after a crash or in an audit, comes to the same statements, destroyed cohorts included.
func TestProgramsAreReplayed(t *testing.T) {
	for _, p := range glm.Programs() {
		first := begin(t, programmed(p, plan.Local))
		again := begin(t, first.Configuration())
		if a, b := first.Configuration(), again.Configuration(); !reflect.DeepEqual(a, b) {
			t.Fatalf("%s: %+v became %+v", p, a.Learner, b.Learner)
		}
		if l := first.Configuration().Learner; l.Program == nil || len(l.Program.Options) == 0 ||
			l.Family != family.NameLinear {
			t.Errorf("%s: the defaults are not filled in: %+v", p, l)
		}
		epochs := 0
		for ; ; epochs++ {
			a, b := first.announce(), again.announce()
			if !reflect.DeepEqual(a, b) {
				t.Fatalf("%s: announced are\n%+v and\n%+v", p, a, b)
			}
			if a.Final {
				break
			}
			counts := first.counts(a.Cohort.Size - 1)
			if epochs == 1 {
				counts = &wire.Counts{Deployment: a.Deployment, Epoch: a.Epoch, Announcement: first.digest[:],
					Manifest: make([]byte, 32), Destroyed: true}
			}
			one, two := first.absorb(counts), again.absorb(counts)
			if !reflect.DeepEqual(one, two) {
				t.Fatalf("%s: learned are\n%+v and\n%+v", p, one, two)
			}
			if one.Destroyed != (epochs == 1) || one.Destroyed != (one.Sums == nil) {
				t.Errorf("%s: epoch %d: learned is %+v", p, epochs, one)
			}
			if next, err := first.Estimate(); err != nil || !one.Destroyed && !slices.Equal(next.Theta, one.Iterate) &&
				first.a.Final {
				t.Errorf("%s: %+v, %v", p, next, err)
			}
		}
		if epochs < 3 {
			t.Errorf("%s: %d cohorts are too few for a test", p, epochs)
		}
		final := first.a.Policy
		if final.Play != glm.PlayGreedy || final.Profile != p || bytes.Equal(first.digest[:], nil) {
			t.Errorf("%s: the last policy is %+v", p, final)
		}
	}
}

// A device takes what the analyzer announces of a program: the policy is sound, the statistics are those that the
// device derives, and the plan keeps its promise.
func TestProgramsAnnouncementsAreFollowed(t *testing.T) {
	for profile, numbers := range map[glm.Profile]int{glm.LinUCB: 5, glm.EliminationReweighted: 3,
		glm.EliminationLinear: 3, glm.SquareCB: 2} { // of the first round
		for _, channel := range plan.Channels() {
			r, kinds := begin(t, programmed(profile, channel)), map[statistic.Kind]bool{}
			for first := true; !r.announce().Final; first = false {
				if err := r.a.Policy.Validate(); err != nil {
					t.Fatal(err)
				}
				g, _, err := plan.Lifetime(r.a)
				if err != nil || g.Epsilon(1e-3) > 4 {
					t.Errorf("%s over %s: epoch %d: %v, %v", profile, channel, r.a.Epoch, g.Epsilon(1e-3), err)
				}
				round, err := plan.CheckRound(r.a)
				if err != nil {
					t.Fatalf("%s over %s: epoch %d: %v", profile, channel, r.a.Epoch, err)
				}
				n := 0
				for _, s := range round.Statistics {
					n, kinds[s.Kind] = n+s.Dim(), true
				}
				if first && n != numbers {
					t.Errorf("%s over %s: %+v", profile, channel, round.Statistics)
				}
				r.absorb(r.counts(r.a.Cohort.Size))
			}
			if n := map[bool]int{true: 1, false: 2}[profile == glm.SquareCB]; len(kinds) != n {
				t.Errorf("%s over %s: asked were %v", profile, channel, kinds)
			}
		}
	}
}

// The estimate has the confidence set's widths, and says that a width is not proved.
func TestProgramsEstimates(t *testing.T) {
	r := begin(t, programmed(glm.LinUCB, plan.Shares))
	if e := r.estimate(); e.Cohorts != 0 || e.HalfWidth != nil || e.Predicted.Neutral != 0 {
		t.Errorf("%+v", e)
	}
	for !r.announce().Final {
		r.absorb(r.counts(r.a.Cohort.Size))
		e := r.estimate()
		if len(e.HalfWidth) != 2 || !(e.HalfWidth[0] > 0) || !strings.Contains(e.Interval, "confidence set") {
			t.Errorf("%+v", e)
		}
	}
	if e := r.estimate(); !slices.Equal(e.Theta, r.a.Policy.Theta) || e.HalfWidth == nil {
		t.Errorf("%+v, the last policy is %+v", e, r.a.Policy)
	}
}

// What a program cannot do is refused before anything runs, with what is wrong.
func TestProgramsAreRefused(t *testing.T) {
	for name, of := range map[string]struct {
		spoil func(*wire.Configuration)
		is    error
		says  string
	}{
		"family": {func(c *wire.Configuration) { c.Learner.Family = family.NameLogistic }, learner.ErrConfig,
			"for the family linear"},
		"anytime": {func(c *wire.Configuration) { c.Anytime = true }, learner.ErrExtend, "one horizon"},
		"panels": {func(c *wire.Configuration) {
			c.Learner.Practical.Panel, c.Terms.Registered = 100, 1000
		}, learner.ErrConfig, "panels need the profile practical"},
		"decisions": {func(c *wire.Configuration) { c.Terms.Decisions, c.Learner.Practical.Decisions = 2, 2 },
			learner.ErrConfig, "need panels"},
		"control": {func(c *wire.Configuration) { c.Learner.Practical.Control = 0.1 }, learner.ErrConfig,
			"control group needs the profile"},
		"option": {func(c *wire.Configuration) {
			c.Learner.Program = &learner.ProgramConfig{Options: map[string]float64{bandit.First: 0.1}}
		}, program.ErrRefused, "first cohort"},
		"people": {func(c *wire.Configuration) { c.Learner.Horizon, c.Learner.MinCohort = 20, 20 }, nil, "cohort"},
	} {
		c := programmed(glm.LinUCB, plan.Shuffle)
		of.spoil(&c)
		_, err := deployment.New(c)
		if err == nil || of.is != nil && !errors.Is(err, of.is) || !strings.Contains(err.Error(), of.says) ||
			!strings.HasPrefix(err.Error(), "deployment: ") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

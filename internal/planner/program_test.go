package planner_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/riffle-dp/riffle/internal/planner"
	"github.com/riffle-dp/riffle/pkg/glm"
	"github.com/riffle-dp/riffle/pkg/glm/family"
	"github.com/riffle-dp/riffle/pkg/plan"
)

func programmed() planner.Options {
	return planner.Options{Learner: glm.LinUCB, Users: 3000, Dimension: 3, Family: family.NameLinear, MaxReward: 1,
		Radius: 1, Terms: plan.DefaultTermsFor(plan.Shares)}
}

// The cohorts of a plan are the program's own, every channel that carries them is planned, and what is learnt is
// predicted with the program.
func TestProgramsArePlanned(t *testing.T) {
	o := programmed()
	o.Channel = plan.Shares
	r, err := planner.Run(o)
	if err != nil {
		t.Fatal(err)
	}
	people := 0
	for _, c := range r.Cohorts {
		people += c.Size
		if len(c.Releases) != 2 || c.Releases[0].Coordinates != 6 || !(c.Epsilon <= o.Epsilon) {
			t.Errorf("%+v", c)
		}
	}
	if people != 3000 || len(r.Cohorts) < 3 || r.Learner != glm.LinUCB || r.Exploration != "" || r.HessianShare != 0 {
		t.Errorf("%d people in %d cohorts of %s, exploring: %q", people, len(r.Cohorts), r.Learner, r.Exploration)
	}
	for _, c := range r.Channels {
		if c.Infeasible != "" {
			t.Errorf("%s: %s", c.Trust, c.Infeasible)
		}
	}
	if err := planner.Predict(context.Background(), o, planner.Prediction{Runs: 2}, r); err != nil {
		t.Fatal(err)
	}
	// Of 2 runs: the gain is .09 with a deviation below .01.
	if c := r.Prediction.Cases[r.Prediction.Asked]; !(c.Last.Mean > 0.03) {
		t.Errorf("the last policy gains %+v", c.Last)
	}
}

// Of a program whose questions depend on the answers, as those of layered regression do, what it really asks is planned
// as it comes up, and its last policy is valued by its trees.
func TestProgramsThatAskOtherwiseArePredicted(t *testing.T) {
	o := programmed()
	o.Learner, o.Dimension, o.Epsilon, o.Channel = glm.RegCB, 2, 20, plan.Shares
	r, err := planner.Run(o)
	if err != nil {
		t.Fatal(err)
	}
	if err := planner.Predict(context.Background(), o, planner.Prediction{Runs: 2}, r); err != nil {
		t.Fatal(err)
	}
	// The gain is .08 with a deviation of .014; without its trees the last policy would play the first arm.
	c := r.Prediction.Cases[r.Prediction.Asked]
	if !(c.Last.Mean > 0.03) {
		t.Errorf("the last policy gains %+v", c.Last)
	}
}

// A program of pairs is planned and predicted over the one channel that carries them; the others have no plan. Where it
// is not to run, the default is tried in its place, and channels that do not carry it are named as such.
func TestProgramsOfPairsArePlanned(t *testing.T) {
	o := programmed()
	o.Learner, o.Users, o.Channel, o.Terms = glm.OnlineLinUCB, 600, plan.Local, plan.DefaultTermsFor(plan.Local)
	r, err := planner.Run(o)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range r.Channels {
		if (c.Infeasible == "") != (c.Trust == plan.Local) || c.Recommended != (c.Trust == plan.Local) {
			t.Errorf("%s: %q, recommended: %v", c.Trust, c.Infeasible, c.Recommended)
		}
	}
	if err := planner.Predict(context.Background(), o, planner.Prediction{Runs: 2}, r); err != nil {
		t.Fatal(err)
	}
	p := r.Prediction
	if p.Verdict != planner.DoNotRun || len(p.Changes) == 0 || p.Changes[0].What != "--learner practical" {
		t.Fatalf("600 people over local at epsilon 1: %s, %+v", p.Verdict, p.Changes)
	}
	if last := p.Changes[len(p.Changes)-1]; last.What != "the channel shares" || last.Impossible == "" {
		t.Errorf("%+v", last)
	}
}

func TestPlansOfProgramsAreRefused(t *testing.T) {
	for says, spoil := range map[string]func(*planner.Options){
		"--cohort":               func(o *planner.Options) { o.Cohorts = []int{500} },
		"--releases":             func(o *planner.Options) { o.Releases = 2 },
		"--hessian-share":        func(o *planner.Options) { o.HessianShare = 0.3 },
		"--theta-norm":           func(o *planner.Options) { o.ThetaNorm = 1 },
		"--mean-messages":        func(o *planner.Options) { o.MeanMessages = 100 },
		"--registered":           func(o *planner.Options) { o.Registered = 1000 },
		"plans are of practical": func(o *planner.Options) { o.Learner = glm.Paper },
		"for the family linear":  func(o *planner.Options) { o.Family = family.NameLogistic },
		"--trust local":          func(o *planner.Options) { o.Learner = glm.OnlineLinUCB },
		"--learner x":            func(o *planner.Options) { o.Learner = "x" },
	} {
		o := programmed()
		spoil(&o)
		if _, err := planner.Run(o); !errors.Is(err, planner.ErrOptions) || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", says, err)
		}
	}
}

package planner

import (
	"os"
	"testing"

	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/privacy"
)

// In every channel there is a plan across the range of promises that can be stated (privacy.CheckTarget), and it keeps
// the promise. The long test has the whole grid; the short one its cheap points, the least epsilon and the least delta
// among them.
func TestStatedRangesHold(t *testing.T) {
	serial(t)
	targets := [][2]float64{{privacy.MinEpsilon, privacy.MaxDelta}, {1e-3, 1e-6}, {1, privacy.MinDelta},
		{10, privacy.MaxDelta}}
	if os.Getenv("RIFFLE_LONG") != "" {
		targets = nil
		for _, epsilon := range []float64{privacy.MinEpsilon, 1e-4, 1e-2, 1, 10, 30, privacy.MaxEpsilon} {
			for _, delta := range []float64{privacy.MinDelta, 1e-12, 1e-6, privacy.MaxDelta} {
				targets = append(targets, [2]float64{epsilon, delta})
			}
		}
	}
	for _, target := range targets {
		for _, c := range plan.Channels() {
			o := Options{Terms: plan.DefaultTermsFor(c), Cohorts: []int{1000}, Dimension: 5, Family: "logistic",
				MaxReward: 1, Radius: 2}
			o.Epsilon, o.Delta = target[0], target[1]
			if err := o.check(); err != nil {
				t.Fatal(err)
			}
			config, err := o.configured()
			if err != nil {
				t.Fatal(err)
			}
			steps, err := o.steps(config)
			if err != nil {
				t.Fatal(err)
			}
			p, err := o.propose(new(plan.Proposer), steps[0], c, plan.LeastMessages)
			if err != nil {
				t.Errorf("%s, epsilon %g, delta %g: %v", c, o.Epsilon, o.Delta, err)
				continue
			}
			g, err := plan.Guarantee(p.announcement, 0)
			if err != nil || !(g.Epsilon(o.Delta) <= o.Epsilon) {
				t.Errorf("%s, epsilon %g, delta %g: the plan gives %g (%v)", c, o.Epsilon, o.Delta, g.Epsilon(o.Delta),
					err)
			}
		}
	}
	for _, beyond := range [][2]float64{{privacy.MaxEpsilon * 1.01, 1e-6}, {1, privacy.MinDelta / 2}, {1, 2e-3}} {
		o := Options{Terms: plan.DefaultTerms(), Users: 5000, Dimension: 5}
		o.Epsilon, o.Delta = beyond[0], beyond[1]
		if _, err := Run(o); err == nil {
			t.Errorf("epsilon %g, delta %g are planned", o.Epsilon, o.Delta)
		}
	}
}

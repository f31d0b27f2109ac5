package deployment_test

import (
	"slices"
	"testing"

	"github.com/riffle-dp/riffle/pkg/deployment"
	"github.com/riffle-dp/riffle/pkg/glm"
	"github.com/riffle-dp/riffle/pkg/glm/learner"
	"github.com/riffle-dp/riffle/pkg/plan"
)

// Every cohort of the schedule is shown with a plan for its size, and one size is planned once: planning takes nearly
// all of the time in which a deployment starts.
func TestEveryCohortIsPlannedAndOneSizeOnce(t *testing.T) {
	c := configuration(glm.Practical)
	for _, growth := range []float64{1, 2} {
		c.Learner.Practical.Growth = growth
		var sizes []int
		var plans []*plan.Proposal
		l, err := deployment.Planned(c, func(s learner.Step, p *plan.Proposal) {
			if p.Cohort.Size != uint32(s.Cohort) {
				t.Errorf("growth %v: a plan for %d people in a cohort of %d", growth, p.Cohort.Size, s.Cohort)
			}
			sizes, plans = append(sizes, s.Cohort), append(plans, p)
		})
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(sizes, l.Schedule()) || len(sizes) < 2 {
			t.Errorf("growth %v: planned are %d, the schedule is %d", growth, sizes, l.Schedule())
		}
		for i := 1; i < len(sizes); i++ {
			if (plans[i] == plans[i-1]) != (sizes[i] == sizes[i-1]) {
				t.Errorf("growth %v: cohorts %d and %d, of %d and %d people", growth, i, i+1, sizes[i-1], sizes[i])
			}
		}
	}
}

package plan_test

import (
	"fmt"

	"github.com/riffle-dp/riffle/pkg/glm/learner"
	"github.com/riffle-dp/riffle/pkg/plan"
)

// The analyzer proposes a plan for its learner's next step and announces it. A device computes the guarantee from the
// announced numbers, and derives from them how it encodes its record.
func Example() {
	learner, err := learner.New(learner.Config{Dimension: 5, Horizon: 5000})
	if err != nil {
		fmt.Println(err)
		return
	}
	step := learner.Next()
	proposal, err := plan.Propose(step, plan.DefaultTerms())
	if err != nil {
		fmt.Println(err)
		return
	}
	announced := &plan.Announcement{
		Epoch: 1, Policy: step.Policy, Reference: make([]float64, step.Policy.Dimension),
		Plan: proposal.Plan, Encodings: proposal.Encodings, Cohort: proposal.Cohort,
	}

	for _, dishonest := range []int{0, 10} { // the device's own bound on dishonest reports
		guarantee, err := plan.Guarantee(announced, dishonest)
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Printf("epsilon %.2f with at most %d dishonest reports\n", guarantee.Epsilon(1e-6), dishonest)
	}
	encoder, err := plan.CheckRound(announced)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("cohort of %d, at least %d\n", announced.Cohort.Size, announced.Cohort.Minimum)
	fmt.Println(encoder.Messages, "bit messages in each report")
	// Output:
	// epsilon 1.00 with at most 0 dishonest reports
	// epsilon 1.04 with at most 10 dishonest reports
	// cohort of 128, at least 122
	// 150 bit messages in each report
}

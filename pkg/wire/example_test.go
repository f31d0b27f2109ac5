package wire_test

import (
	"bytes"
	"errors"
	"fmt"
	"time"

	"github.com/riffle-dp/riffle/pkg/glm/learner"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/seal"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// The analyzer signs an announcement; a device opens it with the analyzer's public key and has the same struct.
func Example() {
	analyzer, err := seal.NewIdentity(bytes.Repeat([]byte{1}, 32)) // a real key comes from seal.GenerateIdentity
	if err != nil {
		fmt.Println(err)
		return
	}
	key, err := seal.NewHPKEKey(bytes.Repeat([]byte{2}, 32))
	if err != nil {
		fmt.Println(err)
		return
	}
	learner, err := learner.New(learner.Config{Dimension: 2, Horizon: 5000})
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
	signed, digest, err := wire.Sign(&plan.Announcement{
		Deployment: "example", Epoch: 1, Policy: step.Policy, Reference: []float64{0, 0},
		Plan: proposal.Plan, Encodings: proposal.Encodings, Cohort: proposal.Cohort,
		Timing:      plan.Timing{RewardWindow: time.Hour, Grace: 10 * time.Minute},
		AnalyzerKey: key.Public(),
	}, analyzer)
	if err != nil {
		fmt.Println(err)
		return
	}

	from := wire.Party{Deployment: "example", Key: analyzer.Public()}
	opened, same, err := wire.Open[plan.Announcement](signed, from)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("same digest:", digest == same)
	fmt.Println("epoch", opened.Epoch, "reports after", opened.Timing.RewardWindow)

	signed[len(signed)-1] ^= 1
	_, _, err = wire.Open[plan.Announcement](signed, from)
	fmt.Println("changed:", errors.Is(err, wire.ErrSignature), wire.Reason(err))
	// Output:
	// same digest: true
	// epoch 1 reports after 1h0m0s
	// changed: true bad_signature
}

// Package empirical measures from below what a release reveals about one record: it plays neighbouring worlds many
// times over, attacks the counts, and turns how well the attack tells the worlds apart into a lower bound on epsilon.
package empirical

import (
	"context"
	"errors"

	"github.com/riffle-dp/riffle/pkg/plan"
)

// ErrOptions says that an option is out of range; it is wrapped with the option's name and what is wanted.
var ErrOptions = errors.New("empirical epsilon")

// A Fault is a way to break the system on purpose, to show that the attack finds it.
type Fault string

// The faults.
const (
	NoFault   Fault = ""
	HalfNoise Fault = "half-noise" // half of the noise bits are drawn
	OneNoise  Fault = "one-noise"  // the noise of one device is there, and that of all others is missing
	Copies    Fault = "copies"     // the shuffler forwards the canary's report again in place of other people's
	Twice     Fault = "twice"      // the canary's record is reported twice, with fresh noise
)

// Options say what is measured.
type Options struct {
	Channel    plan.Channel // empty: plan.Shuffle
	Epsilon    float64      // of the audited plan
	Delta      float64      // of the audited plan
	Dimension  int          // of arms
	Cohort     int          // people of a cohort
	Runs       int          // of each world
	Sealed     int          // runs that go through encryption as well
	Confidence float64      // of the lower bound
	Seed       [32]byte     // of all rounding and noise
	Fault      Fault
	Copies     int // that the shuffler forwards with the fault Copies
	Workers    int // that play runs at the same time; 0: one for each processor
	// Progress is told how many runs are over, of how many; nil: nobody is. Calls come from several goroutines.
	Progress func(done, all int)
}

// Result is what was measured. Its JSON is what riffle audit --epsilon --json prints.
type Result struct {
	Claimed    float64 `json:"claimed"`     // epsilon that the plan's guarantee gives at Delta
	LowerBound float64 `json:"lower_bound"` // on the true epsilon at Delta
	Confidence float64 `json:"confidence"`  // with which LowerBound holds
	Runs       int     `json:"runs"`        // of all worlds together
	Delta      float64 `json:"delta"`
}

// Run measures.
func Run(ctx context.Context, o Options) (*Result, error) {
	return nil, errors.New("empirical epsilon: not measured yet")
}

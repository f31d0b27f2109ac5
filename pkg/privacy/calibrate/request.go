package calibrate

import (
	"fmt"
	"math"

	"github.com/riffle-dp/riffle/pkg/privacy"
	"github.com/riffle-dp/riffle/pkg/protocol"
)

// Defaults and limits of a Request.
const (
	// DefaultVarianceRatio is the noise variance that a release may have, over that of a trusted curator's Gaussian
	// mechanism. 2 needs about half the messages of 1.2 and is hidden by the sampling error of a cohort.
	DefaultVarianceRatio = 2
	// MaxNoiseBits bounds the search for noise bits; beyond it the ratio no longer improves.
	MaxNoiseBits = 1 << 12
)

// Request describes the releases that will use one record, and what they may cost.
type Request struct {
	Epsilon, Delta float64 // the guarantee for one record over all its releases
	// Cohort is the number of reports expected; errors are predicted for it. MinCohort is the fewest that are ever
	// released and MaxDishonest the most of them that may withhold their noise: only the noise of MinCohort -
	// MaxDishonest devices counts.
	Cohort, MinCohort, MaxDishonest int
	// Releases are the vectors of all rounds in order, Shares their parts of the budget mu^2, scaled to sum to 1.
	Releases []privacy.Vector
	Shares   []float64

	// VarianceRatio is the largest noise variance of a release, over that of a trusted curator's Gaussian mechanism
	// that divides the same budget by Shares. 0: the least that MaxMessages allows, or DefaultVarianceRatio without it.
	VarianceRatio float64
	// MaxShift caps diameter times scale, in levels: a release at the cap may miss VarianceRatio. 0: no cap.
	MaxShift  float64
	NoiseBits uint32 // fixes the noise bits; 0: searched
	// Biases are the biases to search. If there are several, their halves serve too where budget is
	// left over.
	Biases      []protocol.Bias
	MaxMessages int // bit messages of one device over all releases; 0: no limit
	// ShiftOnly certifies each release by its shift alone, without the ranges of single coordinates. It is for later
	// rounds that are encoded at public iterates not known yet: their ranges may change while their shifts may not.
	ShiftOnly bool
	// Certify computes what releases with these encodings reveal together when the given number of devices is honest,
	// where that is less than the sum of what each reveals by itself, as privacy.CertifyJoint finds; the solver uses
	// the difference. Nil: the sum.
	Certify func(encodings []protocol.Encoding, honest int) (privacy.Guarantee, error)
}

// jointMargin is the part of mu that is held back where releases are certified together: the bounds of how far they
// can move together are accurate to 2e-3 of mu^2 (statistic.JointSpread), and a device may find one that is larger by
// as much.
const jointMargin = 1e-3

func (r Request) validate() error {
	if r.MaxDishonest < 0 || r.MinCohort <= r.MaxDishonest {
		return &Infeasible{Constraint: "MinCohort",
			Reason: fmt.Sprintf("a minimum cohort of %d with up to %d dishonest reports leaves no noise to count on",
				r.MinCohort, r.MaxDishonest),
			Remedy: "raise the minimum cohort above the dishonest reports"}
	}
	if r.Cohort < r.MinCohort {
		return &Infeasible{Constraint: "Cohort",
			Reason: fmt.Sprintf("%d reports are expected and at least %d are needed for a release",
				r.Cohort, r.MinCohort),
			Remedy: "lower the minimum cohort or wait for more people"}
	}
	if math.IsNaN(r.VarianceRatio) || math.IsNaN(r.MaxShift) || r.MaxShift < 0 || r.VarianceRatio < 0 ||
		r.MaxMessages < 0 {
		return fmt.Errorf("%w: VarianceRatio %v, MaxShift %v, MaxMessages %d: want numbers >= 0",
			privacy.ErrRequest, r.VarianceRatio, r.MaxShift, r.MaxMessages)
	}
	if len(r.Biases) == 0 {
		return fmt.Errorf("%w: no Biases", privacy.ErrRequest)
	}
	return nil
}

// Infeasible says which constraint of a request cannot be met together with the others, and what would satisfy it.
type Infeasible struct {
	Constraint string // name of the binding field of Request
	Reason     string
	Remedy     string
	Messages   int // where MaxMessages is the constraint: the fewest that would do
}

func (e *Infeasible) Error() string {
	return fmt.Sprintf("privacy: no plan: %s: %s; %s", e.Constraint, e.Reason, e.Remedy)
}

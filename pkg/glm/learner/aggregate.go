package learner

import (
	"errors"
	"fmt"
	"math"

	"github.com/riffle-dp/riffle/pkg/convex"
	"github.com/riffle-dp/riffle/pkg/glm"
	"github.com/riffle-dp/riffle/pkg/glm/statistic"
)

// Errors of the learner.
var (
	// ErrAggregate wraps every reason to refuse released sums: wrong kinds, wrong sizes, or numbers that are not
	// finite. The learner is unchanged: the caller can absorb the right sums, or declare the cohort destroyed.
	ErrAggregate = errors.New("glm: bad aggregate")
	// ErrDone is returned by Absorb and Destroyed after the last epoch.
	ErrDone = errors.New("glm: the horizon is over; there is no cohort to absorb")
	// ErrExtend is returned by Extend before the last epoch is over, and in the paper profile.
	ErrExtend = errors.New("glm: the horizon cannot be extended")
	// ErrRollback is returned by Rollback where there is no earlier policy to go back to.
	ErrRollback = errors.New("glm: there is no earlier policy")
)

// Step is what happens next: which policy is in force, for how many people, and what their devices will be asked for.
type Step struct {
	Epoch  int        `json:"epoch"`  // from 0
	Round  int        `json:"round"`  // from 0, within the epoch; the releases of this round are Statistics[Round]
	Policy glm.Policy `json:"policy"` // the same for all rounds of an epoch
	Cohort int        `json:"cohort"` // people whose decisions this epoch takes
	// Statistics are the releases of every round of the epoch. Those of later rounds carry the current iterate in place
	// of their own, which does not exist yet; devices are now asked for Statistics[Round] only.
	Statistics [][]statistic.Statistic `json:"-"`
	// Shares say how the privacy budget of a record (the square of its mu) is divided over the releases, in the shape
	// of Statistics; they sum to 1 over the epoch.
	Shares [][]float64 `json:"shares"`
	// VarianceRatio is advice for the privacy plan: the noise variance, as a multiple of the central Gaussian
	// mechanism's, that is worth the messages it saves. In small cohorts the noise dominates and messages are few in
	// all; in large ones sampling dominates.
	VarianceRatio float64 `json:"variance_ratio"`
	// Attempt is the number of cohorts of this epoch that were destroyed before.
	Attempt int `json:"attempt,omitempty"`
	// Done says that the horizon is over. Policy is then the final one, fitted with the last cohort's reports and
	// greedy: later devices follow it and are not sampled. Cohort is 0 and there are no statistics.
	Done bool `json:"done,omitempty"`
}

// Aggregate is one released sum over a cohort.
type Aggregate struct {
	Kind statistic.Kind `json:"kind"`
	Sum  []float64      `json:"sum"` // of the statistic's vectors, data units, debiased
	// Variance is an upper bound of the known variance of the noise of each coordinate (protocol.Encoding.Variance);
	// zeros when there is no noise.
	Variance []float64 `json:"variance"`
	Reports  int       `json:"reports"` // the number of devices that reported, null records included
	// Decisions is K_max, the most decisions that one report holds, where reports hold several; 0: 1. Sum and Variance
	// are those of decisions: K_max times the released sum of reports, and K_max^2 times its variance.
	Decisions int `json:"decisions,omitempty"`
	// Each has, of pairs, the vector of every report by itself. Sum is their sum, Reports their number, and Variance
	// over Reports that of each. Nil of all other kinds.
	Each [][]float64 `json:"each,omitempty"`
}

// CheckAggregates refuses sums that are not those of the statistics over a cohort of so many people, with at most so
// many decisions in a report. Errors wrap ErrAggregate.
func CheckAggregates(sums []Aggregate, want []statistic.Statistic, cohort, decisions int) error {
	if len(sums) != len(want) {
		return fmt.Errorf("%w: %d sums for the round's %d releases", ErrAggregate, len(sums), len(want))
	}
	for i, a := range sums {
		if a.Kind != want[i].Kind {
			return fmt.Errorf("%w: sum %d is of kind %v, the release of kind %v", ErrAggregate, i, a.Kind, want[i].Kind)
		}
		if d := want[i].Dim(); len(a.Sum) != d || len(a.Variance) != d {
			return fmt.Errorf("%w: %v has %d sums and %d variances, wanted %d of each",
				ErrAggregate, a.Kind, len(a.Sum), len(a.Variance), d)
		}
		if a.Reports < 1 || a.Reports > cohort {
			return fmt.Errorf("%w: %v has %d reports from a cohort of %d", ErrAggregate, a.Kind, a.Reports, cohort)
		}
		if max(1, a.Decisions) != decisions {
			return fmt.Errorf("%w: %v is of reports of %d decisions, wanted %d", ErrAggregate, a.Kind,
				max(1, a.Decisions),
				decisions)
		}
		if err := a.checkEach(); err != nil {
			return err
		}
		for j := range a.Sum {
			if s, v := a.Sum[j], a.Variance[j]; !(math.Abs(s) <= maxReleased) || !(v >= 0 && v <= maxReleased) {
				return fmt.Errorf("%w: coordinate %d of %v has sum %v and variance %v", ErrAggregate, j, a.Kind, s, v)
			}
		}
	}
	return nil
}

// checkEach refuses pairs without the vector of every report, and other kinds with them.
func (a *Aggregate) checkEach() error {
	want := 0
	if a.Kind == statistic.Pair {
		want = a.Reports
	}
	if len(a.Each) != want {
		return fmt.Errorf("%w: %v has the vectors of %d reports, wanted %d", ErrAggregate, a.Kind, len(a.Each), want)
	}
	for _, v := range a.Each {
		if len(v) != len(a.Sum) || !(convex.MaxAbs(v) <= maxReleased) || !convex.AllFinite(v) {
			return fmt.Errorf("%w: a report of %v is not %d finite numbers", ErrAggregate, a.Kind, len(a.Sum))
		}
	}
	return nil
}

// maxReleased is the largest sum or variance accepted, so that no product of a few of them overflows.
const maxReleased = 1e60

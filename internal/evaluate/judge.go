package evaluate

import (
	"fmt"
	"math"

	"github.com/riffle-dp/riffle/internal/population/decisions"
)

// Judge values targets on a log decision by decision. It is for a caller whose target for a decision was made without
// that decision.
type Judge struct {
	log    []decisions.Decision
	o      Options
	models [2]model
}

// NewJudge fits the reward models of a log.
func NewJudge(log []decisions.Decision, o Options) (*Judge, error) {
	if len(log) < MinDecisions {
		return nil, few(log)
	}
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	models, err := fits(log, o)
	return &Judge{log, o, models}, err
}

// Score is the doubly robust score of decision i for a target with these probabilities of its arms. Given the target,
// its expectation is what the target earns, and it is linear in the probabilities.
func (j *Judge) Score(i int, probabilities []float64) float64 {
	return j.models[i%2].robust(j.log[i], probabilities)
}

// Overlap says how far the log supports a target that takes the arm which was played in each decision with this
// probability. Where it is proved that it does not, the error is ErrOverlap.
func (j *Judge) Overlap(played []float64) (*Overlap, error) { return overlap(j.log, played) }

// Support refuses a log which proves of an arm that it was played more or less often than the propensities say: the
// weights of a policy that always plays one arm have a mean of 1. A decision without the arm counts for arm 0. The
// error is ErrOverlap, of the arm that was played too seldom by most.
func (j *Judge) Support() error {
	arms, n := 0, len(j.log)
	for _, d := range j.log {
		arms = max(arms, len(d.Arms))
	}
	worst, of, times := math.Inf(1), 0, 0
	for arm := range arms {
		always, count := make([]float64, n), 0
		for i, d := range j.log {
			if d.Arm == arm || d.Arm == 0 && arm >= len(d.Arms) {
				always[i] = 1
				count++
			}
		}
		if count == 0 {
			return fmt.Errorf("%w: arm %d, counted from 0, was never played in %d decisions. Leave it out of the "+
				"arms, or log a policy that explores", ErrOverlap, arm, n)
		}
		over, err := weigh(j.log, always)
		if err != nil {
			return err
		}
		if over.refuted() && over.MeanWeight < worst {
			worst, of, times = over.MeanWeight, arm, count
		}
	}
	if math.IsInf(worst, 1) {
		return nil
	}
	wrong := "large, or decisions with this arm are missing"
	if worst > 1 {
		wrong = "small, or decisions with other arms are missing"
	}
	return fmt.Errorf("%w: arm %d, counted from 0, was played in %d of %d decisions, %.3g times as often as the "+
		"propensities say, so they are too %s. Log every decision, with the probability with which its arm was drawn",
		ErrOverlap, of, times, n, worst, wrong)
}

// Mean is a mean reward of the target of an overlap, with an interval of so many standard errors unless the overlap is
// doubted.
func (j *Judge) Mean(over *Overlap, value, se, quantile float64) Estimate {
	return over.interval(value, se, quantile, j.o.rewards())
}

// Difference is Mean of what the target earns more, or less, than another one on the same decisions.
func (j *Judge) Difference(over *Overlap, value, se, quantile float64) Estimate {
	return over.interval(value, se, quantile, j.o.rewards().difference())
}

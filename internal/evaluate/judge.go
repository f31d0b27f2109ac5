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
// weights of a policy that always plays one arm have a mean of 1. The error is ErrOverlap, of the arm that was played
// too seldom by most.
func Support(log []decisions.Decision) error {
	_, err := supported(log)
	return err
}

// Enough refuses what Support does, and a log that says too little of a policy that always plays one arm for its value
// to have an interval. The error is ErrOverlap, or ErrFew.
func Enough(log []decisions.Decision) error {
	if len(log) < MinDecisions {
		return few(log)
	}
	all, err := supported(log)
	if err != nil {
		return err
	}
	for arm, c := range all {
		if thin := c.over.thin(); thin != "" {
			return fmt.Errorf("%w: of always playing arm %d, counted from 0, which %d of %d decisions did, %s. Log "+
				"more of them", ErrOverlap, arm, c.count, len(log), thin)
		}
	}
	return nil
}

// constant is a policy that always plays one arm: its overlap with a log, of which so many decisions played it.
type constant struct {
	over  *Overlap
	count int
}

// supported are the constant policies of all arms of a log which Support does not refuse.
func supported(log []decisions.Decision) (all []constant, err error) {
	worst, of := math.Inf(1), 0
	for arm := range arms(log) {
		played, count := always(log, arm)
		if count == 0 {
			return nil, fmt.Errorf("%w: arm %d, counted from 0, was never played in %d decisions. Leave it out of the "+
				"arms, or log a policy that explores", ErrOverlap, arm, len(log))
		}
		over, err := weigh(log, played)
		if err != nil {
			return nil, err
		}
		if over.refuted() && over.MeanWeight < worst {
			worst, of = over.MeanWeight, arm
		}
		all = append(all, constant{over, count})
	}
	if math.IsInf(worst, 1) {
		return all, nil
	}
	wrong := "large, or decisions with this arm are missing"
	if worst > 1 {
		wrong = "small, or decisions with other arms are missing"
	}
	return nil, fmt.Errorf("%w: arm %d, counted from 0, was played in %d of %d decisions, %.3g times as often as the "+
		"propensities say, so they are too %s. Log every decision, with the probability with which its arm was drawn",
		ErrOverlap, of, all[of].count, len(log), worst, wrong)
}

// arms is the largest number of arms of a decision.
func arms(log []decisions.Decision) (most int) {
	for _, d := range log {
		most = max(most, len(d.Arms))
	}
	return most
}

// always is the probability of what was played under the policy that always plays one arm, and how often it was played.
// In a decision without the arm the policy plays arm 0.
func always(log []decisions.Decision, arm int) (played []float64, count int) {
	played = make([]float64, len(log))
	for i, d := range log {
		if d.Arm == arm || d.Arm == 0 && arm >= len(d.Arms) {
			played[i] = 1
			count++
		}
	}
	return played, count
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

package evaluate

import "github.com/riffle-dp/riffle/internal/population/decisions"

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

// Mean is a mean reward of the target of an overlap, with an interval of so many standard errors unless the overlap is
// doubted.
func (j *Judge) Mean(over *Overlap, value, se, quantile float64) Estimate {
	return over.interval(value, se, quantile, j.o.rewards())
}

// Difference is Mean of what the target earns more, or less, than another one on the same decisions.
func (j *Judge) Difference(over *Overlap, value, se, quantile float64) Estimate {
	return over.interval(value, se, quantile, j.o.rewards().difference())
}

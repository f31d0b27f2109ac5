package predict

import (
	"math"

	simulation "github.com/riffle-dp/riffle/internal/play"
	"github.com/riffle-dp/riffle/pkg/glm/learner"
)

// Estimate is a mean over runs with its standard error.
type Estimate struct {
	Mean  float64 `json:"mean"`
	Error float64 `json:"standard_error"`
}

// Above reports whether the mean less one standard error is above 0.
func (e Estimate) Above() bool { return e.Mean-e.Error > 0 }

// Outcome is what the runs of a prediction say together. Gains are in units of the reward, over the best constant
// option for the same people. Its JSON form is a stable interface: keys are added, never renamed or removed.
type Outcome struct {
	Runs int `json:"runs"`
	// Simulated is how many people of a run took part: all of the horizon, or its first cohorts.
	Simulated int `json:"simulated"`
	Horizon   int `json:"horizon"`

	Constant float64 `json:"constant"` // mean reward of the best constant option
	Effect   float64 `json:"effect"`   // gain of the option that is best for each person
	Norm     float64 `json:"norm"`     // of the parameter of these people, mean over runs

	Learning Estimate `json:"gain_while_learning"` // of those who take part
	Last     Estimate `json:"gain_last"`           // of the last policy
	// Clear is the gain of the last policy of a learner without privacy that meets the same people.
	Clear Estimate `json:"gain_without_privacy"`
	// Shares of Clear that are kept; nil where the learner without privacy does not gain either.
	ShareLearning *Estimate `json:"share_while_learning"`
	ShareLast     *Estimate `json:"share_last"`

	// Better is the least number of people after whom every policy, the last one included, gains more than 0 in the
	// mean less one standard error of runs; nil: not within those who were simulated. A policy's gain is that of the
	// people who decide with it, who explore, too.
	Better *int `json:"better_after"`
	// Below is the number of runs whose last policy is worse than the best constant option.
	Below    int      `json:"runs_below"`
	Policies []Policy `json:"policies"`
}

// Policy is one that was in force, or the last one.
type Policy struct {
	After int `json:"after"` // people who had taken part when it was made
	// Gain of those who decide with it; the last policy explores no more.
	Gain Estimate `json:"gain"`
}

// leastKept is the least share of what a learner without privacy gains that is worth running for: by chance a policy
// that learned nothing and plays the best constant option for nearly everybody gains a little, too.
const leastKept = 0.1

// Worth reports whether the last policy is expected to beat the best constant option: its mean gain less one standard
// error is above 0, and its mean gain is at least a tenth of Clear's.
func (o *Outcome) Worth() bool { return o.Last.Above() && o.Last.Mean >= leastKept*o.Clear.Mean }

// summarize puts runs of one schedule together.
func summarize(config learner.Config, runs []*run) *Outcome {
	o := &Outcome{Runs: len(runs), Horizon: config.Horizon}
	of := func(value func(*run) float64) (all []float64) {
		for _, r := range runs {
			all = append(all, value(r))
		}
		return all
	}
	mean := func(value func(*run) float64) float64 { m, _ := simulation.MeanAndError(of(value)); return m }
	o.Constant = mean(func(r *run) float64 { return r.constant })
	o.Effect = mean(func(r *run) float64 { return r.effect })
	o.Norm = mean(func(r *run) float64 { return r.norm })
	learning, last, clear := of((*run).learning), of(func(r *run) float64 { return r.last }),
		of(func(r *run) float64 { return r.clear })
	o.Learning, o.Last, o.Clear = estimate(learning), estimate(last), estimate(clear)
	o.ShareLearning, o.ShareLast = share(learning, clear), share(last, clear)
	for _, v := range last {
		if v < 0 {
			o.Below++
		}
	}
	for i, c := range runs[0].cohorts {
		o.Simulated = c.before + c.people
		gains := of(func(r *run) float64 { return r.cohorts[i].gain })
		o.Policies = append(o.Policies, Policy{After: c.before, Gain: estimate(gains)})
	}
	o.Policies = append(o.Policies, Policy{After: o.Simulated, Gain: o.Last})
	for i := len(o.Policies) - 1; i >= 0 && o.Policies[i].Gain.Above(); i-- {
		o.Better = &o.Policies[i].After
	}
	return o
}

// learning is the mean gain of all who took part.
func (r *run) learning() float64 {
	sum, people := 0.0, 0
	for _, c := range r.cohorts {
		sum, people = sum+c.gain*float64(c.people), people+c.people
	}
	return sum / float64(people)
}

func estimate(values []float64) Estimate {
	mean, err := simulation.MeanAndError(values)
	return Estimate{mean, err}
}

// share is the ratio of two means over the same runs, with its standard error to first order; nil if the second mean is
// not above 0 by a standard error.
func share(values, of []float64) *Estimate {
	whole := estimate(of)
	if !whole.Above() {
		return nil
	}
	part, _ := simulation.MeanAndError(values)
	ratio := part / whole.Mean
	rest := make([]float64, len(values))
	for i := range values {
		rest[i] = (values[i] - ratio*of[i]) / whole.Mean
	}
	_, err := simulation.MeanAndError(rest)
	if math.IsNaN(err) {
		return nil
	}
	return &Estimate{ratio, err}
}

package planner

import (
	"fmt"
	"math"

	"github.com/riffle-dp/riffle/pkg/glm"
	"github.com/riffle-dp/riffle/pkg/glm/family"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/privacy/calibrate"
)

// information is what a cohort tells about one direction of the parameter. It is h^2/(phi h + v), as
// learner.FirstCohort approximates it: h is the curvature of the cohort's decisions per direction, phi the family's
// dispersion, v the noise of the two releases in an estimate.
type information struct {
	prior      float64 // before the first cohort
	curvature  float64 // h of one person
	dispersion float64
	hessian    float64 // weight of the Hessian's noise variance in v; the gradient's has weight 1
}

// filled is the part of the largest curvature that an optimal design reaches, as in learner.FirstCohort.
const filled = 0.8

func (o Options) information() (information, error) {
	c, err := o.config().Resolve()
	if err != nil {
		return information{}, fmt.Errorf("%w: %w", ErrOptions, err)
	}
	f, err := family.New(c.Family, c.MaxReward)
	if err != nil {
		return information{}, fmt.Errorf("%w: %w", ErrOptions, err)
	}
	d, s := float64(c.Dimension), c.Radius
	score := glm.Score(f, glm.Practical)
	return information{prior: c.Practical.Prior * d / (s * s), curvature: filled * score.Variance(0) / d,
		dispersion: score.Dispersion(), hessian: math.Max(0, c.Practical.HessianNoise) / 2 * s * s}, nil
}

// noise is v.
func (i information) noise(p calibrate.Solution) float64 {
	h, g := p.Releases[0].Deviation, p.Releases[1].Deviation
	return g*g + i.hessian*h*h
}

// of is the information from a cohort of the given number of people.
func (i information) of(people int, p calibrate.Solution) float64 {
	h := i.curvature * float64(people)
	return h * h / (i.dispersion*h + i.noise(p))
}

// searchedShares are the Hessian's shares that a search tries.
var searchedShares = []float64{0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.5}

// searchShare finds the Hessian's share of the budget with the least noise in an estimate from the first cohort, where
// noise matters most.
func (o Options) searchShare(proposer *plan.Proposer) (float64, error) {
	info, err := o.information()
	if err != nil {
		return 0, err
	}
	best, least := 0.0, math.Inf(1)
	for _, share := range searchedShares {
		o.HessianShare = share
		tasks, _, err := o.tasks(proposer)
		if err != nil {
			return 0, err
		}
		t := tasks[0]
		if t.request.MaxMessages, err = o.limit(t); err != nil {
			return 0, err
		}
		if o.MeanMessages > 0 {
			t.request.MaxMessages = o.MeanMessages
		}
		p, err := calibrate.Bits(t.request)
		if err != nil {
			return 0, o.explain(err, 0, t.size, t.rounds)
		}
		if v := info.noise(p); v < least {
			best, least = share, v
		}
	}
	return best, nil
}

// dividedRatios are the variance ratios to choose from when messages are divided, relative to the least possible.
var dividedRatios = []float64{1.06, 1.2, 1.4, 1.75, 2.2, 3, 5, 10, 50, 1000}

// divide gives every cohort a number of messages, so that the mean over all people is as allowed and the cohorts
// together lose little. A cohort decides by what was learnt before it and loses in proportion to its people over that
// information; after the last cohort, as many people again are assumed. Messages go, one step of a frontier at a time,
// where a message helps most.
func (o Options) divide(tasks []task) ([]int, error) {
	info, err := o.information()
	if err != nil {
		return nil, err
	}
	type choice struct {
		messages int
		tells    float64
	}
	choices := make([][]choice, len(tasks)) // ascending messages
	at := make([]int, len(tasks))
	people, spent := 0, 0
	for k, t := range tasks {
		plans, err := frontier(t, dividedRatios)
		if err != nil {
			return nil, err
		}
		if len(plans) == 0 {
			return nil, &Infeasible{Option: "--mean-messages", Cohort: k + 1, People: t.size,
				Reason: "no plan is within the budget at any error", Remedy: "raise epsilon or the number of people"}
		}
		for i := len(plans) - 1; i >= 0; i-- {
			c := choice{plans[i].Messages, info.of(t.size, plans[i])}
			if n := len(choices[k]); n == 0 || c.messages > choices[k][n-1].messages &&
				c.tells > choices[k][n-1].tells {
				choices[k] = append(choices[k], c)
			}
		}
		people += t.size
		spent += t.size * choices[k][0].messages
	}
	budget := o.MeanMessages * people
	if spent > budget {
		least := int(math.Ceil(float64(spent) / float64(people)))
		return nil, &Infeasible{Option: "--mean-messages", Remedy: fmt.Sprintf("allow %d", least),
			Reason: fmt.Sprintf("%d messages per person are needed on average, whatever the error", least)}
	}
	loss := func() float64 {
		known, sum := info.prior, 0.0
		for k, t := range tasks {
			if k > 0 {
				sum += float64(t.size) / known
			}
			known += choices[k][at[k]].tells
		}
		return sum + float64(people)/known
	}
	for {
		best, bestStep, most, now := -1, 0, 0.0, loss()
		for k, t := range tasks {
			here := at[k]
			for step := here + 1; step < len(choices[k]); step++ {
				cost := t.size * (choices[k][step].messages - choices[k][here].messages)
				if spent+cost > budget {
					break
				}
				at[k] = step
				if gain := (now - loss()) / float64(cost); gain > most {
					best, bestStep, most = k, step, gain
				}
			}
			at[k] = here
		}
		if best < 0 {
			break
		}
		spent += tasks[best].size * (choices[best][bestStep].messages - choices[best][at[best]].messages)
		at[best] = bestStep
	}
	limits := make([]int, len(tasks))
	for k := range tasks {
		limits[k] = choices[k][at[k]].messages
	}
	return limits, nil
}

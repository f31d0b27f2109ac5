package planner

import (
	"context"
	"errors"
	"fmt"

	"github.com/riffle-dp/riffle/internal/planner/predict"
	"github.com/riffle-dp/riffle/pkg/glm"
	"github.com/riffle-dp/riffle/pkg/glm/family"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/privacy"
)

// judge fills in the verdict, and what was tried where it is not to run.
func (p *Predicted) judge(ctx context.Context, o Options, asked Prediction) error {
	c := p.Cases[p.Asked]
	out := c.Outcome
	if out == nil {
		p.Verdict, p.Reasons = DoNotRun, []string{"Nobody is like that: " + c.Impossible + "."}
		return nil
	}
	people := number(out.Simulated) + " people"
	if out.Simulated < out.Horizon {
		people = "the first " + people + " of " + number(out.Horizon)
	}
	gain := fmt.Sprintf("after %s the last policy gains %s over the best constant option, in the mean of %d runs with "+
		"its standard error", people, plusMinus(&out.Last), out.Runs)
	hidden := p.Log != nil && !out.Clear.Above() // whatever effect there may be
	switch {
	case out.Worth() && !hidden: // luck of some runs, if hidden
		p.Verdict = WorthRunning
	case out.Simulated < out.Horizon || hidden:
		p.Verdict = Undecided
	default:
		p.Verdict = DoNotRun
	}
	p.Reasons = []string{capital(gain) + "."}
	if p.Verdict != WorthRunning {
		why := fmt.Sprintf("A learner without privacy gains %s with the same people, who do show the effect.",
			plusMinus(&out.Clear))
		switch {
		case hidden:
			why = fmt.Sprintf("Without privacy it would be %s: the log shows no effect. There may be one: the model "+
				"leaves out what %s decisions do not tell from chance. Log more of them, or leave --from-log out "+
				"and say with --effect how much there is to gain.", plusMinus(&out.Clear), number(p.Log.Decisions))
		case !out.Clear.Above():
			why = fmt.Sprintf("Without privacy it would be %s: %s do not show such an effect at all.",
				plusMinus(&out.Clear), people)
		}
		p.Reasons = append(p.Reasons, why)
	}
	if p.Verdict == WorthRunning && out.Below > 0 {
		p.Reasons = append(p.Reasons, fmt.Sprintf("But %d of %d runs end below the best constant option, and a "+
			"deployment is one run.", out.Below, out.Runs))
	}
	if l := out.Learning; l.Mean+l.Error < 0 {
		p.Reasons = append(p.Reasons, fmt.Sprintf("Those who take part meanwhile get less than the best constant "+
			"option would give them: %s each.", plusMinus(&l)))
	}
	if p.Verdict != DoNotRun {
		return nil
	}
	var err error
	p.Changes, err = o.changes(ctx, asked, c.Effect)
	return err
}

// Limits of the changes that are tried.
const (
	mostPeople  = 64 // times as many
	mostEpsilon = 8
)

// changes predicts the same for other plans: of each kind, one after the other until one is worth running. A learner of
// another paper is compared with the default first.
func (o Options) changes(ctx context.Context, p Prediction, effect float64) (all []Change, err error) {
	try := func(what string, o Options) (worth bool) {
		if err != nil {
			return true
		}
		var c Change
		if c, err = o.change(ctx, what, p, effect); err == nil {
			all = append(all, c)
		}
		return c.Worth || c.Simulated < c.Users || c.Impossible != ""
	}
	if o.Learner.Program() {
		own := o
		own.Learner = glm.Practical
		try("--learner "+string(own.Learner), own)
	}
	for factor := 4; factor <= mostPeople; factor *= 4 {
		more := o
		more.Users *= factor
		if try(number(more.Users)+" people", more) {
			break
		}
	}
	for factor := 2.0; o.Epsilon*factor <= mostEpsilon; factor *= 2 {
		weaker := o
		weaker.Epsilon *= factor
		if try("epsilon "+privacy.Spell(weaker.Epsilon), weaker) {
			break
		}
	}
	if fewer, ok := o.halve(); ok && len(p.Log) == 0 {
		what := fmt.Sprintf("%d numbers for each option", fewer.Dimension)
		if fewer.Context > 0 {
			what = fmt.Sprintf("a context of %d", fewer.Context)
		}
		try(what+", if they show the same effect", fewer)
	}
	if o.Channel == plan.Local {
		shares := o
		shares.Channel, shares.Terms.VarianceRatio = plan.Shares, 0
		try("the channel shares", shares)
	}
	return all, err
}

// halve is the options with half of the features; false if there is not more than a constant and another one.
func (o Options) halve() (Options, bool) {
	half := &o.Dimension
	if o.Context > 0 {
		half = &o.Context
	}
	if *half < 3 {
		return o, false
	}
	*half = (*half + 1) / 2
	return o, true
}

// change predicts the asked case for another plan.
func (o Options) change(ctx context.Context, what string, p Prediction, effect float64) (Change, error) {
	c := Change{What: what}
	o.tell("predicting for "+what, 0, 1)
	s, err := o.rehearsal(nil)
	var infeasible *Infeasible
	if errors.As(err, &infeasible) || errors.Is(err, privacy.ErrUncertified) || errors.Is(err, errPairs) {
		c.Impossible = err.Error()
		return c, nil
	}
	if err != nil {
		return c, err
	}
	f, err := family.New(s.config.Family, s.config.MaxReward)
	if err != nil {
		return c, err
	}
	source, err := p.source(f, o, effect)
	if err != nil {
		return c, err
	}
	bound, _ := o.bound(min(p.Runs, changeRuns), 1, changeWork)
	out, err := s.run(ctx, source, bound, nil)
	if errors.Is(err, predict.ErrEffect) {
		c.Impossible = err.Error()
		return c, nil
	}
	if err != nil {
		return c, err
	}
	c.Worth, c.Gain, c.Simulated, c.Users = out.Worth(), &out.Last, out.Simulated, out.Horizon
	return c, nil
}

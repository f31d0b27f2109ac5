package planner

import (
	"fmt"
	"slices"

	"github.com/riffle-dp/riffle/pkg/glm"
	"github.com/riffle-dp/riffle/pkg/glm/learner"
	"github.com/riffle-dp/riffle/pkg/learn"
	"github.com/riffle-dp/riffle/pkg/learn/program"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/strict"
)

// errPairs is an ErrOptions: the learner needs the channel local.
var errPairs = fmt.Errorf("%w", ErrOptions)

// steps are what the learner asks of its cohorts, at a public point of the asked norm; of a program, what it asks if
// all answers are zeros.
func (o Options) steps(config learner.Config) ([]learner.Step, error) {
	if o.Learner.Program() {
		l, err := program.New(config)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrOptions, err)
		}
		if slices.Contains(l.Forms(), learn.Reports) && o.Channel != plan.Local {
			return nil, fmt.Errorf("%w: --learner %s learns from each person's own report: give --trust local, where "+
				"its own noise protects it", errPairs, o.Learner)
		}
		return l.Rehearsed(), nil
	}
	sizes := o.Cohorts
	if len(sizes) == 0 {
		l, err := learner.New(config)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrOptions, err)
		}
		sizes = l.Schedule()
	}
	step, err := o.step(config)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrOptions, err)
	}
	var all []learner.Step
	for _, n := range sizes {
		step.Cohort = n
		all = append(all, step)
	}
	return all, nil
}

// first says why the first cohort has its size; nil where the caller gave it.
func (o Options) first(config learner.Config, steps []learner.Step) *FirstCohort {
	switch {
	case o.Learner.Program():
		return &FirstCohort{Size: steps[0].Cohort, Rule: fmt.Sprintf("the first question of %s, and at least %d",
			o.Learner, config.MinCohort)}
	case len(o.Cohorts) > 0:
		return nil
	}
	return &FirstCohort{Size: steps[0].Cohort, Rule: fmt.Sprintf("the fewest people from whom one learns somewhat "+
		"more about a direction than was known before; at least %d, at most a tenth of all (learner.FirstCohort)",
		config.MinCohort)}
}

// checkLearner refuses options that a program has no use for.
func (o Options) checkLearner() error {
	if !o.Learner.Program() {
		if o.Learner != "" && o.Learner != glm.Practical {
			return fmt.Errorf("%w: --learner %s: plans are of %s", ErrOptions, o.Learner,
				strict.List(append([]glm.Profile{glm.Practical}, glm.Programs()...), "or"))
		}
		return nil
	}
	for _, of := range []struct {
		flag  string
		given bool
	}{
		{"--registered", o.Registered > 0}, {"--cohort", len(o.Cohorts) > 0}, {"--releases", o.Releases > 0},
		{"--hessian-share", o.HessianShare != 0},
		{"--theta-norm", o.ThetaNorm != 0}, {"--mean-messages", o.MeanMessages > 0},
	} {
		if of.given {
			return fmt.Errorf("%w: %s does not go with --learner %s, which says itself what it asks of how many people",
				ErrOptions, of.flag, o.Learner)
		}
	}
	return nil
}

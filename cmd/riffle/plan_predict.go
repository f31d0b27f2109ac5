package main

import (
	"fmt"
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/riffle-dp/riffle/internal/command"
	"github.com/riffle-dp/riffle/internal/evaluate"
	"github.com/riffle-dp/riffle/internal/planner"
	"github.com/riffle-dp/riffle/internal/planner/predict"
	"github.com/riffle-dp/riffle/pkg/glm/family"
)

// predictFlags are what riffle plan assumes of the people to come.
type predictFlags struct {
	on               bool
	log              string
	of               logFlags
	baseline         float64
	asked            planner.Prediction
	given            string // one of them that was given; "": none
	needsLogsNumbers bool   // the plan takes its dimension from the log
}

func (f *predictFlags) add(flags *pflag.FlagSet) {
	flags.BoolVar(&f.on, "predict", true,
		"predict what is learnt, where cohorts are the learner's own: simulates the deployment")
	flags.Float64Var(&f.asked.Effect, "effect", 0,
		"by how much the option that is best for a person exceeds the best constant one in reward, on average;\n"+
			"0: a tenth of the largest reward")
	flags.Float64Var(&f.baseline, "baseline", 0,
		"mean reward of the best constant option; without it what follows if a score of 0 is the middle")
	flags.StringVar(&f.log, "from-log", "",
		"predict for the people of a log, as riffle evaluate reads it, in place of assumed ones")
	f.of.add(flags)
}

// resolve holds the flags against what is planned.
func (f *predictFlags) resolve(o planner.Options, changed func(string) bool) error {
	if err := f.of.unused(changed, f.log != "", "--from-log"); err != nil {
		return err
	}
	flags := []string{"effect", "baseline", "from-log"}
	if i := slices.IndexFunc(flags, changed); i >= 0 {
		f.given = "--" + flags[i]
	}
	if changed("baseline") {
		f.asked.Baseline = &f.baseline
	}
	f.needsLogsNumbers = f.log != "" && !changed("dim") && !changed("options")
	none := ""
	switch {
	case o.Releases > 0:
		none = "--releases plans vectors of no learner"
	case o.Registered > 0:
		none = "of panels nothing is predicted"
	case len(o.Cohorts) > 0:
		none = "with --cohort the cohorts are not the learner's own"
	case !f.on:
		none = "--predict=false leaves the prediction out"
	}
	if none == "" {
		return nil
	}
	if f.given != "" {
		return fmt.Errorf("%s is for the prediction of what is learnt, and %s; leave one of them out", f.given, none)
	}
	f.on = false
	return nil
}

// read reads the log. Where nothing else says so, it sets the plan's dimension.
func (f *predictFlags) read(cmd *cobra.Command, o *planner.Options) error {
	if f.log == "" {
		return nil
	}
	model, err := family.New(o.Family, o.MaxReward)
	if err != nil {
		return err
	}
	log, err := f.of.open(cmd, f.log, model, false)
	if err != nil {
		return err
	}
	if err := evaluate.Enough(log.Decisions); err != nil {
		return fmt.Errorf("%s: %w. Or leave --from-log out, and give --effect, what there is to gain", f.log, err)
	}
	for _, d := range log.Decisions {
		f.asked.Log = append(f.asked.Log, predict.Decision{Arms: d.Arms, Arm: d.Arm, Reward: d.Reward})
	}
	if f.needsLogsNumbers {
		o.Dimension = len(log.Decisions[0].Arms[0])
	}
	return nil
}

// extend adds the prediction to a plan of cohorts.
func (f *predictFlags) extend(cmd *cobra.Command, o planner.Options, result command.Result) error {
	of, ok := result.(*planner.Result)
	if !f.on || !ok {
		return nil
	}
	return planner.Predict(cmd.Context(), o, f.asked, of)
}

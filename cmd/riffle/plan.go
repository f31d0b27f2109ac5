package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/riffle-dp/riffle/internal/analyzer"
	"github.com/riffle-dp/riffle/internal/lab/planner"
	"github.com/riffle-dp/riffle/internal/randomizer"
)

// Defaults that differ for generic vectors.
const (
	planUsers         = 5000 // as the demo
	planGenericCohort = 2000
)

// planFlags are the choices of riffle plan.
type planFlags struct {
	o      planner.Options
	honest float64
	bits   uint32
	json   bool
	out    string
}

func planCommand() *cobra.Command {
	s := analyzer.DefaultSettings()
	f := planFlags{o: planner.Options{HostMessages: randomizer.DefaultLimits().MaxMessages}}
	cmd := &cobra.Command{
		Use:   "plan",
		Short: "see what a deployment's privacy costs, before anything runs",
		Long: `Plans every cohort of a deployment and prints what it costs each person in bit messages, bytes and CPU, and how large the error of
every released sum is beside that of a trusted curator and of local differential privacy. Without flags it plans the default
deployment. Nothing is started and nothing is sent.

Give one budget and the planner does the rest: with --variance it finds the fewest messages for that precision, with --messages,
--mean-messages or --bytes the best precision for them. It searches the scale, the noise bits, their bias, and on request the division
of the budget over the releases (--hessian-share search) and of the messages over the cohorts (--mean-messages).

With --releases it plans so many rounds of vectors with entries in [-1/2, 1/2] and diameter 1 instead of the learner's statistics; then
--drop-out, --dishonest-reports, --max-shift and --messages default to 0, --cohort to 2000 people, and --variance to 2 if there is no other budget.

In the JSON form the numbers at the top describe the cohort in which a person sends most, and of it the release with the most messages
per coordinate; "epsilon" is the weakest of all cohorts. A person is in one cohort only: cohorts do not add up.`,
		Example: `  riffle plan
  riffle plan --dim 20
  riffle plan --users 50000 --dim 10 --epsilon 0.5 --honest 0.9
  riffle plan --cohort 2000 --variance 1.2 --out plan.png
  riffle plan --dim 15 --cohort 2000 --releases 1 --epsilon 1 --delta 1e-6 --variance 2 --json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return runPlan(cmd, f) },
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.IntVar(&f.o.Users, "users", planUsers, "people, divided into cohorts by the learner's schedule")
	flags.IntSliceVar(&f.o.Cohorts, "cohort", nil, "sizes of the cohorts instead, as 200,400,800")
	flags.IntVar(&f.o.Dimension, "dim", 5, "numbers in an arm's vector, or in a vector of --releases")
	flags.Float64Var(&f.o.Epsilon, "epsilon", s.Privacy.Epsilon, "guarantee for one person")
	flags.Float64Var(&f.o.Delta, "delta", s.Privacy.Delta, "delta of that guarantee")
	flags.Float64Var(&f.honest, "honest", 1, "share of a cohort whose noise is counted; the same as --dishonest 1-HONEST")
	flags.Float64Var(&f.o.Dishonest, "dishonest", s.Privacy.Dishonest, "share of a cohort that may hold its noise back")
	flags.IntVar(&f.o.DishonestReports, "dishonest-reports", s.Privacy.DishonestReports, "fewest reports of a cohort that may hold their noise back, whatever the share")
	flags.Float64Var(&f.o.DropOut, "drop-out", s.Privacy.DropOut, "share of a cohort that may fail to report without its release being destroyed")
	flags.IntVar(&f.o.MinCohort, "min-cohort", s.Privacy.MinCohort, "fewest reports of any release")
	flags.IntVar(&f.o.Messages, "messages", s.Privacy.MaxMessages, "most bit messages of one person, over all releases; -1: 150 up to 5 dimensions, beyond them 7.5 for each number released; 0: no limit. The default gives way to another budget")
	flags.IntVar(&f.o.MeanMessages, "mean-messages", 0, "most bit messages of one person in the mean; cohorts get more where it helps more")
	flags.IntVar(&f.o.Bytes, "bytes", 0, "most bytes that one person sends, over all rounds; 0: no limit")
	flags.Float64Var(&f.o.Variance, "variance", 0, "largest noise variance of a release, over a trusted curator's; 0: the least that the messages allow")
	flags.Float64Var(&f.o.MaxShift, "max-shift", s.Privacy.MaxShift, "cap on the levels by which a record can move a release, beyond which sampling error dominates; 0: none. The default gives way to --variance")
	flags.StringVar(&f.o.Family, "family", s.Learner.Family, "reward family: logistic, probit, poisson or gaussian")
	flags.Float64Var(&f.o.MaxReward, "max-reward", s.Learner.MaxReward, "largest reward that a person can give")
	flags.Float64Var(&f.o.Radius, "norm-bound", s.Learner.Radius, "bound on the parameter's norm; the schedule depends on it")
	flags.Float64Var(&f.o.ThetaNorm, "theta-norm", 0, "norm of the public point at which the statistics are evaluated; 0 is that of the first cohort")
	share := flags.String("hessian-share", "default", "part of the budget for the Hessian, the rest is the gradient's: a number, default (the learner's), or search")
	flags.IntVar(&f.o.Releases, "releases", 0, "plan so many rounds of one generic vector each instead of the learner's statistics")
	flags.Uint32Var(&f.bits, "noise-bits", 0, "noise bits per device and coordinate; 0: searched")
	flags.Float64SliceVar(&f.o.Biases, "bias", []float64{0.5, 0.25}, "probabilities of a noise bit to search")
	flags.BoolVar(&f.json, "json", false, "print the plan, or why there is none, as one JSON object")
	flags.StringVar(&f.out, "out", "", "file for a picture of the frontier, .png or .svg")
	cmd.PreRunE = func(cmd *cobra.Command, _ []string) (err error) {
		f.o.HessianShare, err = parseShare(*share)
		if err != nil {
			return err
		}
		return f.settle(flags.Changed)
	}
	return cmd
}

func parseShare(s string) (float64, error) {
	switch s {
	case "default":
		return 0, nil
	case "search":
		return planner.SearchShare, nil
	}
	var v float64
	if _, err := fmt.Sscanf(s, "%g", &v); err != nil || !(v > 0 && v < 1) {
		return 0, fmt.Errorf("--hessian-share %q: want a number between 0 and 1, default, or search", s)
	}
	return v, nil
}

// settle resolves defaults that depend on other flags.
func (f *planFlags) settle(changed func(string) bool) error {
	f.o.NoiseBits = f.bits
	if changed("honest") {
		if dishonest := 1 - f.honest; changed("dishonest") && math.Abs(dishonest-f.o.Dishonest) > 1e-9 {
			return fmt.Errorf("--honest %g and --dishonest %g contradict each other: give one of them", f.honest, f.o.Dishonest)
		}
		f.o.Dishonest = math.Round((1-f.honest)*1e12) / 1e12 // 1-0.9 is 0.09999999999999998
	}
	if f.o.Releases > 0 {
		for name, value := range map[string]*float64{"drop-out": &f.o.DropOut, "max-shift": &f.o.MaxShift} {
			if !changed(name) {
				*value = 0
			}
		}
		for name, value := range map[string]*int{"min-cohort": &f.o.MinCohort, "dishonest-reports": &f.o.DishonestReports} {
			if !changed(name) {
				*value = 0
			}
		}
		if !changed("users") && !changed("cohort") {
			f.o.Cohorts = []int{planGenericCohort}
		}
	}
	if changed("variance") && !changed("max-shift") {
		f.o.MaxShift = 0 // the cap would exempt a release from what was asked for
	}
	if !changed("messages") && (f.o.Releases > 0 || changed("bytes") || changed("variance") || changed("mean-messages") || changed("noise-bits")) {
		f.o.Messages = 0
	}
	if changed("cohort") && changed("users") {
		return errors.New("--users and --cohort say the same thing twice: give one of them")
	}
	return nil
}

func runPlan(cmd *cobra.Command, f planFlags) error {
	var err error
	if f.o.SealSeconds, err = planner.MeasureSeal(); err != nil {
		return err
	}
	result, err := planner.Run(f.o)
	var infeasible *planner.Infeasible
	if errors.As(err, &infeasible) && f.json {
		enc := json.NewEncoder(cmd.OutOrStdout())
		enc.SetIndent("", "  ")
		if err := enc.Encode(map[string]any{"infeasible": infeasible}); err != nil {
			return err
		}
	}
	if err != nil {
		return err
	}
	if f.out != "" {
		if err := os.MkdirAll(filepath.Dir(f.out), 0o755); err != nil {
			return fmt.Errorf("plan: %w", err)
		}
		if err := result.Chart().Save(f.out); err != nil {
			return err
		}
	}
	if f.json {
		return result.WriteJSON(cmd.OutOrStdout())
	}
	if err := result.WriteTable(cmd.OutOrStdout()); err != nil || f.out == "" {
		return err
	}
	_, err = fmt.Fprintf(cmd.OutOrStdout(), "\nPicture: %s\n", f.out)
	return err
}

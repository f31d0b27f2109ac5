package main

import (
	"encoding/json"
	"fmt"
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/riffle-dp/riffle/internal/lab/evaluate"
	"github.com/riffle-dp/riffle/internal/role/entropy"
	"github.com/riffle-dp/riffle/pkg/plan"
)

// priorFlags are those of riffle evaluate that are about priors.
type priorFlags struct {
	read, write                   string
	epsilon, delta, radius, worth float64
	standard                      int
}

func (f *priorFlags) add(flags *pflag.FlagSet) {
	flags.StringVar(&f.read, "prior", "", "value the policy that plays greedily by this prior, a file of --write-prior")
	flags.StringVar(&f.write, "write-prior", "",
		"fit a prior to the log, write it to this file for the setting learner.prior, and compare it")
	flags.Float64Var(&f.epsilon, "epsilon", 0,
		"guarantee of every row of the log towards those who see the prior; 0: none")
	flags.Float64Var(&f.delta, "delta", plan.DefaultDelta, "delta of that guarantee")
	flags.Float64Var(&f.radius, "norm-bound", 3, "bound of the parameter's norm, as in the deployment")
	flags.Float64Var(&f.worth, "worth", 1,
		"how much a row counts in the prior beside a decision of the deployment, above 0 and at most 1")
	flags.IntVar(&f.standard, "default-arm", 0, "index of the default arm, which the prior is compared with")
}

// priorResult is what riffle evaluate --write-prior prints.
type priorResult struct {
	File       string               `json:"file"`
	Decisions  int                  `json:"decisions"`
	Epsilon    float64              `json:"epsilon"` // of every row; 0: none
	Delta      float64              `json:"delta"`
	Prior      evaluate.Prior       `json:"prior"`
	Comparison *evaluate.Comparison `json:"comparison"`
}

func runWritePrior(cmd *cobra.Command, path string, f evaluateFlags) error {
	p := f.prior
	if p.read != "" || f.policy != "" || f.theta != nil {
		return fmt.Errorf("--write-prior fits a prior of its own: give it without --prior, --policy and --theta")
	}
	log, family, err := f.readLog(path)
	if err != nil {
		return err
	}
	with := evaluate.PriorOptions{Family: f.family, MaxReward: f.maxReward, Radius: p.radius, Epsilon: p.epsilon,
		Delta: p.delta, Worth: p.worth, Noise: entropy.New()}
	comparison, err := evaluate.ComparePrior(log, p.standard, with,
		evaluate.Options{Family: family, Confidence: f.confidence})
	if err != nil {
		return err
	}
	prior, err := evaluate.FitPrior(log, with)
	if err != nil {
		return err
	}
	text, err := json.Marshal(prior)
	if err != nil {
		return err
	}
	if err := os.WriteFile(p.write, append(text, '\n'), 0o644); err != nil {
		return err
	}
	r := priorResult{File: p.write, Decisions: len(log), Epsilon: p.epsilon, Prior: prior, Comparison: comparison}
	if p.epsilon > 0 {
		r.Delta = p.delta
	}
	if f.json {
		return printJSON(cmd, r)
	}
	return r.print(cmd, f.confidence)
}

func (r priorResult) print(cmd *cobra.Command, confidence float64) error {
	w, c := cmd.OutOrStdout(), r.Comparison
	fmt.Fprintf(w, "Prior of dimension %d from %d decisions: %s\n", len(r.Prior.Theta), r.Decisions, r.File)
	if r.Epsilon > 0 {
		fmt.Fprintf(w, "It hides each row with epsilon %g at delta %g. Each run spends that again.\n", r.Epsilon, r.Delta)
	} else {
		fmt.Fprintln(w, "It has no guarantee: whoever sees it may learn of a row. Give --epsilon unless that is agreed.")
	}
	fmt.Fprintf(w, "\nMean reward per decision, %g %% intervals; each half of the log values the prior of the other half:\n",
		100*confidence)
	for _, line := range []struct {
		name string
		e    evaluate.Estimate
	}{{"prior", c.Prior}, {"what was played", c.Logged}, {"default arm", c.Default},
		{"prior over what was played", c.OverLogged}, {"prior over the default arm", c.OverDefault}} {
		fmt.Fprintf(w, "  %-28s %7.4f  [%.4f, %.4f]\n", line.name, line.e.Value, line.e.Low, line.e.High)
	}
	verdict := "The log does not show that the prior is better than the default arm: leave it out, or begin with caution."
	switch {
	case c.OverDefault.Low > 0:
		verdict = "The prior is better than the default arm on this log: set learner.prior to the file."
	case c.OverDefault.High < 0:
		verdict = "The prior is worse than the default arm on this log: leave it out."
	}
	_, err := fmt.Fprintf(w, "\n%s\nNeither these estimates nor the log are private.\n", verdict)
	return err
}

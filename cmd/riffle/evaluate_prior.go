package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/riffle-dp/riffle/internal/command"
	"github.com/riffle-dp/riffle/internal/evaluate"
	"github.com/riffle-dp/riffle/internal/role/entropy"
	"github.com/riffle-dp/riffle/pkg/glm/learner"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/privacy"
)

// priorFlags are those of riffle evaluate that are about priors.
type priorFlags struct {
	read, write                   string
	epsilon, delta, radius, worth float64
	standard                      int
}

func (f *priorFlags) add(flags *pflag.FlagSet) {
	flags.StringVar(&f.read, "prior", "", "value greedy play by this prior, a file of --write-prior")
	flags.StringVar(&f.write, "write-prior", "",
		"fit a prior to two thirds of the log, write it, and judge it by the rest")
	flags.Float64Var(&f.epsilon, "epsilon", 0,
		"guarantee of every row towards those who see the prior; 0: none")
	flags.Float64Var(&f.delta, "delta", plan.DefaultDelta, "delta of that guarantee")
	flags.Float64Var(&f.radius, "norm-bound", learner.DefaultRadius, "bound of the parameter's norm, as in the deployment")
	flags.Float64Var(&f.worth, "worth", 1,
		"how much a row counts beside a decision of the deployment, up to 1")
	flags.IntVar(&f.standard, "default-arm", 0, "place, from 0, of the default arm among a row's arms,\n"+
		"which the prior is compared with")
}

// priorOnly are the flags that say nothing without --write-prior.
var priorOnly = []string{"epsilon", "delta", "norm-bound", "worth", "default-arm"}

// priorResult is what riffle evaluate --write-prior prints.
type priorResult struct {
	File       string               `json:"file"`
	Decisions  int                  `json:"decisions"` // that it was fitted to
	Epsilon    float64              `json:"epsilon"`   // of every row; 0: none
	Delta      float64              `json:"delta"`
	Warning    string               `json:"warning,omitempty"` // of delta
	Prior      evaluate.Prior       `json:"prior"`
	Comparison *evaluate.Comparison `json:"comparison"`
}

func runWritePrior(cmd *cobra.Command, path string, f evaluateFlags) error {
	p := f.prior
	if p.read != "" || f.policy != "" || f.theta != nil {
		return fmt.Errorf("--write-prior fits a prior of its own: give it without --prior, --policy and --theta")
	}
	if f.out != "" {
		return errors.New("--out draws the weights of a policy that is valued: give it without --write-prior")
	}
	if p.epsilon == 0 && cmd.Flags().Changed("delta") {
		return fmt.Errorf("--delta is of a guarantee, and there is none: give --epsilon too")
	}
	log, family, err := f.readLog(cmd, path)
	if err != nil {
		return err
	}
	with := evaluate.PriorOptions{Family: f.family, MaxReward: f.maxReward, Radius: p.radius, Epsilon: p.epsilon,
		Delta: p.delta, Worth: p.worth, Noise: entropy.New()}
	prior, comparison, err := evaluate.NewPrior(log, p.standard, with,
		evaluate.Options{Family: family, Confidence: f.confidence})
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	text, err := json.Marshal(prior)
	if err != nil {
		return err
	}
	if err := os.WriteFile(p.write, append(text, '\n'), 0o644); err != nil {
		return err
	}
	r := priorResult{File: p.write, Decisions: len(log) - comparison.Decisions, Epsilon: p.epsilon, Prior: prior,
		Comparison: comparison}
	if p.epsilon != 0 {
		r.Delta, r.Warning = p.delta, privacy.WarnDelta(p.delta, r.Decisions)
	}
	if f.json {
		return command.PrintJSON(cmd, r)
	}
	return r.print(cmd, f.confidence)
}

func (r priorResult) print(cmd *cobra.Command, confidence float64) error {
	w, c := cmd.OutOrStdout(), r.Comparison
	fmt.Fprintf(w, "Prior of dimension %d from %d decisions: %s\n", len(r.Prior.Theta), r.Decisions, r.File)
	if r.Epsilon > 0 {
		fmt.Fprintf(w, "It hides each of them with epsilon %g at delta %g. Each run spends that again.\n", r.Epsilon,
			r.Delta)
		if r.Warning != "" {
			fmt.Fprintf(w, "Warning: %s.\n", r.Warning)
		}
	} else {
		fmt.Fprintln(w, "It has no guarantee: whoever sees it may learn of a row. Give --epsilon unless that is "+
			"agreed.")
	}
	if c.Values != nil {
		noise := ""
		if r.Epsilon > 0 {
			noise = ", of this very prior with its noise"
		}
		fmt.Fprintf(w, "\nMean reward per decision, %g %% intervals, on %d other decisions%s:\n", 100*confidence,
			c.Decisions, noise)
		printValues(w, 28, []namedValue{{"prior", c.Prior}, {"what was played", c.Logged}, {"default arm", c.Default},
			{"prior over what was played", c.OverLogged}, {"prior over the default arm", c.OverDefault}})
	}
	if c.Doubt != "" {
		fmt.Fprintf(w, "\nWhat is not known: %s.\n", c.Doubt)
	}
	_, err := fmt.Fprintf(w, "\n%s\n%s", verdicts[c.Verdict], forHolders)
	return err
}

var verdicts = map[evaluate.Verdict]string{
	evaluate.Better: "The prior is better than the default arm on this log: set the analyzer's learner.prior to the " +
		"file.",
	evaluate.Worse: "The prior is worse than the default arm on this log: leave it out.",
	evaluate.Open: "The log does not show that the prior is better than the default arm: leave it out, or begin with " +
		"caution.",
	evaluate.IsNoise: "The prior cannot be told from noise, so that what it earned here is chance: leave it out. " +
		"More rows or\na larger epsilon give a prior that says something.",
	evaluate.Unknown: "The log does not say whether the prior is better than the default arm: begin with caution, or " +
		"judge it on a\nlog of a policy that explores (--prior).",
}

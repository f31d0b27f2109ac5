package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/riffle-dp/riffle/internal/lab/evaluate"
	"github.com/riffle-dp/riffle/pkg/glm"
)

type evaluateFlags struct {
	policy, family        string
	theta                 []float64
	maxReward, confidence float64
	json                  bool
	prior                 priorFlags
}

func evaluateCommand() *cobra.Command {
	f := evaluateFlags{}
	cmd := &cobra.Command{
		Use:   "evaluate LOG",
		Short: "value a policy on a log that another policy made",
		Long: `
Estimates what a policy would have earned on the decisions of a log, without playing the policy. The command prints
three estimates with confidence intervals: by inverse propensity scores (IPS), by self-normalised ones (SNIPS), and by
the doubly robust method. The log has one JSON object per line: arms (all arms of the decision), arm (the index of the
arm that was played), reward, and propensity (the probability with which that arm was played; devices know it).

With --write-prior, the command fits what a deployment may know before its first person (the setting learner.prior) to
the log, writes it to a file, and says whether it would help: each half of the log values the prior of the other half,
against what was played and against the default arm. A prior is announced to everybody, so give it a guarantee with
--epsilon, or use a log whose people agreed that it is published.

A log with contexts and rewards is personal data in the clear: use this command only for people who agreed to it.
Neither the log nor the estimates are private.`[1:],
		Example: `  riffle evaluate log.jsonl --policy policy.json
  riffle evaluate log.jsonl --theta 0.3,-1.2,0.8 --json
  riffle evaluate log.jsonl --write-prior prior.json --epsilon 1 --default-arm 0
  riffle evaluate newer.jsonl --prior prior.json`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if f.prior.write != "" {
				return runWritePrior(cmd, args[0], f)
			}
			return runEvaluate(cmd, args[0], f)
		},
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.StringVar(&f.policy, "policy", "",
		"file of the policy to value, as announced (JSON); without it and without --theta, uniform play is valued")
	flags.Float64SliceVar(&f.theta, "theta", nil, "value the policy that plays greedily by this parameter")
	f.prior.add(flags)
	flags.StringVar(&f.family, "family", "logistic",
		"reward family of the fitted model: logistic, probit, linear, poisson or gaussian")
	flags.Float64Var(&f.maxReward, "max-reward", 1, "largest reward")
	flags.Float64Var(&f.confidence, "confidence", 0.95, "confidence level of the intervals")
	flags.BoolVar(&f.json, "json", false, "print the estimates as one JSON object")
	return cmd
}

// target is the policy to value on vectors of a dimension.
func (f evaluateFlags) target(dimension int) (evaluate.Target, error) {
	named := 0
	for _, given := range []bool{f.policy != "", f.theta != nil, f.prior.read != ""} {
		if given {
			named++
		}
	}
	switch {
	case named > 1:
		return nil, errors.New("give one of --policy, --theta and --prior")
	case f.prior.read != "":
		text, err := os.ReadFile(f.prior.read)
		if err != nil {
			return nil, err
		}
		p, err := evaluate.ReadPrior(text, dimension)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", f.prior.read, err)
		}
		return evaluate.Greedy(p.Theta), nil
	case f.theta != nil:
		return evaluate.Greedy(f.theta), nil
	case f.policy == "":
		return evaluate.Uniform, nil
	}
	text, err := os.ReadFile(f.policy)
	if err != nil {
		return nil, err
	}
	p := &glm.Policy{}
	if err := json.Unmarshal(text, p); err != nil {
		return nil, fmt.Errorf("%s: %w", f.policy, err)
	}
	if err := p.Validate(); err != nil {
		return nil, fmt.Errorf("%s: %w", f.policy, err)
	}
	return p.Probabilities, nil
}

// readLog reads the log, and the family of its rewards.
func (f evaluateFlags) readLog(path string) ([]evaluate.Decision, glm.Family, error) {
	family, err := glm.NewFamily(f.family, f.maxReward)
	if err != nil {
		return nil, nil, err
	}
	in, err := os.Open(path)
	if err != nil {
		return nil, nil, err
	}
	defer in.Close()
	log, err := evaluate.Read(in)
	if err == nil && len(log) == 0 {
		err = evaluate.ErrFew
	}
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", path, err)
	}
	return log, family, nil
}

func runEvaluate(cmd *cobra.Command, path string, f evaluateFlags) error {
	log, family, err := f.readLog(path)
	if err != nil {
		return err
	}
	target, err := f.target(len(log[0].Arms[0]))
	if err != nil {
		return err
	}
	r, err := evaluate.Evaluate(log, target, evaluate.Options{Family: family, Confidence: f.confidence})
	if err != nil {
		return err
	}
	if f.json {
		return printJSON(cmd, r)
	}
	w := cmd.OutOrStdout()
	fmt.Fprintf(w, "Mean reward per decision, %g %% intervals, from %d decisions:\n", 100*f.confidence, r.Decisions)
	for _, line := range []struct {
		name string
		e    evaluate.Estimate
	}{{"doubly robust", r.DoublyRobust}, {"SNIPS", r.SNIPS}, {"IPS", r.IPS}} {
		fmt.Fprintf(w, "  %-14s %.4f  [%.4f, %.4f]\n", line.name, line.e.Value, line.e.Low, line.e.High)
	}
	_, err = fmt.Fprintf(w,
		"Effective size %.0f, largest weight %.1f, %d decisions with an arm that this policy never plays.\n",
		r.EffectiveSize, r.LargestWeight, r.Unsupported)
	return err
}

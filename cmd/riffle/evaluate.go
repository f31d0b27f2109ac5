package main

import (
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"

	"github.com/spf13/cobra"

	"github.com/riffle-dp/riffle/internal/command"
	"github.com/riffle-dp/riffle/internal/evaluate"
	"github.com/riffle-dp/riffle/internal/population/decisions"
	"github.com/riffle-dp/riffle/pkg/deployment/policyfile"
	"github.com/riffle-dp/riffle/pkg/glm/family"
	"github.com/riffle-dp/riffle/pkg/strict"
)

type evaluateFlags struct {
	policy, family, out   string
	theta                 []float64
	maxReward, confidence float64
	json, strict          bool
	log                   logFlags
	prior                 priorFlags
}

func evaluateCommand() *cobra.Command {
	f := evaluateFlags{}
	cmd := &cobra.Command{
		Use:   "evaluate LOG",
		Short: "value a policy on a log that another policy made",
		Long: `
Estimates what a policy would have earned on the decisions of a log, without playing the policy. It
prints four estimates: by inverse propensity scores (IPS), by self-normalised ones (SNIPS), by the
doubly robust method, and by SWITCH, which leaves large weights to its model of rewards. They have
confidence intervals where the log is large enough for them.

The log is JSON Lines, CSV (commas, semicolons or tabs), or of Vowpal Wabbit, also packed with gzip. Each
decision has arms (that could be played), arm (the one that was), reward, and propensity (the
probability with which it was played; devices know it):

  {"arms": [[0.2, 1], [0.4, 0]], "arm": 1, "reward": 1, "propensity": 0.25}

--columns names other columns. Where arms have names and not numbers, --features gives the schema by
which devices make numbers. docs/data.md has every form, and the rule for missing values.

Further columns are ignored (--strict refuses them). A row that lacks something is refused. So is a
log that is proved not to hold what the policy would have earned: the policy plays what could not be
played, or the weights do not have the mean 1 that right propensities give them.

With --write-prior, the command fits what a deployment may know before its first person (the
setting learner.prior) to two thirds of the log, writes it to a file, and judges that file by the
last third, against what was played and against the default arm. A prior is announced to everybody,
so give it a guarantee with --epsilon, or use a log whose people agreed that it is published.

A log with contexts and rewards is personal data in the clear: use this command only for people who
agreed to it. Neither the log nor the estimates are private.`[1:],
		Example: `  riffle evaluate log.jsonl --policy policy.json
  riffle evaluate log.jsonl --theta 0.3,-1.2,0.8 --json
  riffle evaluate log.jsonl --write-prior prior.json --epsilon 1 --default-arm 0
  riffle evaluate newer.jsonl --prior prior.json
  riffle evaluate offers.csv.gz --features schema.json \
      --columns arm=offer,reward=clicked,propensity:=0.25`,
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
		"file of the policy to value: of riffle policy export, or a policy\nas announced (JSON); default uniform play")
	flags.Float64SliceVar(&f.theta, "theta", nil, "value the policy that plays greedily by this parameter")
	f.log.add(flags)
	f.prior.add(flags)
	flags.StringVar(&f.family, "family", family.NameLogistic, strict.List(family.Names(), "or")+" rewards")
	flags.Float64Var(&f.maxReward, "max-reward", 1, "largest reward")
	flags.Float64Var(&f.confidence, "confidence", 0.95, "confidence level of the intervals")
	flags.StringVar(&f.out, "out", "", "file of a picture of the weights, .png or .svg")
	flags.BoolVar(&f.strict, "strict", false, "refuse columns that have no role")
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
		return p.Target, nil
	case f.theta != nil:
		if len(f.theta) != dimension {
			return nil, fmt.Errorf("--theta has %d numbers, the arms of the log %d: give as many", len(f.theta),
				dimension)
		}
		if slices.ContainsFunc(f.theta, func(v float64) bool { return !(math.Abs(v) <= decisions.Largest) }) {
			return nil, fmt.Errorf("--theta must be finite numbers of at most %g", decisions.Largest)
		}
		return evaluate.Greedy(f.theta), nil
	case f.policy == "":
		return evaluate.Uniform, nil
	}
	text, err := os.ReadFile(f.policy)
	if err != nil {
		return nil, err
	}
	p, err := policyfile.Policy(text)
	if err == nil && p.Dimension != dimension {
		err = fmt.Errorf("the policy has dimension %d, the arms of the log %d", p.Dimension, dimension)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", f.policy, err)
	}
	return p.Probabilities, nil
}

// readLog reads the log, and the family of its rewards.
func (f evaluateFlags) readLog(cmd *cobra.Command, path string) ([]decisions.Decision, family.Family, error) {
	if err := checkConfidence(f.confidence); err != nil {
		return nil, nil, err
	}
	family, err := family.New(f.family, f.maxReward)
	if err != nil {
		return nil, nil, err
	}
	log, err := f.log.open(cmd, path, family, f.strict)
	if err != nil {
		return nil, nil, err
	}
	if len(log.Decisions) == 0 {
		return nil, nil, fmt.Errorf("%s: %w", path, evaluate.ErrFew)
	}
	return log.Decisions, family, nil
}

func runEvaluate(cmd *cobra.Command, path string, f evaluateFlags) error {
	for _, name := range priorOnly {
		if cmd.Flags().Changed(name) {
			return fmt.Errorf("--%s is about a prior that is written: give it with --write-prior, or leave it out",
				name)
		}
	}
	log, family, err := f.readLog(cmd, path)
	if err != nil {
		return err
	}
	target, err := f.target(len(log[0].Arms[0]))
	if err != nil {
		return err
	}
	r, err := evaluate.Evaluate(log, target, evaluate.Options{Family: family, Confidence: f.confidence})
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if f.out != "" {
		if err := r.Chart().Save(f.out); err != nil {
			return err
		}
	}
	if f.json {
		return command.PrintJSON(cmd, r)
	}
	if err := printEstimates(cmd, r, f); err != nil || f.out == "" {
		return err
	}
	_, err = fmt.Fprintf(cmd.OutOrStdout(), "Picture: %s\n", f.out)
	return err
}

// valued is what is valued, in words.
func (f evaluateFlags) valued() string {
	switch {
	case f.prior.read != "":
		return "greedy play by the prior " + f.prior.read
	case f.theta != nil:
		return "greedy play by --theta"
	case f.policy != "":
		return "the policy " + f.policy
	}
	return "uniform play"
}

func printEstimates(cmd *cobra.Command, r *evaluate.Estimates, f evaluateFlags) error {
	w, o := cmd.OutOrStdout(), r.Overlap
	fmt.Fprintf(w, "Mean reward per decision of %s,\n%g %% intervals, from %d decisions:\n", f.valued(),
		100*f.confidence, r.Decisions)
	printValues(w, 28, []namedValue{{"doubly robust", r.DoublyRobust}, {"SWITCH", r.Switch.Estimate},
		{"SNIPS", r.SNIPS}, {"IPS", r.IPS}, {"what was played", r.Logged},
		{"doubly robust less played", r.OverLogged}})
	fmt.Fprintf(w, `
A weight is the policy's probability of the arm that was played, over its propensity.
Mean weight     %8.4f  1 is expected, give or take %.2g; IPS is SNIPS times this
Effective size  %8.0f  decisions by the policy itself would tell about as much
Error size      %8.0f  decisions, about, are what the widths of the intervals rest on
Largest weight  %8.4g
Never played    %8.3g  %% of decisions have an arm that the policy never plays
SWITCH at       %8.4g  larger weights, %.3g %% of the policy's play, are left to the model
`, o.MeanWeight, o.MeanWeightSE, o.EffectiveSize, o.ErrorSize, o.LargestWeight, 100*o.NeverPlayed,
		r.Switch.Threshold, 100*r.Switch.Left)
	if r.Outside {
		fmt.Fprintln(w, "\nA value outside the range of rewards is a sign of large weights on few decisions.\nOne "+
			"whose interval lies outside has none.")
	}
	if doubt := o.Doubt(); doubt != "" {
		fmt.Fprintf(w, "\nNo intervals of the policy: %s.\n", doubt)
	}
	_, err := fmt.Fprintf(w, "\nThe estimates hold if propensities are right and the log's policy could play\nall "+
		"that this one plays.\n%s", forHolders)
	return err
}

// forHolders ends what is computed from a log without noise.
const forHolders = "Neither log nor estimates are private: they are for those who hold the log.\n"

// namedValue is a line of a table of estimates.
type namedValue struct {
	name string
	evaluate.Estimate
}

// printValues prints each estimate with its interval, if it has one.
func printValues(w io.Writer, width int, lines []namedValue) {
	for _, line := range lines {
		interval := "no interval"
		if i := line.Interval; i != nil {
			interval = fmt.Sprintf("[%.4f, %.4f]", i.Low, i.High)
		}
		fmt.Fprintf(w, "  %-*s %7.4f  %s\n", width, line.name, line.Value, interval)
	}
}

package main

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"

	"github.com/riffle-dp/riffle/internal/analyzer"
	"github.com/riffle-dp/riffle/internal/command"
	"github.com/riffle-dp/riffle/internal/drive/progress"
	"github.com/riffle-dp/riffle/internal/planner"
	"github.com/riffle-dp/riffle/internal/randomizer"
	"github.com/riffle-dp/riffle/pkg/glm"
	"github.com/riffle-dp/riffle/pkg/glm/family"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/protocol"
	"github.com/riffle-dp/riffle/pkg/strict"
)

// Defaults of this command.
const (
	planUsers         = 5000 // as in the demo
	planGenericCohort = 2000 // people, with --releases
)

// planFlags are the choices of riffle plan.
type planFlags struct {
	o       planner.Options
	honest  float64
	share   string
	biases  []float64
	trust   string
	device  bool
	learner string
	panel   planner.PanelOptions // whose Options are o
	learnt  predictFlags
	json    bool
	out     string
}

func planCommand() *cobra.Command {
	f := planFlags{o: planner.Options{Terms: plan.DefaultTerms(), HostMessages: randomizer.DefaultLimits().MaxMessages}}
	learner := analyzer.DefaultSettings().Learner
	cmd := &cobra.Command{
		Use:   "plan",
		Short: "see what a deployment's privacy costs, and what it learns, before it runs",
		Long: `
Plans every cohort of a deployment. The command prints what each cohort costs a person in bit messages, bytes and CPU
time, and compares the error of every released sum with the errors of a trusted curator and of local differential
privacy. Without flags it plans the default deployment. It starts nothing and sends nothing.

Give one budget and the planner finds the rest: with --variance it finds the fewest messages for that precision; with
--messages, --mean-messages or --bytes it finds the best precision for that cost. It searches the scale, the number of
noise bits and their bias. On request it also divides the budget over the releases (--hessian-share search) and the
messages over the cohorts (--mean-messages).

With --releases N it plans N rounds of vectors with entries in [-1/2, 1/2] and diameter 1 instead of the learner's
statistics, and for the channel shuffle alone. Then --min-cohort, --drop-out, --dishonest-reports, --max-shift and
--messages default to 0, --cohort defaults to 2000 people, and --variance defaults to 2 if no other budget is given.

The budget is for each credential. Where issuers let people in, say with --credentials how many an account gets: the
plan states what they reveal together.

A table puts the four channels beside each other: what a person sends, what each role computes, how much noise there
is, what one lying report can do, both guarantees, and whom a person must trust. It says which channel the planner
recommends, and why. With --trust the plan above the table is for another channel than shuffle.

Then it plays the deployment some dozen times, with its own learner and noise of the planned size, against people who
are assumed, or resampled from your own log (--from-log), which is refused if it has too few decisions of an option, or
proves its propensities wrong. It prints how much of what a learner without privacy gains is kept, after how many people
the policy beats the best constant option, and whether the plan is worth running; if not, which changes would help. Say
with --effect how much there is to gain. Where a simulation would take long it plays fewer runs and then fewer people,
and says so.

In the JSON output the numbers at the top describe the cohort in which a person sends the most messages and, within
it, the release with the most messages per coordinate; "epsilon" is the weakest guarantee of all cohorts. A person is
in one cohort only, so the guarantees of the cohorts do not add up.`[1:],
		Example: `  riffle plan
  riffle plan --dim 20
  riffle plan --dim 20 --trust shares
  riffle plan --options 10 --context 10
  riffle plan --options 3 --context 5 --users 2000 --trust shares --effect 0.2 --baseline 0.3
  riffle plan --server-noise 0.5
  riffle plan --learner linucb --trust shares
  riffle plan --users 50000 --dim 10 --epsilon 0.5 --honest 0.9
  riffle plan --cohort 2000 --variance 1.2 --out plan.png
  riffle plan --dim 15 --cohort 2000 --releases 1 --epsilon 1 --delta 1e-6 --variance 2 --json`,
		Args: cobra.NoArgs,
		PreRunE: func(cmd *cobra.Command, _ []string) error {
			return f.resolve(cmd.Flags().Changed)
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return runPlan(cmd, f) },
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.IntVar(&f.o.Users, "users", planUsers, "people, divided into cohorts by the learner's schedule")
	flags.IntSliceVar(&f.o.Cohorts, "cohort", nil, "sizes of the cohorts, instead of --users; for example 200,400,800")
	flags.IntVar(&f.o.Dimension, "dim", 5, "number of entries of an arm's vector, or of a vector of --releases")
	flags.IntVar(&f.o.Choices, "options", 0,
		"instead of --dim: number of options of a decision, each with its own weight of every number of --context")
	flags.IntVar(&f.o.Context, "context", 0, "with --options: numbers that the app knows at a decision")
	flags.Float64Var(&f.o.Epsilon, "epsilon", f.o.Epsilon, "epsilon of each person's privacy guarantee")
	flags.Float64Var(&f.o.Delta, "delta", f.o.Delta, "delta of each person's privacy guarantee")
	flags.IntVar(&f.o.Credentials, "credentials", 0, "where issuers let people in: credentials that an account gets "+
		"while --epsilon counts,\n1 for each of the issuer's periods; 0: there are no issuers")
	flags.Float64Var(&f.honest, "honest", 1,
		"share of a cohort whose noise is counted; the same as --dishonest 1-HONEST")
	flags.Float64Var(&f.o.Dishonest, "dishonest", f.o.Dishonest, "share of a cohort that may withhold its noise")
	flags.IntVar(&f.o.DishonestReports, "dishonest-reports", f.o.DishonestReports,
		"least number of a cohort's reports that may withhold their noise, whatever the share")
	flags.Float64Var(&f.o.DropOut, "drop-out", f.o.DropOut,
		"share of a cohort that may fail to report without its release being destroyed")
	flags.IntVar(&f.o.MinCohort, "min-cohort", f.o.MinCohort, "fewest reports of any release")
	flags.IntVar(&f.o.MaxMessages, "messages", f.o.MaxMessages,
		"most bit messages of one person, over all releases; -1: 150 up to 5 dimensions, above that 7.5 for\n"+
			"each number released; 0: no limit. The default does not apply if another budget is given")
	flags.IntVar(&f.o.MeanMessages, "mean-messages", 0,
		"most bit messages per person on average; cohorts in which messages help more get more of them")
	flags.IntVar(&f.o.Bytes, "bytes", 0, "most bytes that one person sends, over all rounds; 0: no limit")
	flags.Float64Var(&f.o.VarianceRatio, "variance", 0,
		"largest noise variance of a release, relative to a trusted curator's; 0: the least that the messages allow,\n"+
			"or the default of the channel that --trust names")
	flags.Float64Var(&f.o.MaxShift, "max-shift", f.o.MaxShift,
		"most levels by which a record can move a release (with more, sampling error dominates); 0: no limit.\n"+
			"The default does not apply if --variance is given")
	flags.StringVar(&f.learner, "learner", string(glm.Practical), "learner to plan for: practical, or a learner of "+
		"another paper, for --family linear:\n"+strict.List(glm.Programs(), "or"))
	flags.StringVar(&f.o.Family, "family", learner.Family, "reward family: "+strict.List(family.Names(), "or"))
	flags.Float64Var(&f.o.MaxReward, "max-reward", learner.MaxReward, "largest reward that a person can give")
	flags.Float64Var(&f.o.Radius, "norm-bound", learner.Radius,
		"bound on the parameter's norm; the learner's schedule depends on it")
	flags.Float64Var(&f.o.ThetaNorm, "theta-norm", 0,
		"norm of the public point at which the statistics are evaluated; 0: the first cohort's")
	flags.StringVar(&f.share, "hessian-share", "default",
		"share of the budget for the Hessian; the gradient gets the rest: a number, default (the learner's), or search")
	flags.IntVar(&f.o.Releases, "releases", 0,
		"number of rounds of one generic vector each, planned instead of the learner's statistics")
	flags.Uint32Var(&f.o.NoiseBits, "noise-bits", 0, "noise bits per device and coordinate; 0: searched")
	flags.Float64SliceVar(&f.biases, "bias", []float64{0.5, 0.25}, "probabilities of a noise bit to search")
	flags.StringVar(&f.trust, "trust", string(plan.Shuffle),
		"the channel to plan for: shuffle, shares, local or central")
	flags.Float64Var(&f.o.ServerNoise, "server-noise", 0,
		"share of the noise that alone gives the guarantee, added by servers of shuffle and shares")
	flags.BoolVar(&f.device, "device-noise", true, "whether devices add noise in shuffle and shares")
	flags.IntVar(&f.o.Registered, "registered", 0,
		"plan panels, drawn from at least so many registered devices; then --dishonest is the share of these")
	flags.IntVar(&f.panel.Size, "panel", 0, "with --registered: devices in a panel")
	flags.IntVar(&f.o.Records, "records", 1, "with --registered: epochs that one device may report in; --epsilon is "+
		"for all")
	flags.IntVar(&f.o.Period, "period", 0,
		"with --registered: out of so many epochs that follow each other, for which --epsilon is; 0: the deployment")
	flags.IntVar(&f.o.Decisions, "decisions", 0,
		"with --registered: most decisions of one report; 0: as --mean-decisions advises, or 1")
	flags.Float64Var(&f.panel.MeanDecisions, "mean-decisions", 0,
		"with --registered: decisions of one person in an epoch, on average")
	flags.Float64Var(&f.o.Tail, "tail", 0,
		"with --registered: part of delta for panels with more dishonest devices than are counted, of all epochs\n"+
			"of a person together; 0: the default")
	flags.Float64Var(&f.panel.Control, "control", 0,
		"with --registered: share of decisions that get the default arm, for comparison")
	f.learnt.add(flags)
	flags.BoolVar(&f.json, "json", false, "print the plan, or why there is none, as one JSON object")
	flags.StringVar(&f.out, "out", "", "file for a chart, .png or .svg: of what is learnt; of the frontier\n"+
		"where nothing is predicted")
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
		return 0, fmt.Errorf("--hessian-share %q must be a number between 0 and 1, default, or search", s)
	}
	return v, nil
}

// resolve parses flags and sets defaults that depend on other flags.
func (f *planFlags) resolve(changed func(string) bool) (err error) {
	if f.o.HessianShare, err = parseShare(f.share); err != nil {
		return err
	}
	f.o.Channel, f.o.NoDeviceNoise = plan.Channel(f.trust), !f.device
	if f.o.Learner = glm.Profile(f.learner); f.o.Learner.Program() && !changed("family") {
		f.o.Family = family.NameLinear
	}
	if (changed("options") || changed("context")) && !changed("dim") {
		f.o.Dimension = 0
	}
	for _, p := range f.biases {
		b, err := protocol.BiasFrom(p)
		if err != nil {
			return fmt.Errorf("--bias %v: it must be a probability between 0 and 1", p)
		}
		f.o.Biases = append(f.o.Biases, b)
	}
	if changed("honest") {
		if dishonest := 1 - f.honest; changed("dishonest") && math.Abs(dishonest-f.o.Dishonest) > 1e-9 {
			return fmt.Errorf("--honest %g and --dishonest %g contradict each other; give one of them", f.honest,
				f.o.Dishonest)
		}
		f.o.Dishonest = math.Round((1-f.honest)*1e12) / 1e12 // 1-0.9 is 0.09999999999999998
	}
	generic := f.o.Releases > 0
	for name, value := range map[string]*float64{"drop-out": &f.o.DropOut, "max-shift": &f.o.MaxShift} {
		if generic && !changed(name) {
			*value = 0
		}
	}
	for name, value := range map[string]*int{"min-cohort": &f.o.MinCohort, "dishonest-reports": &f.o.DishonestReports} {
		if generic && !changed(name) {
			*value = 0
		}
	}
	if generic && !changed("users") && !changed("cohort") {
		f.o.Cohorts = []int{planGenericCohort}
	}
	if changed("variance") && !changed("max-shift") {
		f.o.MaxShift = 0 // the cap would exempt a release from the variance that was asked for
	}
	budgets := []string{"bytes", "variance", "mean-messages", "noise-bits"}
	if !changed("messages") && (generic || slices.ContainsFunc(budgets, changed)) {
		f.o.MaxMessages = 0
	}
	if err := f.panels(changed); err != nil {
		return err
	}
	if changed("cohort") && changed("users") {
		return errors.New("--users and --cohort both set the number of people; give one of them")
	}
	return f.learnt.resolve(f.o, changed)
}

// run plans panels, or cohorts of people who take part once.
func (f *planFlags) run() (command.Result, error) {
	if f.o.Registered == 0 {
		return planner.Run(f.o)
	}
	f.panel.Options = f.o
	return planner.RunPanel(f.panel)
}

// panels refuses flags that say something of panels without --registered, and what has another meaning with it.
func (f *planFlags) panels(changed func(string) bool) error {
	of := []string{"panel", "records", "period", "decisions", "mean-decisions", "tail", "control"}
	if f.o.Registered == 0 {
		if i := slices.IndexFunc(of, changed); i >= 0 {
			return fmt.Errorf("--%s is of panels: say with --registered how many devices are registered at least",
				of[i])
		}
		f.o.Records = 0 // as in a plan without panels
		return nil
	}
	if f.panel.Size == 0 {
		return errors.New("--registered plans panels: say with --panel how many devices are in one")
	}
	if changed("cohort") {
		return errors.New("--cohort and --panel both set the size of a cohort; leave out --cohort")
	}
	return nil
}

// people are those of all cohorts, or those who register at least.
func (f planFlags) people() int {
	if f.o.Registered > 0 {
		return f.o.Registered
	}
	if len(f.o.Cohorts) == 0 {
		return f.o.Users
	}
	all := 0
	for _, n := range f.o.Cohorts {
		all += n
	}
	return all
}

func runPlan(cmd *cobra.Command, f planFlags) error {
	err := f.learnt.read(cmd, &f.o)
	if err != nil {
		return err
	}
	if f.o.Machine, err = planner.Measure(); err != nil {
		return err
	}
	f.o.SealSeconds = f.o.Machine.SealBit
	warnDelta(cmd, f.o.Delta, f.people())
	shown := progress.New(cmd.ErrOrStderr(), progress.Options{})
	f.o.Progress = func(step string, done, all int) {
		shown.Update(func(s *progress.State) { s.Phase, s.Work, s.AllWork = step, done, all })
	}
	result, err := f.run()
	if err == nil {
		err = f.learnt.extend(cmd, f.o, result)
	}
	shown.Close()
	var infeasible *planner.Infeasible
	if errors.As(err, &infeasible) && f.json {
		if err := command.PrintJSON(cmd, map[string]any{"infeasible": infeasible}); err != nil {
			return err
		}
	}
	if err != nil {
		return err
	}
	if f.out != "" {
		if err := os.MkdirAll(filepath.Dir(f.out), 0o755); err != nil {
			return err
		}
		of, ok := result.(*planner.Result)
		if !ok {
			return errors.New("--out draws a frontier, and a plan of panels has none; leave it out")
		}
		picture := of.Chart()
		if of.Prediction != nil {
			picture = of.Prediction.Chart()
		}
		if err := picture.Save(f.out); err != nil {
			return err
		}
	}
	if err := command.Print(cmd, result, f.json); err != nil || f.json || f.out == "" {
		return err
	}
	_, err = fmt.Fprintf(cmd.OutOrStdout(), "\nPicture: %s\n", f.out)
	return err
}

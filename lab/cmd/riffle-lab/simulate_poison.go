package main

import (
	"fmt"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/riffle-dp/riffle/internal/command"
	"github.com/riffle-dp/riffle/internal/drive/progress"
	"github.com/riffle-dp/riffle/lab/poison"
	"github.com/riffle-dp/riffle/pkg/plan"
)

type poisonFlags struct {
	setting        poison.Setting
	trust          []string
	strategies     []string
	shares         []float64
	seeds, workers int
	firstSeed      uint64
	json, markdown bool
	out            string
}

// strategyNames are the strategies as flags name them.
var strategyNames = map[string]poison.Strategy{
	"ones": poison.AllOnes, "flip": poison.Flip, "promote": poison.Promote,
}

func simulatePoisonCommand() *cobra.Command {
	f := poisonFlags{}
	cmd := &cobra.Command{
		Use:   "poison",
		Short: "measure what dishonest devices cost, in each channel",
		Long: `
Plays a deployment in one process, some of whose devices report what hurts its learner: ones only, their reward turned
around, or whatever makes the estimate prefer the worst arms. Dishonest devices do no more than their channel lets them,
and they know each other, the plan, and the true parameter. The table has the regret of all decisions, by how much it is
more than with honest devices and the same people, and the bound: the most by which the dishonest devices of a cohort
could move a released number, as riffle plan and riffle audit state it.

Policies, learner, statistics, plans, encodings and noise are those of the deployed roles; there is no transport. The
result is a function of the flags and the program.`[1:],
		Example: `  riffle-lab simulate poison
  riffle-lab simulate poison --trust shuffle,shares --dishonest 0.01 --seeds 30
  riffle-lab simulate poison --people 1000 --strategy flip --trust central --seeds 2 --json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return runPoison(cmd, f) },
	}
	flags, s := cmd.Flags(), &f.setting
	flags.SortFlags = false
	flags.IntVar(&s.People, "people", 5000, "people who decide, each once")
	flags.IntVar(&s.Dimension, "dimension", 5, "numbers that describe an arm for a person")
	flags.IntVar(&s.Arms, "arms", 10, "arms to choose from")
	flags.Float64Var(&s.Norm, "norm", 3, "norm of the true parameter")
	flags.Float64Var(&s.Epsilon, "epsilon", plan.DefaultEpsilon, "guarantee of a person")
	flags.Float64Var(&s.Delta, "delta", plan.DefaultDelta, "delta of the guarantee")
	flags.IntVar(&s.DishonestReports, "dishonest-reports", plan.DefaultDishonestReports,
		"reports of a cohort that the plan expects to be dishonest, whose noise it does not count")
	flags.StringSliceVar(&f.trust, "trust", []string{"shuffle", "shares", "local", "central"},
		"channels, separated by commas")
	flags.StringSliceVar(&f.strategies, "strategy", []string{"ones", "flip", "promote"},
		"what dishonest devices report, separated by commas")
	flags.Float64SliceVar(&f.shares, "dishonest", []float64{0.001, 0.01, 0.05},
		"shares of the devices that are dishonest, separated by commas")
	flags.IntVar(&f.seeds, "seeds", 10, "number of runs of each row")
	flags.Uint64Var(&f.firstSeed, "first-seed", 1, "seed of the first run")
	flags.IntVar(&f.workers, "workers", 0, "number of runs at the same time; 0: one for each processor")
	flags.BoolVar(&f.json, "json", false, "print the rows as one JSON object")
	flags.BoolVar(&f.markdown, "markdown", false, "print the table as Markdown")
	flags.StringVar(&f.out, "out", filepath.Join("out", "simulate", "poison"), "folder for the picture and the rows")
	return cmd
}

// settle is the setting that the flags name.
func (f poisonFlags) settle() (s poison.Setting, err error) {
	s = f.setting
	for _, of := range []struct { // 0 would be a default
		flag string
		n    float64
	}{
		{"people", float64(s.People)}, {"dimension", float64(s.Dimension)}, {"arms", float64(s.Arms)}, {"norm", s.Norm},
		{"epsilon", s.Epsilon}, {"delta", s.Delta}, {"seeds", float64(f.seeds)},
		{"trust", float64(len(f.trust))}, {"strategy", float64(len(f.strategies))},
		{"dishonest", float64(len(f.shares))},
	} {
		if !(of.n > 0) {
			return s, fmt.Errorf("--%s must not be 0, empty or negative", of.flag)
		}
	}
	for _, c := range f.trust {
		s.Channels = append(s.Channels, plan.Channel(c))
	}
	for _, name := range f.strategies {
		strategy, ok := strategyNames[name]
		if !ok {
			return s, fmt.Errorf("--strategy %s is none of ones, flip and promote", name)
		}
		s.Strategies = append(s.Strategies, strategy)
	}
	s.Shares = f.shares
	return s.Resolve()
}

func runPoison(cmd *cobra.Command, f poisonFlags) error {
	setting, err := f.settle()
	if err != nil {
		return err
	}
	ctx, stop := command.UntilStopped(cmd)
	defer stop()
	shown := progress.New(cmd.ErrOrStderr(), progress.Options{})
	result, err := poison.Compare(ctx, setting, poison.Options{Seeds: f.seeds, FirstSeed: f.firstSeed,
		Workers: f.workers,
		Progress: func(people, all int) {
			shown.Update(func(s *progress.State) { s.Phase, s.Done, s.Total = "simulating", people, all })
		}})
	shown.Close()
	if err != nil {
		return err
	}
	return showSimulated(cmd, result, f.out, "poison", f.json, f.markdown)
}

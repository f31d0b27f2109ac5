package main

import (
	"fmt"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"

	"github.com/riffle-dp/riffle/internal/command"
	"github.com/riffle-dp/riffle/internal/drive/progress"
	"github.com/riffle-dp/riffle/internal/planner"
	"github.com/riffle-dp/riffle/internal/play"
	"github.com/riffle-dp/riffle/lab/experiment"
	"github.com/riffle-dp/riffle/pkg/plan"
)

type simulateFlags struct {
	list, json, markdown bool
	seeds, workers       int
	firstSeed            uint64
	horizons             []int
	epsilons             []float64
	only                 []string
	trust                string
	serverNoise          float64
	deviceNoise          bool
	out, logs            string
	half                 string
	worlds, data         []string
}

func simulateCommand() *cobra.Command {
	f := simulateFlags{}
	cmd := &cobra.Command{
		Use:   "simulate [NAME | FILE]",
		Short: "repeat the published experiments, or run your own",
		Long: `
Runs an experiment in one process and compares Riffle with other algorithms. Policies, statistics, plans, encodings
and noise are those of the deployed roles; there is no transport and no encryption. An experiment is a small file of
YAML or JSON that names environments, algorithms, horizons, budgets and seeds; the experiments behind the published
results come with the program.

Finished runs are kept in the output folder: an interrupted experiment continues where it stopped, and further seeds
are added to those already run. The results are a function of the experiment and the program.`[1:],
		Example: `  riffle-lab simulate --list
  riffle-lab simulate headline --seeds 2
  riffle-lab simulate trust --seeds 3
  riffle-lab simulate headline --trust shares --seeds 2 --only riffle,uniform
  riffle-lab simulate headline --epsilon 0.5,4 --horizon 20000 --json
  riffle-lab simulate mine.yaml
  riffle-lab simulate headline --seeds 1 --horizon 5000 --only riffle,uniform --logs logs`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if f.list || len(args) == 0 {
				return listExperiments(cmd)
			}
			return runSimulate(cmd, args[0], f)
		},
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.BoolVar(&f.list, "list", false, "list the experiments that come with the program")
	flags.IntVar(&f.seeds, "seeds", 0, "number of seeds of each run; 0: the experiment's")
	flags.Uint64Var(&f.firstSeed, "first-seed", 0, "seed of the first run; 0: the experiment's")
	flags.IntSliceVar(&f.horizons, "horizon", nil,
		"numbers of people, separated by commas, instead of the experiment's")
	flags.Float64SliceVar(&f.epsilons, "epsilon", nil,
		"privacy guarantees, separated by commas, instead of the experiment's")
	flags.StringSliceVar(&f.only, "only", nil,
		"names of the experiment's algorithms to run, separated by commas; default: all")
	flags.StringVar(&f.trust, "trust", "",
		"channel of all algorithms of kind riffle: shuffle, shares, local or central; default: the experiment's")
	flags.Float64Var(&f.serverNoise, "server-noise", 0,
		"share of the noise that alone gives the guarantee, added by servers, instead of the experiment's")
	flags.BoolVar(&f.deviceNoise, "device-noise", true,
		"whether devices add noise, instead of what the experiment says")
	flags.BoolVar(&f.json, "json", false, "print the rows as one JSON object")
	flags.BoolVar(&f.markdown, "markdown", false, "print the table as Markdown")
	flags.StringVar(&f.out, "out", "", "folder for tables, charts and finished runs (default out/simulate/NAME)")
	flags.StringVar(&f.logs, "logs", "",
		"folder for decisions and last policies, for riffle evaluate; finished runs are run again")
	flags.StringVar(&f.half, "half", "", "half of the worlds of a bake-off: tuning, held-out or all (default)")
	flags.StringSliceVar(&f.worlds, "world", nil, "names of a bake-off's worlds, separated by commas; default: all")
	flags.StringSliceVar(&f.data, "data", nil, "files of people (riffle demo --data), separated by commas, for the "+
		"worlds of a bake-off that ask for them by name, or as worlds of their own")
	flags.IntVar(&f.workers, "workers", 0, "number of runs at the same time; 0: one for each processor")
	cmd.AddCommand(simulateLifeCommand(), simulatePoisonCommand())
	return cmd
}

func listExperiments(cmd *cobra.Command) error {
	fmt.Fprintln(cmd.ErrOrStderr(), "The times are about those of all seeds on two idle cores; --seeds 1 takes a "+
		"part of them.")
	for _, name := range experiment.Names() {
		e, err := experiment.Load(name)
		if err != nil {
			return err
		}
		takes := fmt.Sprintf("%.0f min", experiment.Takes(name).Minutes())
		if _, err := fmt.Fprintf(cmd.OutOrStdout(), "%-18s %6s  %s\n", name, takes, e.Title); err != nil {
			return err
		}
		if e.Paper == "" {
			continue
		}
		if _, err := fmt.Fprintf(cmd.OutOrStdout(), "%-18s %6s    of %s\n", "", "", e.Paper); err != nil {
			return err
		}
	}
	return nil
}

func runSimulate(cmd *cobra.Command, name string, f simulateFlags) error {
	e, err := experiment.Load(name)
	if err != nil {
		return err
	}
	changes := experiment.Changes{Seeds: f.seeds, FirstSeed: f.firstSeed, Horizons: f.horizons, Epsilons: f.epsilons,
		Only: f.only, Trust: plan.Channel(f.trust), Half: f.half, Worlds: f.worlds, Data: f.data}
	if cmd.Flags().Changed("server-noise") {
		changes.ServerNoise = &f.serverNoise
	}
	if cmd.Flags().Changed("device-noise") {
		changes.DeviceNoise = &f.deviceNoise
	}
	if err := e.Change(changes); err != nil {
		return err
	}
	if f.out == "" {
		f.out = filepath.Join("out", "simulate", e.Name)
	}
	ctx, stop := command.UntilStopped(cmd)
	defer stop()
	if e.Kind == experiment.KindBakeoff {
		return runBakeoff(ctx, cmd, e, f)
	}
	shown := progress.New(cmd.ErrOrStderr(), progress.Options{})
	rows, err := e.Run(ctx, experiment.Options{Folder: filepath.Join(f.out, "runs"), Logs: f.logs, Workers: f.workers,
		Progress: func(people, all int) {
			shown.Update(func(s *progress.State) {
				if s.Phase = "simulating"; e.Kind == experiment.KindRegression { // counts runs
					s.Work, s.AllWork = people, all
				} else {
					s.Done, s.Total = people, all
				}
			})
		}})
	shown.Close()
	if ctx.Err() != nil {
		return fmt.Errorf("interrupted; finished runs are kept in %s; run the command again to continue", f.out)
	}
	if err != nil {
		return err
	}
	if err := price(rows); err != nil {
		return err
	}
	pictures, err := e.Save(f.out, rows)
	if err != nil {
		return err
	}
	if f.json {
		return experiment.WriteJSON(cmd.OutOrStdout(), rows)
	}
	if err := experiment.WriteTable(cmd.OutOrStdout(), rows, f.markdown); err != nil {
		return err
	}
	if f.logs != "" {
		fmt.Fprintf(cmd.OutOrStdout(), "Logs: %s (of the algorithms that know the propensities of their choices)\n",
			f.logs)
	}
	slices.Sort(pictures)
	for _, p := range pictures {
		fmt.Fprintln(cmd.OutOrStdout(), "Picture:", p)
	}
	return nil
}

// price adds CPU times to rows whose channel is named. They are measured now, and not kept with the runs.
func price(rows []experiment.Row) error {
	var machine *planner.Machine
	return experiment.Price(rows, func(w play.Work) (device, servers float64, err error) {
		if machine == nil {
			if machine, err = planner.Measure(); err != nil {
				return 0, 0, err
			}
		}
		cpu, err := machine.CPU(w)
		return cpu.Device, cpu.Servers(), err
	})
}

package main

import (
	"context"
	"fmt"
	"os/signal"
	"path/filepath"
	"slices"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/riffle-dp/riffle/internal/drive/progress"
	"github.com/riffle-dp/riffle/internal/lab/experiment"
)

type simulateFlags struct {
	list, json, markdown bool
	seeds, workers       int
	firstSeed            uint64
	horizons             []int
	epsilons             []float64
	only                 []string
	out, logs            string
}

func simulateCommand() *cobra.Command {
	f := simulateFlags{}
	cmd := &cobra.Command{
		Use:   "simulate [NAME | FILE]",
		Short: "repeat the experiments, or run your own",
		Long: `Runs an experiment in one process: the same policies, statistics, plans, encodings and noise as the deployed roles, without transport
and encryption, beside the algorithms that Riffle is compared with. An experiment is a small file of YAML or JSON that names
environments, algorithms, horizons, budgets and seeds; those behind the published results come with the program.

Finished runs are kept in the output folder: an interrupted experiment goes on where it was, more seeds add to those there are. The
results are a function of the experiment and the program.`,
		Example: `  riffle simulate --list
  riffle simulate headline --seeds 2
  riffle simulate headline --epsilon 0.5,4 --horizon 20000 --json
  riffle simulate mine.yaml
  riffle simulate headline --seeds 1 --horizon 5000 --only riffle,uniform --logs logs`,
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
	flags.BoolVar(&f.list, "list", false, "name the experiments that come with the program")
	flags.IntVar(&f.seeds, "seeds", 0, "runs of everything; 0: as the experiment says")
	flags.Uint64Var(&f.firstSeed, "first-seed", 0, "seed of the first run; 0: as the experiment says")
	flags.IntSliceVar(&f.horizons, "horizon", nil, "people, in place of the experiment's; several with commas")
	flags.Float64SliceVar(&f.epsilons, "epsilon", nil, "privacy guarantees, in place of the experiment's; several with commas")
	flags.StringSliceVar(&f.only, "only", nil, "run these of the experiment's algorithms")
	flags.BoolVar(&f.json, "json", false, "print the rows as one JSON object")
	flags.BoolVar(&f.markdown, "markdown", false, "print the table as Markdown")
	flags.StringVar(&f.out, "out", "", "folder for tables, pictures and finished runs (default out/simulate/NAME)")
	flags.StringVar(&f.logs, "logs", "", "run everything anew and write decisions and last policies to this folder, for riffle evaluate")
	flags.IntVar(&f.workers, "workers", 0, "runs at a time; 0: one for each processor")
	return cmd
}

func listExperiments(cmd *cobra.Command) error {
	for _, name := range experiment.Names() {
		e, err := experiment.Load(name)
		if err != nil {
			return err
		}
		if _, err := fmt.Fprintf(cmd.OutOrStdout(), "%-16s %s\n", name, e.Title); err != nil {
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
	if err := e.Change(experiment.Changes{Seeds: f.seeds, FirstSeed: f.firstSeed, Horizons: f.horizons, Epsilons: f.epsilons, Only: f.only}); err != nil {
		return err
	}
	if f.out == "" {
		f.out = filepath.Join("out", "simulate", e.Name)
	}
	ctx, stop := signal.NotifyContext(context.WithoutCancel(cmd.Context()), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	shown := progress.New(cmd.ErrOrStderr(), progress.Options{})
	rows, err := e.Run(ctx, experiment.Options{Folder: filepath.Join(f.out, "runs"), Logs: f.logs, Workers: f.workers, Progress: func(people, all int) {
		shown.Update(func(s *progress.State) { s.Phase, s.Done, s.Total = "simulating", people, all })
	}})
	shown.Close()
	if ctx.Err() != nil {
		return fmt.Errorf("simulate: interrupted; finished runs are kept in %s, run it again to go on", f.out)
	}
	if err != nil {
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
		fmt.Fprintf(cmd.OutOrStdout(), "Logs: %s (of the algorithms that know the odds of their choices)\n", f.logs)
	}
	slices.Sort(pictures)
	for _, p := range pictures {
		fmt.Fprintln(cmd.OutOrStdout(), "Picture:", p)
	}
	return nil
}

// Fuzztool runs the fuzz targets of the repository: each for a time, with a table of what came of it, and it chooses
// which of the inputs that were found are worth keeping. deploy/fuzz calls it.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"regexp"
	"time"

	"github.com/spf13/cobra"
)

const (
	// defaultTime is how long a target runs.
	defaultTime = 5 * time.Minute
	// defaultKept is how many inputs a target may have in its folder.
	defaultKept = 30
)

// errFound says that a target failed, which the table shows.
var errFound = errors.New("a target has failed: see its output above; the input is in its folder testdata/fuzz, where " +
	"it is tested from now on")

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := command(os.Stdout).ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func command(out io.Writer) *cobra.Command {
	r := runner{out: out, log: os.Stderr}
	r.fuzz = r.goTest
	var only, file string
	var list, keep bool
	c := &cobra.Command{
		Use:   "deploy/fuzz",
		Short: "Run every fuzz target of the repository for a time",
		Long: "Run every fuzz target of the repository for a time, one after the other, and print target, seconds, " +
			"executions, new inputs and result as a table. The exit code is not 0 if a target fails. With --json a run " +
			"that was stopped is continued by the same command.",
		Args: cobra.NoArgs, SilenceUsage: true, SilenceErrors: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			pattern, err := regexp.Compile(only)
			if err != nil {
				return fmt.Errorf("--only: %w", err)
			}
			targets, err := discover(".")
			if err != nil {
				return err
			}
			var chosen []target
			for _, t := range targets {
				if pattern.MatchString(t.String()) {
					chosen = append(chosen, t)
				}
			}
			switch {
			case len(chosen) == 0:
				return fmt.Errorf("no target matches %q", only)
			case list:
				for _, t := range chosen {
					fmt.Fprintln(out, t)
				}
				return nil
			case keep:
				return r.keep(cmd.Context(), chosen)
			}
			if file != "" {
				if r.record, err = openRecord(file); err != nil {
					return fmt.Errorf("--json: %w", err)
				}
			}
			return r.run(cmd.Context(), chosen)
		},
	}
	flags := c.Flags()
	flags.DurationVar(&r.time, "time", defaultTime, "how long each target runs")
	flags.IntVar(&r.parallel, "parallel", 0, "processes of one target; 0: one for each processor")
	flags.StringVar(&only, "only", "", "regular expression of the targets, as --list shows them")
	flags.BoolVar(&list, "list", false, "list the targets: folder and function")
	flags.BoolVar(&keep, "keep", false, "in place of running: copy the inputs that were found before, and reach code that "+
		"no other kept input reaches, to testdata/fuzz")
	flags.IntVar(&r.most, "most", defaultKept, "with --keep: inputs that a target may have in its folder")
	flags.StringVar(&file, "json", "", "file for an array with an object for each target, written after each: "+
		"package, target, seconds, executions, new_inputs, result, commit, modified. If it is there, the run goes on "+
		"where it stopped: targets that it says passed, for --time or longer and at this very commit, are skipped; of "+
		"others that it has, the run says why they are fuzzed again. Remove it to begin anew")
	c.MarkFlagsMutuallyExclusive("list", "keep", "json")
	return c
}

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/riffle-dp/riffle/internal/command"
	"github.com/riffle-dp/riffle/internal/config"
	"github.com/riffle-dp/riffle/internal/drive/progress"
	"github.com/riffle-dp/riffle/internal/role"
	"github.com/riffle-dp/riffle/lab/bench"
	"github.com/riffle-dp/riffle/lab/inmemory"
	"github.com/riffle-dp/riffle/pkg/plan"
)

// benchFlags are the flags of riffle-lab bench.
type benchFlags struct {
	bench.Options
	channels              []string
	users, junk, messages []string
	quick, json           bool
	write, out, dir       string
}

func benchCommand() *cobra.Command {
	f := &benchFlags{Options: bench.DefaultOptions()}
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "measure what a deployment costs on this machine, against bounds of the same cores",
		Long: `
Starts deployments on this machine, one after another: broker, shuffler and analyzer as processes, devices inside this
one. It prints what each role costs a person in processor time, bytes and memory in each channel, how that grows with
the cohort, and how far it is from bounds that are measured in the same run: bare X25519 multiplications, HPKE, the
vector sum of two servers, the cipher, copies of memory, and the broker with nothing but messages of the same sizes.

Sealing is most of the work, and a million sealed reports take hours. So cohorts of --users are sealed by devices, and
cohorts of --junk are reports that are as they should be to the shuffler, with random bytes in place of sealed bits:
nobody can open them, and the shuffler does all of its work. Each row says which of them it comes from.

With no flags it takes about eleven minutes on two idle cores, and with --quick seconds. Every sum is compared with
the truth, and every message that leaves the shuffler with what came; a difference ends the run with exit code 2.`[1:],
		Example: `  riffle-lab bench --quick
  riffle-lab bench --channel shuffle,shares --users 1e3,1e4
  riffle-lab bench --junk 1e6 --users 1e3
  riffle-lab bench --write lab/docs`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return runBench(cmd, f) },
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.StringSliceVar(&f.channels, "channel", nil, "channels to measure: shuffle, shares, local, central; empty: "+
		"all")
	flags.StringSliceVar(&f.users, "users", nil, "sizes of cohorts that devices seal for, as in 1e3,1e4; 0: none")
	flags.StringSliceVar(&f.junk, "junk", nil, "sizes of cohorts of junk, for the shuffler's part, as in 1e3,1e6; 0: "+
		"none")
	flags.StringSliceVar(&f.messages, "messages", nil, "numbers of bit messages of one release of junk in large "+
		"reports, as in 1e6,5e7; 0: none")
	flags.IntSliceVar(&f.Dimensions, "dim", f.Dimensions, "numbers of entries of an arm's vector; the first is "+
		"measured at every size, the others at the first size")
	flags.IntSliceVar(&f.Workers, "workers", f.Workers, "numbers of workers that shuffler and analyzer have beside "+
		"their leads")
	flags.IntVar(&f.WorkUsers, "work-users", f.WorkUsers, "people of each run with workers; 0: no such runs")
	flags.BoolVar(&f.Kill, "kill", f.Kill, "repeat each run with workers, and kill one process at random")
	flags.BoolVar(&f.Sync, "sync", false, "the broker syncs the disk before every acknowledgement")
	flags.DurationVar(&f.Measure, "duration", f.Measure, "for how long each bound is measured")
	flags.BoolVar(&f.quick, "quick", false, "small cohorts, everything once, in seconds: proves nothing about speed")
	flags.BoolVar(&f.json, "json", false, "print the rows as one JSON array: one for each role, channel and size")
	flags.StringVar(&f.out, "out", "", "draw the result into this file: .png, or .svg for the first picture alone")
	flags.StringVar(&f.write, "write", "", "write the page benchmarks.md, tables/bench.txt, figures/bench*.png and "+
		"figures/bench.json into this folder")
	flags.StringVar(&f.dir, "dir", "", "folder for streams and logs while it runs; empty: a temporary one")
	return cmd
}

// sizes reads numbers of people or messages, also as 1e4. No text leaves the default.
func sizes(flag string, texts []string, usual []int) ([]int, error) {
	if len(texts) == 0 {
		return usual, nil
	}
	var all []int
	for _, text := range texts {
		v, err := strconv.ParseFloat(text, 64)
		if err != nil || v != float64(int(v)) || v < 0 || v > 1e12 {
			return nil, fmt.Errorf("--%s %s: must be a whole number that is not negative, such as 1000 or 1e3", flag,
				text)
		}
		if v > 0 {
			all = append(all, int(v))
		}
	}
	return all, nil
}

// options puts the flags together.
func (f *benchFlags) options(cmd *cobra.Command) (o bench.Options, err error) {
	o = f.Options
	if f.quick {
		quick := bench.QuickOptions()
		o.Users, o.Junk, o.Mixed = quick.Users, quick.Junk, quick.Mixed
		for name, set := range map[string]func(){
			"dim": func() { o.Dimensions = quick.Dimensions }, "workers": func() { o.Workers = quick.Workers },
			"work-users": func() { o.WorkUsers = quick.WorkUsers },
			"duration":   func() { o.Measure = quick.Measure }, "kill": func() { o.Kill = quick.Kill },
		} {
			if !cmd.Flags().Changed(name) {
				set()
			}
		}
	}
	for _, list := range []struct {
		flag  string
		texts []string
		into  *[]int
	}{{"users", f.users, &o.Users}, {"junk", f.junk, &o.Junk}, {"messages", f.messages, &o.Mixed}} {
		if *list.into, err = sizes(list.flag, list.texts, *list.into); err != nil {
			return o, err
		}
	}
	if len(f.channels) > 0 {
		o.Channels = nil
		for _, c := range f.channels {
			o.Channels = append(o.Channels, plan.Channel(c))
		}
	}
	if faults := o.Faults(); len(faults) > 0 {
		return o, &config.Error{Faults: faults}
	}
	return o, nil
}

// mixInMemory is the benchmark's mixer: the shuffler's own code.
func mixInMemory(ctx context.Context, a *plan.Announcement, reports int, folder string, cpu func() time.Duration) (
	bench.InMemory, error,
) {
	r, err := inmemory.Mix(ctx, a, reports, folder, cpu)
	return bench.InMemory{
		Messages: r.Messages, TakeCPU: r.Take, ScatterCPU: r.Scatter, PermuteCPU: r.Permute, SendCPU: r.Send,
	}, err
}

func runBench(cmd *cobra.Command, f *benchFlags) error {
	o, err := f.options(cmd)
	if err != nil {
		return err
	}
	if o.Executable, err = os.Executable(); err != nil {
		return err
	}
	if o.Dir, err = os.MkdirTemp(f.dir, "riffle-bench-"); err != nil {
		return err
	}
	defer os.RemoveAll(o.Dir)
	ctx, stop := command.UntilStopped(cmd)
	defer stop()
	o.Mixer = mixInMemory
	o.Progress = progress.New(cmd.ErrOrStderr(), progress.Options{})
	result, err := bench.Run(ctx, o)
	o.Progress.Close()
	if err != nil {
		return &role.ExitError{Code: role.ExitFailed, Err: err}
	}
	if f.out != "" {
		if err := result.Draw(f.out); err != nil {
			return err
		}
	}
	if f.write != "" {
		command := strings.Join(append([]string{"riffle-lab"}, os.Args[1:]...), " ")
		if err := result.WritePage(f.write, command); err != nil {
			return err
		}
	}
	if f.json {
		e := json.NewEncoder(cmd.OutOrStdout())
		e.SetIndent("", "  ")
		return e.Encode(result.Rows)
	}
	return result.WriteTable(cmd.OutOrStdout())
}

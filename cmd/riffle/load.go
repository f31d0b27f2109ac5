package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/riffle-dp/riffle/internal/command"
	"github.com/riffle-dp/riffle/internal/config"
	"github.com/riffle-dp/riffle/internal/drive/load"
	"github.com/riffle-dp/riffle/internal/drive/progress"
	"github.com/riffle-dp/riffle/internal/role"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/strict"
)

// loadFlags are the flags of riffle load.
type loadFlags struct {
	populationFlags
	load.Options
	broker brokerFlags
	goals  []string
	json   bool
	own    load.Own
	trust  string
}

// exitShort is the exit code of a load test that ended with a cohort short of people, and with nothing else wrong.
const exitShort = 4

func loadCommand() *cobra.Command {
	f := &loadFlags{}
	cmd := &cobra.Command{
		Use:   "load",
		Short: "send synthetic people to a running deployment, and check its answers",
		Long: `
Plays the part of people who use a running deployment. They ask its randomizers for decisions, as an app would, and
report their rewards. Flags set the shares of them who drop out, repeat themselves, report their rewards too late, or
send malformed requests. With --keys the load test reads what the deployment released and tests whether noise and
rounding explain the error of every released sum; it knows the true sums because it plays the people. With --ops it
checks that every role accounts for all that it received.

With --trust the load test starts a deployment of its own on this machine: broker, shuffler and analyzer as processes,
and all people's devices inside this one, in one cohort of any size. At the end it says what each process used.

Each person waits until a cohort has room for them, so that the deployment learns from everyone. With --steady people
do not wait.

Exit codes: 0 if every goal is met; 2 if a goal is missed or a released sum is wrong; 4 if nothing is wrong, but the
last cohort has fewer people than its release needs and no more will come (cohort_short); 1 if the run could not be
made.

A goal compares one of these measures with a number (<= >= < > = !=):
`[1:] + strings.TrimRight(load.Measures(), "\n"),
		Example: `  riffle load --trust shares --users 100000
  riffle load --api http://127.0.0.1:8400 --users 1000
  riffle load --api http://127.0.0.1:8401,http://127.0.0.1:8402 --users 5000 \
      --keys keys --broker-url nats://127.0.0.1:4222 \
      --ops http://127.0.0.1:9401,http://127.0.0.1:9402 \
      --malformed 0.02 --duplicates 0.02 --late 0.01 --drop-out 0.05 \
      --goal 'regret_ratio<=0.2' --goal 'p99_ms<=500' --goal 'error_z<=6' --goal 'lost=0'`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return runLoad(cmd, f) },
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.StringSliceVar(&f.APIs, "api", []string{"http://127.0.0.1:8400"},
		"base URLs of the randomizers' APIs, separated by commas")
	f.populationFlags.add(flags)
	flags.StringVar(&f.trust, "trust", "", "start a deployment for the run, with this channel: shuffle, shares, "+
		"local or central;\nempty: people use the one at --api")
	flags.Float64Var(&f.own.Epsilon, "epsilon", plan.DefaultEpsilon, "with --trust: epsilon of each person's guarantee")
	flags.Float64Var(&f.own.Delta, "delta", plan.DefaultDelta, "with --trust: its delta")
	flags.Float64Var(&f.own.ServerNoise, "server-noise", 0, "with --trust: noise that servers add, from 0 to 1, as a "+
		"share of what alone gives epsilon")
	flags.BoolVar(&f.own.NoDeviceNoise, "no-device-noise", false, "with --trust: devices add no noise; needs "+
		"--server-noise 1")
	flags.IntVar(&f.own.HostDevices, "host-devices", load.DefaultHostDevices, "with --trust: devices of one host")
	flags.Float64Var(&f.Rate, "rate", 0, "people per second, whose waiting time counts from when they are due; "+
		"0: as many as --concurrency can serve")
	flags.DurationVar(&f.Ramp, "ramp", 0, "time over which the rate, or the concurrency, is reached")
	flags.IntVar(&f.Concurrency, "concurrency", 0, fmt.Sprintf("number of people served at the "+
		"same time; 0: %d, or 256 with --trust", load.DefaultConcurrency))
	flags.BoolVar(&f.Steady, "steady", false, "people do not wait until a cohort has room for them")
	flags.StringVar(&f.Device, "devices", "",
		"prefix of the devices' names; empty: a new one, so that no device has taken part before")
	flags.Float64Var(&f.Shares.DropOut, "drop-out", 0, "share of people who never report their reward")
	flags.Float64Var(&f.Shares.Duplicate, "duplicates", 0,
		"share of people who ask twice, report their reward twice, and then report a different one")
	flags.Float64Var(&f.Shares.Late, "late", 0, "share of people who report their reward after its window")
	flags.Float64Var(&f.Shares.Malformed, "malformed", 0, "share of people who also send a malformed request")
	flags.StringVar(&f.Keys, "keys", "", "folder made by riffle keygen, of which the bundle and auditor/ are read; "+
		"empty: released sums are not checked")
	f.broker.add(flags)
	flags.StringVar(&f.broker.tls.CertFile, "broker-cert", "",
		"PEM file of a client certificate, if the broker asks for one")
	flags.StringVar(&f.broker.tls.KeyFile, "broker-cert-key", "", "PEM file of the client certificate's key")
	flags.StringSliceVar(&f.Ops, "ops", nil,
		"base URLs of the roles' ops listeners, whose accounts are checked at the end, separated by commas")
	flags.StringVar(&f.Hostile.Host, "hostile-host", "",
		"host of --keys in whose name malformed, copied and unexpected reports are sent straight to the broker;\n"+
			"no randomizer may run as this host")
	flags.IntVar(&f.Hostile.Devices, "hostile-devices", load.DefaultDevices,
		"number of devices that the hostile host enrols in each cohort")
	flags.BoolVar(&f.Hostile.Late, "hostile-late", false,
		"the hostile host holds one report back until its cohort is released; this cohort's sums are not checked")
	flags.DurationVar(&f.Settle, "settle", 0,
		"longest wait at the end for promised reports; 0: as long as the announced times allow")
	flags.StringArrayVar(&f.goals, "goal", nil, "measure and limit, for example 'p99_ms<=500'; may be repeated")
	flags.BoolVar(&f.json, "json", false, "print the result as one JSON object")
	f.populationFlags.more(flags)
	return cmd
}

func runLoad(cmd *cobra.Command, f *loadFlags) error {
	var faults []error
	for _, text := range f.goals {
		g, err := load.ParseGoal(text)
		if err != nil {
			faults = append(faults, err)
			continue
		}
		f.Goals = append(f.Goals, g)
	}
	f.Broker = f.broker.options(f.Keys)
	people, err := f.open()
	if err != nil {
		faults = append(faults, err)
	}
	if f.trust != "" && f.Keys == "" {
		f.Keys = "keys" // of the deployment that will be started
	}
	if faults = append(faults, f.Faults()...); len(faults) > 0 {
		return &config.Error{Faults: faults}
	}
	if f.trust != "" && !slices.Contains(plan.Channels(), plan.Channel(f.trust)) {
		return fmt.Errorf("--trust %s: must be one of %s", f.trust, strict.List(plan.Channels(), "and"))
	}
	f.Population, f.Seed = people, f.seed
	ctx, stop := command.UntilStopped(cmd)
	defer stop()
	shown := progress.New(cmd.ErrOrStderr(), progress.Options{})
	f.Progress = shown
	result, err := f.play(ctx)
	shown.Close()
	if err != nil {
		return err
	}
	if err := command.Print(cmd, result, f.json); err != nil {
		return err
	}
	return judge(result)
}

// play runs the load test, against a deployment of its own where --trust says so.
func (f *loadFlags) play(ctx context.Context) (*load.Result, error) {
	if f.trust == "" {
		return load.Run(ctx, f.Options)
	}
	executable, err := os.Executable()
	if err != nil {
		return nil, err
	}
	f.own.Trust, f.own.Executable = plan.Channel(f.trust), executable
	return load.RunOwn(ctx, f.own, f.Options)
}

// judge gives the error, with its exit code, with which a run ends.
func judge(result *load.Result) error {
	failed := func(format string, v ...any) error {
		return &role.ExitError{Code: role.ExitFailed, Err: fmt.Errorf(format, v...)}
	}
	short := ""
	if result.Short != nil {
		short = fmt.Sprintf("%s: %s", load.ShortfallReason, result.Short)
	}
	switch missed := result.Missed(); {
	case result.Interrupted:
		return failed("interrupted; the result describes the run until then")
	case len(missed) > 0:
		return failed("goals missed: %s", strings.TrimSuffix(strings.Join(missed, ", ")+"; "+short, "; "))
	case result.Unsettled != "":
		return failed("not everything was released in time: %s", result.Unsettled)
	case !result.Sound():
		return failed("the deployment's answers are wrong; see the table")
	case short != "":
		return &role.ExitError{Code: exitShort, Err: errors.New(short)}
	}
	return nil
}

package main

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/riffle-dp/riffle/internal/bus"
	"github.com/riffle-dp/riffle/internal/drive/load"
	"github.com/riffle-dp/riffle/internal/drive/progress"
	"github.com/riffle-dp/riffle/internal/role"
)

// loadFlags are the flags of riffle load.
type loadFlags struct {
	populationFlags
	load.Options
	tls   bus.TLS
	goals []string
	json  bool
}

// exitShort is the exit code of a load test in which people ran out while nothing else is wrong.
const exitShort = 4

func loadCommand() *cobra.Command {
	f := &loadFlags{}
	cmd := &cobra.Command{
		Use:   "load",
		Short: "send synthetic people to a running deployment, and check its answers",
		Long: `Plays people against a running deployment. They ask its randomizers for decisions as an app would, and
tell their rewards. In the shares that the flags state they drop out, repeat themselves, tell their rewards too late,
and send malformed requests. With --keys the load test reads what the deployment released and tests whether the error
of every released sum is explained by noise and rounding; it knows the true sums because it plays the people. With
--ops it checks that every role accounts for all that it received.

People wait for a cohort that takes them in, so that the deployment learns from all of them. With --steady they come
regardless.

Exit codes: 0 if every goal is met; 2 if a goal is missed or a released sum is wrong; 4 if nothing is wrong, but the
people ran out in a cohort that needs more of them for its release (cohort_short; it is not waited for); 1 if the run
could not be made.

A goal compares one of these measures with a number (<= >= < > = !=):
` + strings.TrimRight(load.Measures(), "\n"),
		Example: `  riffle load --api http://127.0.0.1:8400 --users 1000
  riffle load --api http://127.0.0.1:8401,http://127.0.0.1:8402 --users 5000 \
      --keys keys --broker-url nats://127.0.0.1:4222 \
      --ops http://127.0.0.1:9401,http://127.0.0.1:9402 --malformed 0.02 --duplicates 0.02 --late 0.01 --drop-out 0.05 \
      --goal 'regret_ratio<=0.2' --goal 'p99_ms<=500' --goal 'error_z<=6' --goal 'lost=0'`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return runLoad(cmd, f) },
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.StringSliceVar(&f.APIs, "api", []string{"http://127.0.0.1:8400"},
		"base URL of a randomizer's API; several are separated by commas")
	f.populationFlags.add(flags)
	flags.Float64Var(&f.Rate, "rate", 0, "people a second, whose waiting counts from when they are due; "+
		"0: as many as --concurrency can serve")
	flags.DurationVar(&f.Ramp, "ramp", 0, "time over which the rate, or the concurrency, is reached")
	flags.IntVar(&f.Concurrency, "concurrency", load.DefaultConcurrency, "number of people served at the same time")
	flags.BoolVar(&f.Steady, "steady", false, "people come whether or not a cohort takes them in")
	flags.StringVar(&f.Device, "devices", "",
		"beginning of the devices' names; empty: a new one, so that no device has taken part before")
	flags.Float64Var(&f.Shares.DropOut, "drop-out", 0, "share of people who never tell their reward")
	flags.Float64Var(&f.Shares.Duplicate, "duplicates", 0,
		"share of people who ask twice, tell their reward twice, and then tell a different one")
	flags.Float64Var(&f.Shares.Late, "late", 0, "share of people who tell their reward after its window")
	flags.Float64Var(&f.Shares.Malformed, "malformed", 0, "share of people who also send a malformed request")
	flags.StringVar(&f.Keys, "keys", "", "folder made by riffle keygen, of which the bundle and auditor/ are read; "+
		"empty: released sums are not checked")
	flags.StringVar(&f.Broker.URL, "broker-url", bus.DefaultURL, "URL of the broker, for --keys")
	flags.StringVar(&f.tls.CAFile, "broker-ca", "", "PEM file of the authorities that may vouch for the broker")
	flags.StringVar(&f.tls.CertFile, "broker-cert", "", "PEM file of a client certificate, if the broker asks for one")
	flags.StringVar(&f.tls.KeyFile, "broker-cert-key", "", "PEM file of the client certificate's key")
	flags.StringVar(&f.tls.ServerName, "broker-server-name", "",
		"name expected in the broker's certificate; empty: the host of --broker-url")
	flags.StringSliceVar(&f.Ops, "ops", nil,
		"base URL of a role's ops listener, whose accounts are checked at the end; several are separated by commas")
	flags.StringVar(&f.Hostile.Host, "hostile-host", "",
		"host of --keys in whose name malformed, copied and stray reports go straight to the broker; "+
			"no randomizer may run as this host")
	flags.IntVar(&f.Hostile.Devices, "hostile-devices", load.DefaultDevices,
		"number of devices that the hostile host enrols in each cohort")
	flags.BoolVar(&f.Hostile.Late, "hostile-late", false,
		"the hostile host holds one report back until its cohort is released, so that this cohort cannot be compared")
	flags.DurationVar(&f.Settle, "settle", 0,
		"longest wait at the end for promised reports; 0: as long as the announced times allow")
	flags.StringArrayVar(&f.goals, "goal", nil, "measure and limit, as 'p99_ms<=500'; may be repeated")
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
	people, err := f.open()
	if err != nil {
		faults = append(faults, err)
	}
	if faults = append(faults, f.Faults()...); len(faults) > 0 {
		return &role.ConfigError{Faults: faults}
	}
	f.Population, f.Seed = people, f.seed
	if f.tls != (bus.TLS{}) {
		f.Broker.TLS = &f.tls
	}
	ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	shown := progress.New(cmd.ErrOrStderr(), progress.Options{})
	f.Progress = shown
	result, err := load.Run(ctx, f.Options)
	shown.Close()
	if err != nil {
		return err
	}
	if f.json {
		err = result.WriteJSON(cmd.OutOrStdout())
	} else {
		err = result.WriteTable(cmd.OutOrStdout())
	}
	if err != nil {
		return err
	}
	return judge(result)
}

// judge is the error, with its exit code, that a run ends with.
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
		return failed("interrupted; the result is about what happened until then")
	case len(missed) > 0:
		return failed("goals missed: %s", strings.TrimSuffix(strings.Join(missed, ", ")+"; "+short, "; "))
	case result.Unsettled != "":
		return failed("not everything was released in time: %s", result.Unsettled)
	case !result.Sound():
		return failed("the deployment's answers are wrong: see the table")
	case short != "":
		return &role.ExitError{Code: exitShort, Err: errors.New(short)}
	}
	return nil
}

package main

import (
	"encoding/hex"
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/riffle-dp/riffle/internal/command"
	"github.com/riffle-dp/riffle/internal/drive/progress"
	"github.com/riffle-dp/riffle/internal/role"
	"github.com/riffle-dp/riffle/lab/empirical"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/seal"
	"github.com/riffle-dp/riffle/pkg/strict"
)

func epsilonCommand() *cobra.Command {
	o, asJSON := empirical.DefaultOptions(), false
	var read func() error
	cmd := &cobra.Command{
		Use:   "epsilon",
		Short: "bound epsilon from below, by attacks on neighbouring worlds",
		Long: `
Measures from below what a release reveals about one person, and sets it beside what the plan claims. Nothing of a
deployment is read. The command makes a plan as an analyzer does, for a small cohort, and plays it
many times over in this process, with the code that devices and servers run. In each run one device, the canary, holds
one of three records: two that move all released sums together as far as can be, in several coordinates at once, and
none. All others report nothing. The attacker sees what the worst placed observer of the channel sees, and guesses from
all noised counts which record the canary held.

If a release is (epsilon, delta)-private, no event can be more than e^epsilon times as likely with one record as with
another, plus delta. So how often the attacker is right and wrong bounds epsilon from below. Half of the runs choose the
attacker's thresholds, and the others are counted; Clopper-Pearson intervals make the bound hold with the stated
confidence, over all attacks together. A bound above the claim proves that something is broken: the exit code is 4. A
bound below it proves nothing, but the output says what would have been found: that is the power of the test.

Records are encoded and noised by the code that devices run. Encryption is left out of most runs because it takes a
thousand times as long. Some runs are made with it from the same random words, through sealed reports and both servers'
sides of the channel, and must give the same counts.

A small delta needs many runs: the default plan has delta 1e-4, at which the default number of runs shows that half of
the noise is missing. At delta 1e-6 the same takes more than ten times as many.`[1:],
		Example: `  riffle-lab epsilon
  riffle-lab epsilon --channel shares --json
  riffle-lab epsilon --game fit --runs 20000`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := read(); err != nil {
				return err
			}
			return runEpsilon(cmd, o, asJSON)
		},
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	read = addEpsilonFlags(flags, &o)
	flags.BoolVar(&asJSON, "json", false, "print the result as one JSON object")
	return cmd
}

// addEpsilonFlags adds the flags of riffle-lab epsilon, which has the defaults of o; read completes o once they are
// parsed.
func addEpsilonFlags(flags *pflag.FlagSet, o *empirical.Options) (read func() error) {
	channel, fault, seed, game := string(o.Channel), string(o.Fault), "", string(o.Game)
	flags.StringVar(&game, "game", game, "what is attacked: sums or rewards of a cohort,\n"+
		"what riffle fit noises, or a prior of riffle evaluate")
	flags.StringVar(&channel, "channel", channel,
		"the channel whose noise is attacked: "+strict.List(plan.Channels(), "and"))
	flags.Float64Var(&o.Epsilon, "plan-epsilon", o.Epsilon, "epsilon of the plan that is played")
	flags.Float64Var(&o.Delta, "plan-delta", o.Delta, "delta of the plan that is played")
	flags.IntVar(&o.Dimension, "plan-dim", o.Dimension, "number of entries of an arm's vector")
	flags.IntVar(&o.Cohort, "plan-cohort", o.Cohort, "people of the cohort that is played")
	flags.IntVar(&o.Runs, "runs", o.Runs, "runs of each world, half of which choose thresholds")
	flags.IntVar(&o.Sealed, "sealed-runs", o.Sealed, "runs that are made with encryption as well")
	flags.Float64Var(&o.Confidence, "confidence", o.Confidence, "confidence of the lower bound")
	flags.StringVar(&seed, "seed", "",
		"64 hexadecimal digits from which all rounding and noise follow;\n"+
			"default: drawn by the system, and printed")
	flags.StringVar(&fault, "fault", fault,
		"break the system on purpose, to see that it is found: half-noise, one-noise,\ncopies, twice or no-noise")
	flags.IntVar(&o.Copied, "fault-copies", o.Copied, "copies of the canary's report with --fault copies")
	for _, name := range []string{"fault", "fault-copies"} {
		if err := flags.MarkHidden(name); err != nil {
			panic(err) // the flag is defined above
		}
	}
	return func() error {
		o.Game = empirical.Game(game)
		o.Channel, o.Fault = plan.Channel(channel), empirical.Fault(fault)
		if seed == "" {
			seal.Random(o.Seed[:])
			return nil
		}
		b, err := hex.DecodeString(seed)
		if err != nil || len(b) != len(o.Seed) {
			return fmt.Errorf("--seed must have %d hexadecimal digits", 2*len(o.Seed))
		}
		o.Seed = [32]byte(b)
		return nil
	}
}

// runEpsilon measures epsilon from below and prints the result, as one JSON object if json is set. A lower bound
// above the claim is an error with the exit code command.ExitBreach.
func runEpsilon(cmd *cobra.Command, o empirical.Options, json bool) error {
	ctx, stop := command.UntilStopped(cmd)
	defer stop()
	shown := progress.New(cmd.ErrOrStderr(), progress.Options{})
	defer shown.Close()
	if o.Sealed > 0 && o.Fault == empirical.NoFault {
		shown.Update(func(s *progress.State) { s.Phase = "playing sealed runs" })
	}
	o.Progress = func(done, all int) {
		shown.Update(func(s *progress.State) { s.Phase, s.Work, s.AllWork = "playing", max(s.Work, done), all })
	}
	r, err := empirical.Run(ctx, o)
	shown.Close()
	if ctx.Err() != nil {
		return errors.New("interrupted; nothing was measured")
	}
	if errors.Is(err, empirical.ErrDiffers) {
		return &role.ExitError{Code: role.ExitFailed, Err: err}
	}
	if err != nil {
		return err
	}
	if err := command.Print(cmd, r, json); err != nil {
		return err
	}
	if r.Exceeds {
		return &role.ExitError{Code: command.ExitBreach, Err: fmt.Errorf(
			"epsilon is at least %.4g, and at most %.4g is claimed", r.LowerBound, r.Claimed)}
	}
	return nil
}

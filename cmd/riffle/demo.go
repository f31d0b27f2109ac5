package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/riffle-dp/riffle/internal/chart"
	"github.com/riffle-dp/riffle/internal/command"
	"github.com/riffle-dp/riffle/internal/drive/demo"
	"github.com/riffle-dp/riffle/internal/drive/progress"
	"github.com/riffle-dp/riffle/internal/drive/trial"
	"github.com/riffle-dp/riffle/internal/population"
	"github.com/riffle-dp/riffle/pkg/glm"
	"github.com/riffle-dp/riffle/pkg/glm/family"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/privacy"
	"github.com/riffle-dp/riffle/pkg/strict"
)

// demoFlags are the flags of riffle demo.
type demoFlags struct {
	populationFlags
	profile        string
	hosts          int
	epsilon, delta float64
	trust          string
	serverNoise    float64
	noDeviceNoise  bool
	out, export    string
	json, keep     bool
	life           lifeDemoFlags
}

func demoCommand() *cobra.Command {
	f := demoFlags{}
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "run a whole deployment on this machine and show what it learns and costs",
		Long: `Runs a whole deployment on this machine: the broker, the shuffler, the analyzer and the randomizers as separate
processes, each with its own keys and rights. The people of a population ask for decisions through the API that an app
would use; their devices answer with noisy, encrypted bits, or with what the channel of --trust has in their place; the
analyzer learns from sums over many people. At the end the demo prints a table of what privacy, regret, messages and
seconds came to, and draws a picture.

The seed determines the people. It has no effect on the devices' noise, so two runs with the same seed differ.`,
		Example: `  riffle demo
  riffle demo --trust shares
  riffle demo --trust central --learner joint
  riffle demo --trust shares --learner linucb
  riffle demo --life
  riffle demo --data adult --users 8000
  riffle demo --data people.jsonl.gz --family poisson --max-reward 5 --json
  riffle demo --data people.jsonl.gz --options 3 --context 5 --trust shares
  riffle demo --data people.csv --features schema.json --columns "rewards=none|sms|call"`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if f.life.on {
				return runLifeDemo(cmd, f)
			}
			if err := f.life.refuseUnused(cmd); err != nil {
				return err
			}
			return runDemo(cmd, f)
		},
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	f.populationFlags.add(flags)
	flags.Float64Var(&f.epsilon, "epsilon", 1, "epsilon of each person's privacy guarantee")
	flags.Float64Var(&f.delta, "delta", 1e-6, "delta of each person's privacy guarantee")
	flags.StringVar(&f.trust, "trust", string(plan.Shuffle), "whom people trust, which is how sums reach the "+
		"analyzer: shuffle (an honest shuffler),\nshares (shuffler or analyzer is honest), local (nobody) or central "+
		"(the analyzer)")
	flags.StringVar(&f.out, "out", "out/demo", "folder for result.json and regret.png")
	flags.BoolVar(&f.json, "json", false, "print the result as one JSON object")
	f.populationFlags.more(flags)
	flags.StringVar(&f.profile, "learner", string(glm.Practical),
		"learner's profile: practical (one report per person), paper (several rounds),\njoint (the analyzer reads "+
			"each record; needs --trust central), or a learner of another\npaper, for --family linear: "+
			strict.List(glm.Programs(), "or"))
	flags.StringVar(&f.profile, "profile", string(glm.Practical), "the same as --learner")
	flags.Float64Var(&f.serverNoise, "server-noise", 0, "noise that servers add, from 0 to 1, as a share of what "+
		"alone gives epsilon:\nwhat is left of the guarantee if all other devices are dishonest")
	flags.BoolVar(&f.noDeviceNoise, "no-device-noise", false, "devices add no noise; needs --server-noise 1")
	flags.IntVar(&f.hosts, "hosts", 2, "number of randomizer processes, which share the people's devices")
	flags.StringVar(&f.export, "export", "", "new folder for the deployment's logs and certificates, which riffle "+
		"audit and\nriffle verify read")
	flags.BoolVar(&f.keep, "keep", false, "keep the deployment's keys, logs and streams, in the output folder")
	f.life.add(flags)
	return cmd
}

func runDemo(cmd *cobra.Command, f demoFlags) error {
	options := demo.Options{
		Seed: f.seed, Profile: f.profile, Epsilon: f.epsilon, Delta: f.delta, Hosts: f.hosts, Out: f.out, Keep: f.keep,
		Export: f.export, Features: f.features,
		Trust: plan.Channel(f.trust), ServerNoise: f.serverNoise, NoDeviceNoise: f.noDeviceNoise,
	}
	if glm.Profile(f.profile).Program() && !cmd.Flags().Changed("family") {
		f.family = family.NameLinear
	}
	people, err := f.open()
	if err != nil {
		return options.Check(err)
	}
	executable, err := os.Executable()
	if err != nil {
		return err
	}
	ctx, stop := command.UntilStopped(cmd)
	defer stop()
	warnDelta(cmd, f.delta, people.Info().People)
	shown := progress.New(cmd.ErrOrStderr(), progress.Options{})
	options.Population, options.Executable, options.Progress = people, executable, shown
	if f.data == "adult" {
		options.Map = f.mapping
	}
	result, curves, err := demo.Run(ctx, options)
	shown.Close()
	if ctx.Err() != nil {
		return errors.New("interrupted; nothing is left running")
	}
	if err != nil {
		return err
	}
	saved := filepath.Join(f.out, "result.json")
	if err := result.SaveJSON(saved); err != nil {
		return err
	}
	picture := filepath.Join(f.out, "regret.png")
	if err := drawRegret(picture, people.Info(), *result, curves); err != nil {
		return err
	}
	if err := command.Print(cmd, result, f.json); err != nil || f.json {
		return err
	}
	_, err = fmt.Fprintf(cmd.OutOrStdout(), "\nPicture: %s\nResult:  %s\n", picture, saved)
	if err == nil && f.export != "" {
		_, err = fmt.Fprintf(cmd.OutOrStdout(), "Export:  %s; check it: riffle audit %s; what was learnt: riffle policy "+
			"show %[1]s\n", f.export, f.export)
	}
	if err == nil && f.ofFile() {
		_, err = fmt.Fprintln(cmd.OutOrStdout(), "\nRegret and rewards were computed from the file without noise: they "+
			"are for those who hold it.")
	}
	return err
}

func drawRegret(path string, info population.Info, r chart.Result, curves []chart.Regret) error {
	picture := chart.RegretChart("What was lost while learning", subtitle(info, r), curves, "Uniform", "Best constant")
	return picture.Save(path)
}

// subtitle is the line under the title of a run's picture.
func subtitle(info population.Info, r chart.Result) string {
	cost := fmt.Sprintf("%.0f bit messages", r.MessagesPerUser)
	if r.Trust != "" && r.Trust != string(plan.Shuffle) {
		cost = fmt.Sprintf("%s, %.1f kB", r.Trust, r.BytesPerUser/1000)
	}
	return fmt.Sprintf("%s people (%s), ε = %s, δ = %g, %d cohorts, %s each",
		chart.Number(float64(r.Users), 0), info.Name, privacy.Spell(r.Epsilon), r.Delta, r.Epochs, cost)
}

func trialCommand() *cobra.Command {
	var o trial.Options
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "trial",
		Short: "start a deployment on this machine for an app that you build",
		Long: `Starts a deployment with your schema on this machine, with new keys: the broker, the shuffler, the analyzer and a
host of devices as separate processes. It says where they are and runs until it is interrupted. Your app, or a program
that plays people, asks the API for decisions and tells the rewards.

The machine's owner can read everything here: it is for trying out, not for people.`,
		Example: `  riffle trial --features schema.json --people 2000
  riffle trial --features schema.json --people 500 --config analyzer.yaml --dir trial --json
  riffle trial --features schema.json --people 900 --panel 300 --records 5 --window 5s`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			ctx, stop := command.UntilStopped(cmd)
			defer stop()
			if o.Executable, err = os.Executable(); err != nil {
				return err
			}
			o.Input = cmd.InOrStdin()
			o.Started = func(r trial.Running) error {
				if asJSON {
					return command.PrintJSON(cmd, r)
				}
				at := fmt.Sprintf("--keys %s --broker-url %s", r.Keys, r.Broker)
				_, err := fmt.Fprintf(cmd.OutOrStdout(), "API:      %s\nanalyzer: %s/\nshuffler: %s/\nlogs:     %s\n\n"+
					"It runs until Ctrl-C. docs/app.md says how to ask it for decisions.\n"+
					"See what it learnt: riffle policy show %s\nCheck it: riffle audit %[5]s\n", r.API, r.Analyzer,
					r.Shuffler, r.Folder, at)
				if err == nil && r.Questions != "" {
					_, err = fmt.Fprintf(cmd.OutOrStdout(),
						"Ask it: riffle ask mean reward --name first --questions %s %s\n", r.Questions, at)
				}
				return err
			}
			return trial.Run(ctx, o)
		},
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.StringVar(&o.Features, "features", "", "file of the schema (docs/features.md); required")
	flags.IntVar(&o.People, "people", 0, "people to learn from; required")
	flags.StringVar(&o.Trust, "trust", string(plan.Shares), "the channel: shuffle, shares, local or central")
	flags.Float64Var(&o.Epsilon, "epsilon", 1, "epsilon of each person's privacy guarantee")
	flags.Float64Var(&o.Delta, "delta", 1e-6, "delta of each person's privacy guarantee")
	flags.StringVar(&o.Family, "family", family.NameLogistic, "reward family: "+strict.List(family.Names(), "or"))
	flags.Float64Var(&o.MaxReward, "max-reward", 1, "largest reward")
	flags.IntVar(&o.Panel, "panel", 0, "people of each cohort, drawn from the registered ones before anybody\n"+
		"decides, so that riffle ask can ask them; 0: whoever decides first takes part")
	flags.IntVar(&o.Records, "records", 1, "with --panel: epochs that one person may report in")
	flags.DurationVar(&o.Window, "window", 2*time.Second,
		"time from a decision to its report, within which a reward counts")
	flags.StringVar(&o.Config, "config", "", "file with further settings of the analyzer; flags win")
	flags.StringVar(&o.Dir, "dir", "",
		"new folder to keep keys, logs and streams in; empty: they are removed at the end")
	flags.BoolVar(&o.Tied, "tied", false, "end when standard input ends: for a program that starts this one")
	flags.BoolVar(&asJSON, "json", false, "print where everything is as one JSON object")
	return cmd
}

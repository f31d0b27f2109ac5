package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/riffle-dp/riffle/internal/command"
	"github.com/riffle-dp/riffle/internal/drive/demo"
	"github.com/riffle-dp/riffle/internal/drive/progress"
	"github.com/riffle-dp/riffle/internal/world"
	"github.com/riffle-dp/riffle/pkg/plan"
)

// lifeDemoFlags are the flags of riffle demo --life that the other demo does not have.
type lifeDemoFlags struct {
	on                       bool
	days, changeDay          int
	turn                     float64
	kmax, records            int
	day                      time.Duration
	control, halfLife, alarm float64
}

// Of --life alone, and of the other demo alone.
var (
	onlyLife = []string{"days", "change-day", "turn", "k-max", "records", "day", "control", "half-life", "alarm"}
	notLife  = []string{"data", "map", "family", "dim", "max-reward", "norm-bound", "holdout", "test-holdout",
		"learner", "profile", "server-noise", "no-device-noise"}
)

func (f *lifeDemoFlags) add(flags *pflag.FlagSet) {
	flags.BoolVar(&f.on, "life", false, "run a deployment of panels instead: the same people decide day after day, "+
		"the world changes,\nand a control group shows whether the policy helps. --users is 3000 then, --trust is "+
		"shares,\nand epsilon is for all that a person does in all days")
	flags.IntVar(&f.days, "days", 60, "with --life: days")
	flags.IntVar(&f.changeDay, "change-day", 30, "with --life: day on which the world changes; 0: it does not")
	flags.Float64Var(&f.turn, "turn", 90, "with --life: how far the true parameter turns then, in degrees")
	flags.IntVar(&f.kmax, "k-max", 3, "with --life: most decisions in a report; an epoch takes as many days")
	flags.IntVar(&f.records, "records", 12, "with --life: most reports of a person")
	flags.DurationVar(&f.day, "day", 2*time.Second, "with --life: length of a day on this machine, at least")
	flags.Float64Var(&f.control, "control", 0.05, "with --life: share of decisions of the control group")
	flags.Float64Var(&f.halfLife, "half-life", 4, "with --life: epochs after which an observation counts half; 0: "+
		"never")
	flags.Float64Var(&f.alarm, "alarm", 0.001, "with --life: significance at which a changed world makes the learner "+
		"forget; 0: never")
}

// set are those of some flags that were given.
func set(cmd *cobra.Command, names []string) (given []string) {
	cmd.Flags().Visit(func(f *pflag.Flag) {
		if slices.Contains(names, f.Name) {
			given = append(given, "--"+f.Name)
		}
	})
	return given
}

func (f *lifeDemoFlags) refuseUnused(cmd *cobra.Command) error {
	if given := set(cmd, onlyLife); len(given) > 0 {
		return fmt.Errorf("%s only means something with --life", strings.Join(given, ", "))
	}
	return nil
}

// options are those of the demo.
func (f demoFlags) lifeOptions() demo.LifeOptions {
	l := f.life
	w := world.World{People: f.users, Days: l.days}
	if l.changeDay != 0 && l.days > 0 {
		w.Change = &world.Change{Kind: world.Abrupt, At: float64(l.changeDay) / float64(l.days), Turn: l.turn}
	}
	return demo.LifeOptions{
		Setting: world.Setting{World: w, Channel: plan.Channel(f.trust), Epsilon: f.epsilon, Delta: f.delta,
			HalfLife: l.halfLife, Alarm: l.alarm, Control: l.control},
		Mode: world.Mode{Kind: world.Panel, Decisions: l.kmax, Records: l.records},
		Seed: f.seed, Day: l.day, Hosts: f.hosts, Out: f.out, Keep: f.keep, Export: f.export,
	}
}

func runLifeDemo(cmd *cobra.Command, f demoFlags) error {
	if given := set(cmd, notLife); len(given) > 0 {
		return fmt.Errorf("%s cannot go with --life", strings.Join(given, ", "))
	}
	if l := f.life; l.changeDay < 0 || l.changeDay >= l.days {
		return fmt.Errorf("--change-day %d must lie within the %d days, or be 0", l.changeDay, l.days)
	}
	executable, err := os.Executable()
	if err != nil {
		return err
	}
	ctx, stop := command.UntilStopped(cmd)
	defer stop()
	if !cmd.Flags().Changed("trust") {
		f.trust = string(plan.Shares) // a report costs a fraction of what it costs in shuffle
	}
	options := f.lifeOptions()
	shown := progress.New(cmd.ErrOrStderr(), progress.Options{})
	options.Executable, options.Progress = executable, shown
	result, err := demo.RunLife(ctx, options)
	shown.Close()
	if ctx.Err() != nil {
		return errors.New("interrupted; nothing is left running")
	}
	if err != nil {
		return err
	}
	saved, picture := filepath.Join(f.out, "life.json"), filepath.Join(f.out, "life.png")
	if err := result.SaveJSON(saved); err != nil {
		return err
	}
	if err := result.Picture().Save(picture); err != nil {
		return err
	}
	if err := command.Print(cmd, result, f.json); err != nil || f.json {
		return err
	}
	_, err = fmt.Fprintf(cmd.OutOrStdout(), "\nPicture: %s\nResult:  %s\n", picture, saved)
	if err == nil && f.export != "" {
		_, err = fmt.Fprintf(cmd.OutOrStdout(), "Export:  %s; check it: riffle audit %s; whether it helps: riffle "+
			"report %s\n",
			f.export, f.export, f.export)
	}
	return err
}

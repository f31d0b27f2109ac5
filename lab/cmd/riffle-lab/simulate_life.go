package main

import (
	"fmt"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/riffle-dp/riffle/internal/command"
	"github.com/riffle-dp/riffle/internal/drive/progress"
	"github.com/riffle-dp/riffle/internal/world"
	"github.com/riffle-dp/riffle/lab/life"
	"github.com/riffle-dp/riffle/pkg/plan"
)

type lifeFlags struct {
	setting        world.Setting
	trust, change  string
	changeDay      int
	turn           float64
	period         int
	kmax, records  []int
	seeds, workers int
	firstSeed      uint64
	json, markdown bool
	out            string
}

func simulateLifeCommand() *cobra.Command {
	f := lifeFlags{}
	cmd := &cobra.Command{
		Use:   "life",
		Short: "compare one record a person with panels, over the days of a deployment",
		Long: `
Plays the life of a deployment in one process: the same people decide day after day, about once a day, and the world
may change. It compares one record a person, as people arrive, with panels: several decisions in a report (K_max), and
several reports a person (R). Every private mode gives a person the same guarantee for all of the deployment's life. An
epoch of panels takes K_max days. Beside them: the same learner without privacy, uniform play, and the default arm.

Policies, learner, statistics, plans, encodings and noise are those of the deployed roles, and panels are drawn as they
draw them; there is no transport. Everybody who is drawn reports. The result is a function of the flags and the program.`[1:],
		Example: `  riffle-lab simulate life
  riffle-lab simulate life --change abrupt --half-life 4 --seeds 2
  riffle-lab simulate life --epsilon 4 --k-max 1,7 --records 4 --json
  riffle-lab simulate life --control 0.05 --k-max 7 --records 8 --trust shares`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return runLife(cmd, f) },
	}
	flags, s := cmd.Flags(), &f.setting
	flags.SortFlags = false
	flags.IntVar(&s.World.People, "people", 3000, "people who decide")
	flags.IntVar(&s.World.Days, "days", 60, "how many days the deployment lasts")
	flags.Float64Var(&s.World.Rate, "rate", 1, "mean decisions of a person in a day")
	flags.IntVar(&s.World.Dimension, "dimension", 5, "numbers that describe an arm for a person")
	flags.IntVar(&s.World.Arms, "arms", 5, "arms to choose from; the first one is the default arm")
	flags.Float64Var(&s.Epsilon, "epsilon", plan.DefaultEpsilon, "guarantee of a person for all of the deployment's "+
		"life")
	flags.Float64Var(&s.Delta, "delta", plan.DefaultDelta, "delta of the guarantee")
	flags.StringVar(&f.trust, "trust", string(plan.Shuffle), "channel: shuffle, shares, local or central")
	flags.Float64Var(&s.Dishonest, "dishonest", 0, "share of people whose noise does not count")
	flags.IntSliceVar(&f.kmax, "k-max", []int{1, 3, 7, 28},
		"most decisions of a report, separated by commas; an epoch takes as many days")
	flags.IntSliceVar(&f.records, "records", []int{1, 4, 12}, "most reports of a person, separated by commas")
	flags.StringVar(&f.change, "change", "none", "how the world changes: none, abrupt, slow, seasonal or arms")
	flags.IntVar(&f.changeDay, "change-day", 30, "day on which it changes abruptly, or arms appear and go")
	flags.Float64Var(&f.turn, "turn", 90, "how far the true parameter turns, in degrees")
	flags.IntVar(&f.period, "period", 30, "days of a season")
	flags.Float64Var(&s.HalfLife, "half-life", 0, "epochs of panels after which an observation counts half; 0: never")
	flags.Float64Var(&s.Alarm, "alarm", 0,
		"significance at which a changed world makes the learner of panels forget; 0: never")
	flags.Float64Var(&s.Control, "control", 0, "share of decisions of the control group, which gets the default arm")
	flags.Float64Var(&s.ControlShare, "control-share", 0,
		"share of the budget for the comparison with the control group; 0: the learner's default")
	flags.Float64Var(&s.Caution, "caution", 0,
		"standard deviations by which an arm must be better than the default arm to be played; 0: off")
	flags.IntVar(&f.seeds, "seeds", 5, "number of runs of each mode")
	flags.Uint64Var(&f.firstSeed, "first-seed", 1, "seed of the first run")
	flags.IntVar(&f.workers, "workers", 0, "number of runs at the same time; 0: one for each processor")
	flags.BoolVar(&f.json, "json", false, "print the rows as one JSON object")
	flags.BoolVar(&f.markdown, "markdown", false, "print the table as Markdown")
	flags.StringVar(&f.out, "out", filepath.Join("out", "simulate", "life"), "folder for the picture and the rows")
	return cmd
}

// world is how the world changes.
func (f lifeFlags) world() (w world.World, err error) {
	w = f.setting.World
	for _, of := range []struct { // 0 would be a default
		flag string
		n    int
	}{{"people", w.People}, {"days", w.Days}, {"dimension", w.Dimension}, {"arms", w.Arms}, {"seeds", f.seeds}} {
		if of.n < 1 {
			return w, fmt.Errorf("--%s %d must be at least 1", of.flag, of.n)
		}
	}
	if !(w.Rate > 0) {
		return w, fmt.Errorf("--rate %v must be above 0", w.Rate)
	}
	if f.change == "none" {
		return w, nil
	}
	c := world.Change{Kind: f.change}
	days := float64(w.Days)
	switch f.change {
	case world.Abrupt, world.Arms:
		c.At = float64(f.changeDay) / days
		if f.changeDay < 1 || f.changeDay >= w.Days {
			return w, fmt.Errorf("--change-day %d must lie within the %d days", f.changeDay, w.Days)
		}
	case world.Seasonal:
		c.Period = float64(f.period) / days
	}
	if f.change != world.Arms {
		c.Turn = f.turn
	}
	w.Change = &c
	return w, nil
}

func runLife(cmd *cobra.Command, f lifeFlags) error {
	w, err := f.world()
	if err != nil {
		return err
	}
	f.setting.World, f.setting.Channel = w, plan.Channel(f.trust)
	if f.setting, err = f.setting.Resolve(); err != nil {
		return err
	}
	ctx, stop := command.UntilStopped(cmd)
	defer stop()
	shown := progress.New(cmd.ErrOrStderr(), progress.Options{})
	rows, err := life.Compare(ctx, f.setting, world.Modes(f.kmax, f.records),
		life.Options{Seeds: f.seeds, FirstSeed: f.firstSeed,
			Workers: f.workers, Progress: func(days, all int) {
				shown.Update(func(s *progress.State) { s.Phase, s.Work, s.AllWork = "simulating", days, all })
			}})
	shown.Close()
	if err != nil {
		return err
	}
	return showSimulated(cmd, life.Result{Setting: f.setting, Rows: rows}, f.out, "life", f.json, f.markdown)
}

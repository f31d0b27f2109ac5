package main

import (
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/riffle-dp/riffle/internal/command"
	"github.com/riffle-dp/riffle/internal/drive/progress"
	"github.com/riffle-dp/riffle/internal/evaluate/replay"
	"github.com/riffle-dp/riffle/pkg/glm"
	"github.com/riffle-dp/riffle/pkg/glm/family"
	"github.com/riffle-dp/riffle/pkg/glm/learner"
	"github.com/riffle-dp/riffle/pkg/glm/structure"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/strict"
)

type replayFlags struct {
	log              evaluateFlags // which log, and how it is read
	trust            []string
	normBound        float64
	options, context int
	epsilon, delta   float64
	rounds           int
	out              string
}

func replayCommand() *cobra.Command {
	f := replayFlags{}
	cmd := &cobra.Command{
		Use:   "replay LOG",
		Short: "see on past decisions what a deployment would have learnt",
		Long: `
Plays a whole deployment on a log of past decisions: its learner, its cohorts, and the noise of each channel. It
says what a live run can be expected to get, while learning and by its last policy, beside what was played, uniform
play, and the same learner on exact sums, without privacy, which is no upper bound. The log is as riffle evaluate reads
it.

The learner in force draws an option for each person of the log, as a device would. If the log has the same option,
the person is accepted with its reward, and otherwise passed over. A further coin accepts options that the log's policy
played often less often, so that those who are accepted are like the people of a live run. With K options that were
played uniformly 1 person in K is accepted; with a least propensity of 0.01 it is 1 in 100. A third of the log is kept
out of each run, in turn, and judges what the run learnt.

The intervals count the people who happen to be in the log, and chance. They are of the expectation over live runs with
as many people as were accepted, all of whom report: one live run also has luck of its own. Every row counts as another
person: where the same people have many rows, intervals can be too narrow. Where the runs of one log end far apart, as
when the learner's model is wrong, intervals of 95 % held in only 92 % of simulated logs; elsewhere they are rather too
wide, and held in 95 to 99 %. A log that could not play what the learner plays is refused, and so is one that accepts
too few people for two cohorts.

Neither the log nor these figures are private: they are for those who hold the log.`[1:],
		Example: `  riffle replay log.jsonl
  riffle replay log.jsonl --options 3 --context 5 --out replay.png
  riffle replay log.jsonl --trust shares --epsilon 0.5 --json`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return runReplay(cmd, args[0], f) },
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	f.log.log.add(flags)
	flags.StringSliceVar(&f.trust, "trust", nil, "channels to replay, as shuffle,shares; default all four")
	flags.Float64Var(&f.epsilon, "epsilon", plan.DefaultEpsilon, "epsilon of each person's privacy guarantee")
	flags.Float64Var(&f.delta, "delta", plan.DefaultDelta, "delta of each person's privacy guarantee")
	flags.StringVar(&f.log.family, "family", family.NameLogistic, strict.List(family.Names(), "or")+" rewards")
	flags.Float64Var(&f.log.maxReward, "max-reward", 1, "largest reward")
	flags.Float64Var(&f.normBound, "norm-bound", learner.DefaultRadius, "bound of the parameter's norm")
	flags.IntVar(&f.options, "options", 0,
		"options of a decision: an arm has --context numbers for each, and zeros for all but one")
	flags.IntVar(&f.context, "context", 0, "numbers of an option")
	flags.Float64Var(&f.log.confidence, "confidence", 0.95, "confidence level of the intervals")
	flags.IntVar(&f.rounds, "rounds", replay.DefaultRounds,
		"how often the log is replayed in each channel, in three runs each time")
	flags.StringVar(&f.out, "out", "", "file of a picture, .png or .svg")
	flags.BoolVar(&f.log.strict, "strict", false, "refuse columns that have no role")
	flags.BoolVar(&f.log.json, "json", false, "print the result as one JSON object")
	return cmd
}

// asked is what is replayed of arms of a dimension.
func (f replayFlags) asked(dimension int) (o replay.Options, err error) {
	o = replay.Options{Epsilon: f.epsilon, Delta: f.delta, Confidence: f.log.confidence, Rounds: f.rounds,
		Learner: learner.Config{Profile: glm.Practical, Family: f.log.family, MaxReward: f.log.maxReward,
			Dimension: dimension, Radius: f.normBound}}
	for _, name := range f.trust {
		c := plan.Channel(name)
		if !slices.Contains(plan.Channels(), c) {
			return o, fmt.Errorf("--trust is %q: give shuffle, shares, local or central, or several with commas", name)
		}
		o.Channels = append(o.Channels, c)
	}
	schema, err := readSchema(f.log.log.features)
	if err != nil {
		return o, err
	}
	switch {
	case schema != nil && (f.options != 0 || f.context != 0):
		return o, errors.New("--features says how arms are made: leave --options and --context out")
	case schema != nil:
		o.Learner.Structure = schema.Structure()
		return o, nil
	case f.options == 0 && f.context == 0:
		return o, nil
	}
	if f.options < 2 || f.context < 1 || f.options*f.context != dimension {
		return o, fmt.Errorf("--options %d and --context %d: the product must be %d, the numbers of an arm of the "+
			"log, with at least 2 options", f.options, f.context, dimension)
	}
	o.Learner.Structure = structure.Options(f.options, f.context)
	return o, nil
}

func runReplay(cmd *cobra.Command, path string, f replayFlags) error {
	log, _, err := f.log.readLog(cmd, path)
	if err != nil {
		return err
	}
	o, err := f.asked(len(log[0].Arms[0]))
	if err != nil {
		return err
	}
	ctx, stop := command.UntilStopped(cmd)
	defer stop()
	shown := progress.New(cmd.ErrOrStderr(), progress.Options{})
	shown.Update(func(s *progress.State) { s.Phase = "planning" })
	o.Progress = func(done, all int) {
		shown.Update(func(s *progress.State) { s.Phase, s.Work, s.AllWork = "replaying", done, all })
	}
	r, err := replay.Run(ctx, log, o)
	shown.Close()
	if ctx.Err() != nil {
		return errors.New("interrupted")
	}
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if f.out != "" {
		if err := r.Chart().Save(f.out); err != nil {
			return err
		}
	}
	if err := command.Print(cmd, r, f.log.json); err != nil || f.log.json || f.out == "" {
		return err
	}
	_, err = fmt.Fprintf(cmd.OutOrStdout(), "\nPicture: %s\n", f.out)
	return err
}

// Package predict says what a planned deployment will learn, before it runs: it plays the deployment's own learner,
// with noise of the planned size, against people who are assumed or who are resampled from a log.
//
//	predict.go     what is asked, and the runs
//	world.go       the people that a run meets
//	synthetic.go   people who are assumed, with an effect of a given size
//	log.go         people resampled from a log, who answer as a model fitted to it says
//	deployment.go  one run of the learner
//	clear.go       the yardstick: a learner without privacy that meets the same people
//	outcome.go     what many runs say together
//
// It is a prediction, not a release: the noise of a sum is one Gaussian draw of the planned variance in place of the
// channel's own law, and nobody is protected by it. Every report is taken to arrive.
package predict

import (
	"context"
	"errors"
	"fmt"
	"runtime"

	"golang.org/x/sync/errgroup"

	"github.com/riffle-dp/riffle/pkg/glm/family"
	"github.com/riffle-dp/riffle/pkg/glm/learner"
)

// Errors of this package, wrapped with the value and what to do about it.
var (
	// ErrOptions reports an option out of its range.
	ErrOptions = errors.New("predict")
	// ErrEffect reports an effect that the assumed people cannot have.
	ErrEffect = errors.New("no such effect")
)

// Noise is the standard deviation of the noise of each sum of a step's round, in the statistics' units. It must be safe
// for concurrent use.
type Noise func(step learner.Step) ([]float64, error)

// Options say what to predict.
type Options struct {
	Learner learner.Config
	Noise   Noise
	People  Source
	Runs    int // at least 2
	// Most is the number of people after whose cohorts a run ends; the learner's horizon stays what it is. At least
	// the first cohort is played. 0: the whole horizon.
	Most int
	// Progress, which may be nil, is called after each run. It need not be safe for concurrent use.
	Progress func(done, all int)
}

// Source makes the people of a run.
type Source interface {
	// world is what the given run meets. It depends on nothing but the run's number.
	world(run int) (*world, error)
}

// Run plays the runs, as many at once as there are processors, and says what they say together. The result depends on
// the options alone.
func Run(ctx context.Context, o Options) (*Outcome, error) {
	if o.Runs < 2 || o.Most < 0 || o.Noise == nil || o.People == nil {
		return nil, fmt.Errorf("%w: %d runs of at most %d people, wanted at least 2 runs with noise and people",
			ErrOptions, o.Runs, o.Most)
	}
	config, err := o.Learner.Resolve()
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrOptions, err)
	}
	f, err := family.New(config.Family, config.MaxReward)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrOptions, err)
	}
	runs, done := make([]*run, o.Runs), make(chan struct{})
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(runtime.GOMAXPROCS(0) + 1) // one counts
	group.Go(func() error {
		for i := range o.Runs {
			select {
			case <-done:
			case <-ctx.Done():
				return context.Cause(ctx)
			}
			if o.Progress != nil {
				o.Progress(i+1, o.Runs)
			}
		}
		return nil
	})
	for i := range runs {
		group.Go(func() (err error) {
			w, err := o.People.world(i)
			if err != nil {
				return err
			}
			if runs[i], err = play(ctx, config, f, w, o, uint64(i)); err != nil {
				return err
			}
			select {
			case done <- struct{}{}:
			case <-ctx.Done():
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	return summarize(config, runs), nil
}

package experiment

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"reflect"
	"runtime"
	"slices"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"github.com/riffle-dp/riffle/internal/population"
)

// KindBakeoff compares learners in many worlds by the share of what a learner without privacy gains.
const KindBakeoff = "bakeoff"

// The halves of the worlds: one for choosing constants, the other for reporting what they give.
const (
	Tuning  = "tuning"
	HeldOut = "held-out"
)

// yardsticks are what a run is measured by: mean values of the best constant arm and of uniform play, on the people
// who decide and on those held out, and of the best arm of each person held out, where the true means are known.
type yardsticks struct {
	Constant    float64         `json:"constant"`
	Uniform     float64         `json:"uniform"`
	EndConstant float64         `json:"end_constant"`
	EndUniform  float64         `json:"end_uniform"`
	EndBest     *float64        `json:"end_best,omitempty"`
	Info        population.Info `json:"info"`
}

func (j job) yardsticks() (*yardsticks, error) {
	e, err := j.open()
	if err != nil {
		return nil, err
	}
	y := &yardsticks{Info: e.Info()}
	for _, part := range []struct {
		people            iter.Seq2[population.Person, error]
		constant, uniform *float64
	}{{e.People(), &y.Constant, &y.Uniform}, {e.Holdout(), &y.EndConstant, &y.EndUniform}} {
		if _, *part.constant, err = population.BestConstant(part.people); err != nil {
			return nil, err
		}
		if *part.uniform, err = population.Value(part.people, population.Uniform()); err != nil {
			return nil, err
		}
	}
	known := true
	best, err := population.Value(e.Holdout(), func(_ int, p population.Person) (float64, error) {
		known = known && p.Means != nil
		return p.Best(), nil
	})
	if known {
		y.EndBest = &best
	}
	return y, err
}

// yardstickDigest names the yardsticks of the job's world and seed.
func (j job) yardstickDigest() (string, error) {
	j.Algorithm, j.Environment.People, j.Epsilon, j.Delta, j.Failure = AlgorithmSpec{}, 0, 0, 0, 0
	return digest(struct{ Yardsticks job }{j})
}

// reference is the algorithm whose gain is the whole.
var reference = AlgorithmSpec{Name: "nonprivate-greedy", Kind: KindGreedy}

// entry is a learner in a world at an epsilon.
type entry struct {
	world    *arena
	job      job
	results  []*result
	refusals []error // of the seeds that could not run
	run      bool    // whether it has runs of its own
}

// refused is the first seed's refusal, if any.
func (x *entry) refused() error { return cmp.Or(x.refusals...) }

// Bakeoff runs all runs of an experiment of KindBakeoff that are not in the folder already, several at a time, and says
// what share of the gain each learner keeps. A learner that refuses a world has no share there, and its reason is kept.
func (e *Experiment) Bakeoff(ctx context.Context, o Options) (*Bakeoff, error) {
	all, skipped, err := e.arenas()
	if err != nil {
		return nil, err
	}
	var entries []*entry
	runs := 0 // of a seed, but for those of the reference and the yardsticks
	wholes, measures := make([]*entry, len(all)), make([][]*yardsticks, len(all))
	for i := range all {
		wholes[i] = e.entry(&all[i], reference, 0)
		measures[i] = make([]*yardsticks, e.Seeds)
		for _, a := range e.Algorithms {
			epsilons := a.Epsilons
			switch {
			case !a.private():
				epsilons = []float64{0}
			case epsilons == nil && all[i].Epsilons != nil:
				epsilons = all[i].Epsilons
			case epsilons == nil:
				epsilons = e.Epsilons
			}
			for _, epsilon := range epsilons {
				x := e.entry(&all[i], a, epsilon)
				if same := x.job.Algorithm; a.Kind == KindGreedy {
					if same.Name = reference.Name; reflect.DeepEqual(same, reference) { // it has run already
						x.results, x.refusals, x.run = wholes[i].results, wholes[i].refusals, false
					}
				}
				if x.run {
					runs++
				}
				entries = append(entries, x)
			}
		}
	}
	workers := o.Workers
	if workers < 1 {
		workers = runtime.GOMAXPROCS(0)
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(workers)
	var done atomic.Int64
	total := (2*len(all) + runs) * e.Seeds
	start := func(task func() error) {
		group.Go(func() error {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			err := task()
			if n := int(done.Add(1)); err == nil && o.Progress != nil {
				o.Progress(n, total)
			}
			return err
		})
	}
	for s := range e.Seeds {
		for i := range all {
			j := wholes[i].job.of(e.FirstSeed + uint64(s))
			start(func() (err error) {
				measures[i][s], err = kept(o.Folder, j.yardstickDigest, j.yardsticks)
				return err
			})
		}
		for _, x := range append(slices.Clone(wholes), entries...) {
			if !x.run {
				continue
			}
			j := x.job.of(e.FirstSeed + uint64(s))
			start(func() (err error) {
				x.results[s], err = j.inBakeoff(ctx, o.Folder)
				if err != nil && ctx.Err() == nil {
					x.refusals[s], err = err, nil
				}
				return err
			})
		}
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	b := &Bakeoff{Rows: []ShareRow{}, Skipped: append([]string{}, skipped...)}
	for i := range all {
		if err := wholes[i].refused(); err != nil {
			return nil, fmt.Errorf("%w: world %s: %w", ErrExperiment, all[i].Name, err)
		}
		for _, x := range entries {
			if x.world == &all[i] {
				b.Rows = append(b.Rows, x.row(wholes[i].results, measures[i]))
			}
		}
	}
	b.summarise()
	return b, nil
}

// inBakeoff is the job's result, unless the world has more dimensions than the algorithm is run in.
func (j job) inBakeoff(ctx context.Context, folder string) (*result, error) {
	if most := j.Algorithm.MaxDimension; most > 0 {
		e, err := j.open()
		if err != nil {
			return nil, err
		}
		if d := e.Info().Dim; d > most {
			return nil, fmt.Errorf("%w: not run in %d dimensions, but in at most %d", ErrExperiment, d, most)
		}
	}
	return j.runCached(ctx, folder, func(int) {})
}

func (e *Experiment) entry(a *arena, spec AlgorithmSpec, epsilon float64) *entry {
	j := job{Environment: a.Environment, Horizon: a.Environment.People, Epsilon: epsilon,
		Delta: cmp.Or(spec.Delta, e.Delta), Failure: e.Failure, Algorithm: spec, Data: a.digest, opener: a.open}
	return &entry{world: a, job: j, results: make([]*result, e.Seeds), refusals: make([]error, e.Seeds), run: true}
}

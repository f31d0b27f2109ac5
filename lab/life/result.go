package life

import (
	"cmp"
	"context"
	"fmt"
	"runtime"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/riffle-dp/riffle/internal/play"
	"github.com/riffle-dp/riffle/internal/world"
)

// Options say how to run a comparison.
type Options struct {
	Seeds     int
	FirstSeed uint64
	Workers   int                 // runs at a time; 0: one for each processor
	Progress  func(days, all int) // of all runs; may be nil
}

// Compare runs all modes on all seeds and sums them up. The result does not depend on the order of runs.
func Compare(ctx context.Context, s world.Setting, modes []world.Mode, o Options) ([]world.Row, error) {
	s, err := s.Resolve()
	if err != nil {
		return nil, err
	}
	if o.Seeds < 1 || len(modes) == 0 {
		return nil, fmt.Errorf("%w: a comparison needs a seed and a mode", world.ErrSetting)
	}
	var different []world.Mode
	for _, m := range modes {
		if e := m.Effective(s.World); !slices.Contains(different, e) {
			different = append(different, e)
		}
	}
	workers := cmp.Or(o.Workers, runtime.GOMAXPROCS(0))
	days, all := make(chan int, workers), o.Seeds*len(different)*s.World.Days
	counted := make(chan struct{})
	go func() {
		defer close(counted)
		done := 0
		for n := range days {
			if done += n; o.Progress != nil {
				o.Progress(done, all)
			}
		}
	}()
	runs := make([][]*run, len(different))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(workers)
	for i := range different {
		runs[i] = make([]*run, o.Seeds)
	}
	for k := range o.Seeds {
		for i, m := range different {
			group.Go(func() error {
				seed := o.FirstSeed + uint64(k)
				p, err := newPlayer(s, m, seed)
				if err == nil {
					runs[i][k], err = p.play(ctx, seed, func(n int) { days <- n })
				}
				if err != nil {
					return fmt.Errorf("%s, seed %d: %w", m.Name(), seed, err)
				}
				return nil
			})
		}
	}
	err = group.Wait()
	close(days)
	<-counted
	if err != nil {
		return nil, err
	}
	rows := make([]world.Row, len(modes))
	for i, m := range modes {
		rows[i] = newRow(s, m, runs[slices.Index(different, m.Effective(s.World))])
	}
	return rows, nil
}

// newRow sums up the runs of a mode.
func newRow(s world.Setting, m world.Mode, runs []*run) world.Row {
	r := world.Row{Mode: m.Name(), Kind: m.Kind, KMax: m.Decisions, R: m.Records, Seeds: len(runs),
		Panel: runs[0].Panel}
	switch m.Kind {
	case world.Arrival:
		r.KMax, r.R = 1, 1
	case world.Clear:
		r.KMax = clearDecisions
	}
	if m.Kind == world.Arrival || m.Kind == world.Panel {
		r.Epsilon, r.Delta = &s.Epsilon, s.Delta
	}
	over := func(f func(*run) float64) (mean, se float64) {
		values := make([]float64, len(runs))
		for i, x := range runs {
			values[i] = f(x)
		}
		return play.MeanAndError(values)
	}
	since := func(first int) func(x *run) float64 {
		return func(x *run) float64 { return sum(x.Reward[first:]) / float64(max(1, sum(x.Count[first:]))) }
	}
	r.Regret, r.RegretSE = over(func(x *run) float64 { return sum(x.Regret) })
	r.Reward, r.RewardSE = over(since(0))
	r.LastWeek, r.LastWeekSE = over(since(max(0, s.World.Days-7)))
	r.Kept, _ = over(func(x *run) float64 { return x.Kept })
	for day := range s.World.Days {
		mean, _ := over(func(x *run) float64 { return x.Reward[day] / float64(max(1, x.Count[day])) })
		r.ByDay = append(r.ByDay, mean)
		mean, _ = over(func(x *run) float64 { return x.Regret[day] / float64(max(1, x.Count[day])) })
		r.RegretDay = append(r.RegretDay, mean)
	}
	for _, x := range runs {
		r.Records = max(r.Records, x.Records)
	}
	for _, e := range runs[0].Epochs {
		if e.Reports > 0 {
			r.Epochs++
		}
	}
	if m.Kind != world.Uniform && m.Kind != world.Default {
		r.Learned, r.Returned = play.Return(r.RegretDay, s.World.ChangeDay())
		if s.Control > 0 {
			addLifts(&r, runs)
		}
	}
	return r
}

// addLifts enters what the control group showed.
func addLifts(r *world.Row, runs []*run) {
	held, all := 0, 0
	for i, x := range runs {
		for _, e := range x.Epochs {
			if e.Reports == 0 {
				continue
			}
			if all++; e.Low <= e.True && e.True <= e.High {
				held++
			}
			if i > 0 {
				continue
			}
			r.LiftDay, r.LiftTrue = append(r.LiftDay, e.Day), append(r.LiftTrue, e.True)
			r.Lift, r.LiftLow = append(r.Lift, e.Lift), append(r.LiftLow, e.Low)
			r.LiftHigh = append(r.LiftHigh, e.High)
		}
	}
	if all > 0 {
		share := float64(held) / float64(all)
		r.Held = &share
	}
}

func sum[T int | float64](values []T) (total T) {
	for _, v := range values {
		total += v
	}
	return total
}

// Best is the row of the panel with the least regret; nil if there is none.
func Best(rows []world.Row) *world.Row {
	panels := slices.DeleteFunc(slices.Clone(rows), func(r world.Row) bool { return r.Kind != world.Panel })
	if len(panels) == 0 {
		return nil
	}
	best := slices.MinFunc(panels, func(a, b world.Row) int { return cmp.Compare(a.Regret, b.Regret) })
	return &best
}

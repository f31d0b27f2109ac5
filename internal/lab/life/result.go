package life

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"runtime"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/riffle-dp/riffle/internal/lab/simulate"
)

// Row is the result of one mode, over seeds. Its JSON form is a stable interface.
type Row struct {
	Mode  string `json:"mode"`
	Kind  Kind   `json:"kind"`
	KMax  int    `json:"k_max"` // most decisions of a report
	R     int    `json:"r"`     // most reports of a person, as asked for; 0: no limit
	Seeds int    `json:"seeds"`
	// Records is R, or the number of epochs if that is smaller.
	Records int `json:"records"`
	Epochs  int `json:"epochs"` // that were learned from, in the first seed
	Panel   int `json:"panel"`  // people of a cohort; 0: cohorts grow
	// Epsilon is the guarantee of a person for all of the deployment's life, at Delta; null: none.
	Epsilon *float64 `json:"epsilon"`
	Delta   float64  `json:"delta,omitempty"`
	// Regret is summed over all decisions: the mean over seeds, and its standard error.
	Regret   float64 `json:"regret"`
	RegretSE float64 `json:"regret_se"`
	// Reward is the mean expected reward of a decision, and LastWeek that of the last seven days.
	Reward     float64   `json:"mean_reward"`
	RewardSE   float64   `json:"mean_reward_se"`
	LastWeek   float64   `json:"last_week"`
	LastWeekSE float64   `json:"last_week_se"`
	ByDay      []float64 `json:"mean_reward_by_day"`
	RegretDay  []float64 `json:"regret_by_day"` // of a decision
	Kept       float64   `json:"kept"`          // share of the cohorts' decisions that reports had room for
	// Learned is after how many days the regret of a day first came down to its rate before the change, and Returned after
	// how many days from the change it was there again; null: never, or nothing changes at once.
	Learned  *int `json:"days_to_learn,omitempty"`
	Returned *int `json:"days_to_return,omitempty"`
	// Of a control group, per epoch of the first seed: the lift of the policy over the default arm with its 95 % interval,
	// and the truth. Held is the share of all seeds' epochs whose interval holds the truth.
	LiftDay  []int     `json:"lift_day,omitempty"` // on which the epoch began
	Lift     []float64 `json:"lift,omitempty"`
	LiftLow  []float64 `json:"lift_low,omitempty"`
	LiftHigh []float64 `json:"lift_high,omitempty"`
	LiftTrue []float64 `json:"lift_true,omitempty"`
	Held     *float64  `json:"lift_held,omitempty"`
}

// Options say how to run a comparison.
type Options struct {
	Seeds     int
	FirstSeed uint64
	Workers   int                 // runs at a time; 0: one for each processor
	Progress  func(days, all int) // of all runs; may be nil
}

// Compare runs all modes on all seeds and sums them up. The result does not depend on the order of runs.
func Compare(ctx context.Context, s Setting, modes []Mode, o Options) ([]Row, error) {
	s, err := s.Resolve()
	if err != nil {
		return nil, err
	}
	if o.Seeds < 1 || len(modes) == 0 {
		return nil, fmt.Errorf("%w: a comparison needs a seed and a mode", ErrLife)
	}
	var different []Mode
	for _, m := range modes {
		if e := m.effective(s.World); !slices.Contains(different, e) {
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
	rows := make([]Row, len(modes))
	for i, m := range modes {
		rows[i] = s.row(m, runs[slices.Index(different, m.effective(s.World))])
	}
	return rows, nil
}

// Name is the mode's in tables.
func (m Mode) Name() string {
	if m.Kind == Panel {
		return fmt.Sprintf("panel, K_max %d, R %d", m.Decisions, m.Records)
	}
	return string(m.Kind)
}

// row sums up the runs of a mode.
func (s Setting) row(m Mode, runs []*run) Row {
	r := Row{Mode: m.Name(), Kind: m.Kind, KMax: m.Decisions, R: m.Records, Seeds: len(runs), Panel: runs[0].Panel}
	switch m.Kind {
	case Arrival:
		r.KMax, r.R = 1, 1
	case Clear:
		r.KMax = clearDecisions
	}
	if m.Kind == Arrival || m.Kind == Panel {
		r.Epsilon, r.Delta = &s.Epsilon, s.Delta
	}
	over := func(f func(*run) float64) (mean, se float64) {
		values := make([]float64, len(runs))
		for i, x := range runs {
			values[i] = f(x)
		}
		return meanAndError(values)
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
	if m.Kind != Uniform && m.Kind != Default {
		r.Learned, r.Returned = simulate.Return(r.RegretDay, s.World.ChangeDay())
		if s.Control > 0 {
			r.lifts(runs)
		}
	}
	return r
}

// lifts enters what the control group showed.
func (r *Row) lifts(runs []*run) {
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

// meanAndError is the mean and its standard error; 0 for one value.
func meanAndError(values []float64) (mean, se float64) {
	n := float64(len(values))
	mean = sum(values) / n
	if len(values) < 2 {
		return mean, 0
	}
	for _, v := range values {
		se += (v - mean) * (v - mean)
	}
	return mean, math.Sqrt(se / (n - 1) / n)
}

// Best is the row of the panel with the least regret; nil if there is none.
func Best(rows []Row) *Row {
	panels := slices.DeleteFunc(slices.Clone(rows), func(r Row) bool { return r.Kind != Panel })
	if len(panels) == 0 {
		return nil
	}
	best := slices.MinFunc(panels, func(a, b Row) int { return cmp.Compare(a.Regret, b.Regret) })
	return &best
}

package experiment

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"runtime"
	"slices"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"github.com/riffle-dp/riffle/internal/play"
	"github.com/riffle-dp/riffle/pkg/glm/family"
	"github.com/riffle-dp/riffle/pkg/plan"
)

// Options say how to run an experiment.
type Options struct {
	Folder string // of finished runs; empty: nothing is kept
	// Logs is the folder for the decisions of every run whose algorithm knows its propensities; empty: none are
	// written.
	Logs     string
	Workers  int                   // runs at a time; 0: one for each processor
	Progress func(people, all int) // decided for in all runs, or runs of KindRegression; all is 0 if it is not known
}

// Row is one line of an experiment's table: an algorithm in one environment, horizon and epsilon, over the seeds. Its
// JSON form is a stable interface.
type Row struct {
	Algorithm string   `json:"algorithm"`
	Epsilon   *float64 `json:"epsilon"` // null: no guarantee
	Delta     float64  `json:"-"`       // of the guarantee; 0: none, or pure epsilon; see banditRow
	Horizon   int      `json:"horizon"`
	Seeds     int      `json:"seeds"`
	Regret    float64  `json:"regret"`    // mean over seeds
	RegretSE  float64  `json:"regret_se"` // its standard error
	// Errors are those of a regression, which has no regret.
	*Errors
	Messages float64 `json:"messages_per_user"`

	// Floor is a lower bound of the expected regret of every algorithm with this epsilon, where one is known.
	Floor float64 `json:"floor,omitempty"`

	Environment string   `json:"environment"`
	Worst       float64  `json:"worst_regret"`
	Value       float64  `json:"value"` // mean value of what was played
	ValueSE     float64  `json:"value_se"`
	Final       *float64 `json:"final_value,omitempty"` // mean value of the last estimate on people held out
	FinalSE     *float64 `json:"final_value_se,omitempty"`
	FinalWorst  *float64 `json:"worst_final_value,omitempty"`

	// Spread is the share of rounds in which trials side by side reach all directions, of kinds that count it.
	Spread   *float64 `json:"spread,omitempty"`
	SpreadSE *float64 `json:"spread_se,omitempty"`

	// Of algorithms whose channel is named: the channel, and what it costs a person in one seed's cohorts.
	Trust         plan.Channel `json:"trust,omitempty"`
	Bytes         float64      `json:"bytes_per_user,omitempty"` // sent, mean over people
	VarianceRatio float64      `json:"variance_ratio,omitempty"` // the largest of any release
	// CPU seconds, mean over people. Run does not measure: they are 0 unless Price sets them.
	DeviceCPU float64 `json:"device_cpu_seconds_per_user,omitempty"`
	ServerCPU float64 `json:"server_cpu_seconds_per_user,omitempty"` // shuffler and analyzer
	// OverCentral is the regret over that of the algorithm named central on the same seeds, a ratio of means with its
	// standard error over pairs of seeds.
	OverCentral   float64 `json:"regret_over_central,omitempty"`
	OverCentralSE float64 `json:"regret_over_central_se,omitempty"`

	// Learned is how many people it took until regret first came down to its rate before the world changed at once, and
	// Returned how many from the change until it was there again, to within a period of 120 (play.Return); absent:
	// never, or no such change.
	Learned  *int `json:"people_to_learn,omitempty"`
	Returned *int `json:"people_to_return,omitempty"`

	spent  play.Spent
	change float64 // share of the people after which the world changes at once; 0: it does not

	// Course is the mean regret after Marks people, with its standard error.
	Marks    []int     `json:"-"`
	Course   []float64 `json:"-"`
	CourseSE []float64 `json:"-"`
	Regrets  []float64 `json:"-"` // of every seed
}

// Run runs all runs of the experiment that are not in the folder already, several at a time, and sums them up. The
// result does not depend on their order. An interrupted Run keeps what it finished.
func (e *Experiment) Run(ctx context.Context, o Options) ([]Row, error) {
	if e.Kind == KindRegression {
		return e.runRegression(ctx, o)
	}
	rows, jobs := e.jobs()
	results := make([]*result, len(jobs))
	total := 0
	for _, j := range jobs {
		if j.Horizon == 0 { // all people of the data
			total = 0
			break
		}
		total += j.Horizon
	}
	workers := o.Workers
	if workers < 1 {
		workers = runtime.GOMAXPROCS(0)
	}
	var people atomic.Int64
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(workers)
	for i, j := range jobs {
		if ctx.Err() != nil {
			break
		}
		group.Go(func() error {
			advance := func(n int) {
				people.Add(int64(n))
				if o.Progress != nil {
					o.Progress(int(people.Load()), total)
				}
			}
			var r *result
			var err error
			if o.Logs != "" {
				r, err = j.run(ctx, o.Logs, advance)
			} else {
				r, err = j.runCached(ctx, o.Folder, advance)
			}
			if err != nil {
				return fmt.Errorf("%s on %s, T = %d, epsilon %g, seed %d: %w", j.Algorithm.Name, j.Environment.Label(),
					j.Horizon, j.Epsilon, j.Seed, err)
			}
			results[i] = r
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	for _, r := range results { // cancelled before every run was started
		if r == nil {
			return nil, context.Cause(ctx)
		}
	}
	for i := range rows {
		var own []*result
		for k := range e.Seeds {
			own = append(own, results[k*len(rows)+i])
		}
		rows[i].summarise(own)
	}
	compare(rows)
	return rows, nil
}

// jobs lists the rows, and the jobs seed by seed in the order of the rows.
func (e *Experiment) jobs() (rows []Row, jobs []job) {
	var first []job
	for _, v := range e.Environments {
		horizons := e.Horizons
		if v.People != 0 {
			horizons = []int{v.People}
		}
		family := cmp.Or(v.Family, family.NameLogistic)
		for _, horizon := range horizons {
			for _, a := range e.Algorithms {
				if a.Horizons != nil && !slices.Contains(a.Horizons, horizon) ||
					a.Families != nil && !slices.Contains(a.Families, family) {
					continue
				}
				epsilons := e.Epsilons
				if a.Epsilons != nil {
					epsilons = a.Epsilons
				}
				if !a.private() {
					epsilons = []float64{0}
				}
				delta := cmp.Or(a.Delta, e.Delta)
				for _, epsilon := range epsilons {
					first = append(first, job{Environment: v, Horizon: horizon, Epsilon: epsilon, Delta: delta,
						Failure: e.Failure, Algorithm: a})
					row := Row{Algorithm: a.Name, Environment: v.Label(), Trust: a.Trust, change: v.Change.AtOnce()}
					if epsilon > 0 {
						row.Epsilon = &epsilon
						if !slices.Contains(learners[a.Kind].pure, a.Variant) {
							row.Delta = delta
						}
					}
					row.Floor, _ = v.Floor(horizon, epsilon, delta) // Validate has refused what is no environment
					rows = append(rows, row)
				}
			}
		}
	}
	for s := range e.Seeds {
		for _, j := range first {
			j.Seed = e.FirstSeed + uint64(s)
			jobs = append(jobs, j)
		}
	}
	return rows, jobs
}

func (r *Row) summarise(results []*result) {
	r.Seeds, r.Horizon = len(results), results[0].People
	of := func(f func(*result) float64) (mean, se float64) {
		values := make([]float64, len(results))
		for i, x := range results {
			values[i] = f(x)
		}
		return play.MeanAndError(values)
	}
	r.Regret, r.RegretSE = of(func(x *result) float64 { return x.Regret })
	r.Value, r.ValueSE = of(func(x *result) float64 { return x.Value })
	r.Messages, _ = of(func(x *result) float64 { return x.Messages })
	if r.spent = results[0].Spent; r.spent != nil {
		r.Bytes = r.spent.Mean(func(c play.Cost) float64 { return float64(c.Bytes) })
		r.VarianceRatio = r.spent.Most(func(c play.Cost) float64 { return c.VarianceRatio })
	}
	if results[0].Spread != nil {
		mean, se := of(func(x *result) float64 { return *x.Spread })
		r.Spread, r.SpreadSE = &mean, &se
	}
	for _, x := range results {
		r.Worst = math.Max(r.Worst, x.Regret)
		r.Regrets = append(r.Regrets, x.Regret)
	}
	if results[0].Final != nil {
		mean, se := of(func(x *result) float64 { return *x.Final })
		worst := math.Inf(1)
		for _, x := range results {
			worst = math.Min(worst, *x.Final)
		}
		r.Final, r.FinalSE, r.FinalWorst = &mean, &se, &worst
	}
	r.Marks = results[0].Marks
	for i := range r.Marks {
		mean, se := of(func(x *result) float64 { return x.Course[i] })
		r.Course, r.CourseSE = append(r.Course, mean), append(r.CourseSE, se)
	}
	r.returns()
}

// returns compares how long learning took with how long it took after a change of the world.
func (r *Row) returns() {
	if r.change == 0 || len(r.Marks) != changePeriods {
		return
	}
	rates, before, people := make([]float64, changePeriods), 0.0, 0
	for i, total := range r.Course {
		rates[i] = (total - before) / float64(r.Marks[i]-people)
		before, people = total, r.Marks[i]
	}
	in := func(periods *int) *int {
		if periods == nil {
			return nil
		}
		n := *periods * r.Horizon / changePeriods
		return &n
	}
	learned, returned := play.Return(rates, int(math.Ceil(r.change*changePeriods)))
	r.Learned, r.Returned = in(learned), in(returned)
}

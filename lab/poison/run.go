package poison

import (
	"cmp"
	"context"
	"fmt"
	"runtime"

	"golang.org/x/sync/errgroup"
	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"

	"github.com/riffle-dp/riffle/internal/play"
	"github.com/riffle-dp/riffle/pkg/glm/family"
	"github.com/riffle-dp/riffle/pkg/glm/learner"
	"github.com/riffle-dp/riffle/pkg/plan"
)

// Row is one way to attack one channel, over seeds. Its JSON form is a stable interface.
type Row struct {
	Trust     plan.Channel `json:"trust"`
	Strategy  Strategy     `json:"strategy,omitempty"` // empty: nobody is dishonest
	Dishonest float64      `json:"dishonest"`          // share of the devices
	Seeds     int          `json:"seeds"`
	// Regret is summed over all decisions: the mean over seeds, and its standard error.
	Regret   float64 `json:"regret"`
	RegretSE float64 `json:"regret_se"`
	// Added is by how much it is more than where everybody is honest, with the same people, and its 95 % interval over
	// seeds (Student's t of the pairs); nil where nobody is dishonest, the interval also of one seed.
	Added *float64 `json:"added,omitempty"`
	Low   *float64 `json:"added_low,omitempty"`
	High  *float64 `json:"added_high,omitempty"`
	// Bound is the most by which the dishonest devices of a cohort could move a released number, in standard deviations
	// of its error (plan.Influence): in the cohort where that is largest, the mean over seeds.
	Bound float64 `json:"bound_deviations"`
}

// Options say how to run a comparison.
type Options struct {
	Seeds     int // at least 1
	FirstSeed uint64
	Workers   int                   // runs at a time; 0: one for each processor
	Progress  func(people, all int) // of all runs; may be nil
}

// attack is what a run is of, apart from its seed.
type attack struct {
	channel  plan.Channel
	strategy Strategy
	share    float64
}

// score is the result of a run.
type score struct{ regret, worst float64 }

// play is one run.
func (s Setting) play(ctx context.Context, of attack, seed uint64, advance func(people int)) (out score, err error) {
	w, err := s.world(seed, of.share)
	if err != nil {
		return out, err
	}
	terms := plan.DefaultTermsFor(of.channel)
	terms.Epsilon, terms.Delta, terms.DishonestReports = s.Epsilon, s.Delta, s.DishonestReports
	c := &attacked{terms: terms, proposer: new(plan.Proposer), strategy: of.strategy, liars: w.liars, truth: w.Theta}
	cfg := learner.Config{Family: family.NameLogistic, Dimension: s.Dimension, Radius: s.Norm, Horizon: s.People,
		Epsilon: s.Epsilon, Delta: s.Delta}
	algorithm, err := play.NewBatched(cfg, c.trust, stream(seed, 'd'), stream(seed, 'n'))
	if err != nil {
		return out, err
	}
	people := w.People()
	if of.strategy == Flip {
		people = w.flipRewards()
	}
	played, err := play.Play(ctx, algorithm, people, s.People, nil, advance)
	if err != nil {
		return out, err
	}
	return score{played.Regret, c.worst}, nil
}

// Compare runs every strategy with every share of dishonest devices in every channel, and each channel with honest
// devices, on all seeds. The rows come channel by channel, honest devices first. They do not depend on the order of
// runs.
func Compare(ctx context.Context, s Setting, o Options) (*Result, error) {
	s, err := s.Resolve()
	if err != nil {
		return nil, err
	}
	if o.Seeds < 1 {
		return nil, fmt.Errorf("%w: a comparison needs a seed", ErrSetting)
	}
	var attacks []attack
	for _, c := range s.Channels {
		attacks = append(attacks, attack{channel: c})
		for _, strategy := range s.Strategies {
			for _, share := range s.Shares {
				attacks = append(attacks, attack{c, strategy, share})
			}
		}
	}
	workers := cmp.Or(o.Workers, runtime.GOMAXPROCS(0))
	done, all := make(chan int, workers), len(attacks)*o.Seeds*s.People
	counted := make(chan struct{})
	go func() {
		defer close(counted)
		people := 0
		for n := range done {
			if people += n; o.Progress != nil {
				o.Progress(people, all)
			}
		}
	}()
	scores := make([][]score, len(attacks))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(workers)
	for i, of := range attacks {
		scores[i] = make([]score, o.Seeds)
		for k := range o.Seeds {
			group.Go(func() (err error) {
				seed := o.FirstSeed + uint64(k)
				if scores[i][k], err = s.play(ctx, of, seed, func(n int) { done <- n }); err != nil {
					return fmt.Errorf("%s, %q of %g, seed %d: %w", of.channel, of.strategy, of.share, seed, err)
				}
				return nil
			})
		}
	}
	err = group.Wait()
	close(done)
	<-counted
	if err != nil {
		return nil, err
	}
	r := &Result{Setting: s}
	var honest []score
	for i, of := range attacks {
		if of.strategy == "" {
			honest = scores[i]
		}
		r.Rows = append(r.Rows, row(of, scores[i], honest))
	}
	return r, nil
}

// row sums up the runs of an attack, beside those of honest devices on the same seeds.
func row(of attack, scores, honest []score) Row {
	r := Row{Trust: of.channel, Strategy: of.strategy, Dishonest: of.share, Seeds: len(scores)}
	var regret, added, worst []float64
	for k, x := range scores {
		regret, added = append(regret, x.regret), append(added, x.regret-honest[k].regret)
		worst = append(worst, x.worst)
	}
	r.Regret, r.RegretSE = play.MeanAndError(regret)
	r.Bound = stat.Mean(worst, nil)
	if of.strategy == "" {
		return r
	}
	mean, se := play.MeanAndError(added)
	r.Added = &mean
	if n := float64(len(scores)); n > 1 {
		half := se * distuv.StudentsT{Sigma: 1, Nu: n - 1}.Quantile(0.975)
		low, high := mean-half, mean+half
		r.Low, r.High = &low, &high
	}
	return r
}

package predict

import (
	"context"
	"fmt"
	"iter"
	"math"
	"math/rand/v2"

	simulation "github.com/riffle-dp/riffle/internal/play"
	"github.com/riffle-dp/riffle/internal/population"
	"github.com/riffle-dp/riffle/pkg/channel/simulated"
	"github.com/riffle-dp/riffle/pkg/glm"
	"github.com/riffle-dp/riffle/pkg/glm/family"
	"github.com/riffle-dp/riffle/pkg/glm/learner"
	"github.com/riffle-dp/riffle/pkg/glm/statistic"
	"github.com/riffle-dp/riffle/pkg/learn/program"
	"github.com/riffle-dp/riffle/pkg/protocol"
)

// freshPeople value the last policies of a run: to .005 of a reward of 1.
const freshPeople = 2000

// run is what one run gave. Gains are means over people of what they got less what the best constant option would have
// given them, true means both.
type run struct {
	cohorts  []cohort
	last     float64 // gain of the policy after the last cohort that was played
	clear    float64 // gain of the yardstick's last policy
	constant float64 // what the best constant option earns
	effect   float64 // gain of each person's best option
	norm     float64
}

// cohort is the people who decide with one policy.
type cohort struct {
	before int // people who have taken part when its policy was made
	people int
	gain   float64
}

// play runs the learner once, and the yardstick.
func play(ctx context.Context, config learner.Config, f family.Family, w *world, o Options, number uint64) (*run,
	error) {
	coins, noise, rewards := stream(number, streamCoins), stream(number, streamNoise), stream(number, streamRewards)
	b, err := simulation.NewBatched(config, o.trust(), coins, noise)
	if err != nil {
		return nil, err
	}
	schedule, err := o.schedule(config)
	if err != nil {
		return nil, err
	}
	people := rand.New(stream(number, streamPeople))
	r, before := &run{norm: w.norm}, 0
	for _, size := range schedule {
		if err := context.Cause(ctx); err != nil {
			return nil, err
		}
		sum := 0.0
		for range size {
			arms := w.draw(people)
			a, err := b.Choose(arms)
			if err != nil {
				return nil, err
			}
			means := w.means(arms)
			sum += means[a] - w.fixed(means)
			if err := b.Learn(w.reward(arms[a], rewards)); err != nil {
				return nil, err
			}
		}
		r.cohorts = append(r.cohorts, cohort{before: before, people: size, gain: sum / float64(size)})
		before += size
	}
	clear, err := inTheClear(config, f, w, before, number)
	if err != nil {
		return nil, err
	}
	return r, r.value(w, b.InForce(), clear, number)
}

// schedule is the cohorts that are played.
func (o Options) schedule(config learner.Config) ([]int, error) {
	l, err := program.NewSums(config)
	if err != nil {
		return nil, err
	}
	schedule, people := l.Schedule(), 0
	for i, n := range schedule {
		if people += n; o.Most > 0 && people > o.Most {
			return schedule[:max(1, i)], nil
		}
	}
	return schedule, nil
}

// value values both last policies, played without exploring, on people who did not take part.
func (r *run) value(w *world, last glm.Policy, clear []float64, number uint64) error {
	fresh := rand.New(stream(number, streamFresh))
	for range freshPeople {
		arms := w.draw(fresh)
		means := w.means(arms)
		constant := w.fixed(means)
		private, err := last.DecideFor(arms, glm.Choice{Unrecorded: true}, fresh)
		if err != nil {
			return err
		}
		open, err := population.GreedyArm(arms, clear)
		if err != nil {
			return err
		}
		r.last += (means[private.Arm] - constant) / freshPeople
		r.clear += (means[open] - constant) / freshPeople
		r.effect += (best(means) - constant) / freshPeople
		r.constant += constant / freshPeople
	}
	return nil
}

// trust is the channel with the planned noise.
func (o Options) trust() simulation.Trust {
	return func(step learner.Step) (simulated.Channel, simulation.Cost, error) {
		deviations, err := o.Noise(step)
		if err != nil {
			return nil, simulation.Cost{}, err
		}
		if want := len(step.Statistics[step.Round]); len(deviations) != want {
			return nil, simulation.Cost{}, fmt.Errorf("%w: noise of %d statistics, the learner asks for %d", ErrOptions,
				len(deviations), want)
		}
		if step.Statistics[step.Round][0].Kind == statistic.Pair { // each report has its part of the sum's noise
			deviations = []float64{deviations[0] / math.Sqrt(float64(step.Cohort))}
		}
		return noisy(deviations), simulation.Cost{Messages: 1}, nil
	}
}

// noisy adds Gaussian noise of these standard deviations to exact sums, one for each statistic.
type noisy []float64

// Aggregate implements simulated.Channel.
func (n noisy) Aggregate(cohort iter.Seq[simulated.Report], src protocol.Source) ([]simulated.Aggregate, error) {
	sums, err := simulated.Exact{}.Aggregate(cohort, nil)
	if err != nil {
		return nil, err
	}
	normal := rand.New(src)
	for i, s := range sums {
		for j := range s.Sum {
			s.Sum[j] += n[i] * normal.NormFloat64()
			s.Variance[j] = n[i] * n[i]
		}
	}
	return sums, nil
}

package replay

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/riffle-dp/riffle/internal/evaluate"
	"github.com/riffle-dp/riffle/internal/play"
	"github.com/riffle-dp/riffle/internal/population/decisions"
	"github.com/riffle-dp/riffle/pkg/glm"
	"github.com/riffle-dp/riffle/pkg/glm/learner"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/privacy"
	"github.com/riffle-dp/riffle/pkg/privacy/calibrate"
	"github.com/riffle-dp/riffle/pkg/protocol"
)

// replayer is one replay of a log.
type replayer struct {
	log      []decisions.Decision
	least    float64
	config   learner.Config
	judge    *evaluate.Judge
	o        Options
	channels []*tried
	group    []int // of each row
	cohorts  []int
}

// tried is a channel that is replayed; the last one is the learner without privacy.
type tried struct {
	channel    plan.Channel
	first      play.Trust // of a run before all others, which plans for them
	trust      play.Trust
	infeasible error
	figures    [2]figure // while learning, and of the last policy
}

// figure gathers scores over the rounds.
type figure struct {
	scores []float64   // of each row: the sum over rounds
	played []float64   // of each row: the sum over rounds of the probability of the arm that was played
	groups [][]float64 // of each round: the mean score of each group's rows
}

// round is what one round gives of one channel.
type round struct {
	scores, played [2][]float64
}

// Streams of random words of a round.
const (
	streamGroups = iota
	streamFolds
	streamNoise
	streamRows // and one more for each fold and attempt
)

// stream is the generator of one purpose in one round: a simulation's, so that a replay can be repeated.
func (o Options) stream(number, purpose int) *rand.ChaCha8 {
	var key [32]byte
	copy(key[:8], "replay  ")
	binary.LittleEndian.PutUint64(key[8:], uint64(number))
	binary.LittleEndian.PutUint64(key[16:], uint64(purpose))
	binary.LittleEndian.PutUint64(key[24:], o.seed)
	return rand.NewChaCha8(key)
}

// deal deals the rows to groups.
func (r *replayer) deal() {
	r.group = make([]int, len(r.log))
	for k, i := range rand.New(r.o.stream(0, streamGroups)).Perm(len(r.log)) {
		r.group[i] = k % groups
	}
}

// play plays all rounds, as many at once as there are processors. What it gathers does not depend on their number.
func (r *replayer) play(ctx context.Context) error {
	n := len(r.log)
	if err := r.rehearse(); err != nil {
		return err
	}
	for _, t := range r.channels {
		for k := range t.figures {
			t.figures[k] = figure{scores: make([]float64, n), played: make([]float64, n)}
		}
	}
	done := make([]chan []round, r.o.Rounds)
	for number := range done {
		done[number] = make(chan []round, 1)
	}
	workers, ctx := errgroup.WithContext(ctx)
	workers.SetLimit(runtime.GOMAXPROCS(0) + 1) // one gathers
	workers.Go(func() error {
		for number := range done {
			select {
			case of := <-done[number]:
				r.gather(of)
			case <-ctx.Done():
				return context.Cause(ctx)
			}
			if r.o.Progress != nil {
				r.o.Progress(number+1, len(done))
			}
		}
		return nil
	})
	for number := range done {
		workers.Go(func() error {
			of, err := r.round(ctx, number)
			if err == nil {
				done[number] <- of
			}
			return err
		})
	}
	return workers.Wait()
}

// rehearse plans every channel by one run in it, which is part of no round, and finds the cohorts and the channels in
// which so many people have no plan.
func (r *replayer) rehearse() error {
	l, err := learner.New(r.config)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrReplay, err)
	}
	r.cohorts = l.Schedule()
	for _, t := range r.channels {
		_, _, err := r.run(t.first, r.o.Rounds, r.o.folds(r.o.Rounds), 0)
		var infeasible *calibrate.Infeasible
		if errors.As(err, &infeasible) || errors.Is(err, privacy.ErrUncertified) {
			t.infeasible = err
		} else if err != nil {
			return err
		}
	}
	return nil
}

// gather adds a round.
func (r *replayer) gather(of []round) {
	for c, t := range r.channels {
		if t.infeasible != nil {
			continue
		}
		for k := range t.figures {
			f, sums, sizes := &t.figures[k], make([]float64, groups), make([]float64, groups)
			for i, s := range of[c].scores[k] {
				f.scores[i] += s
				f.played[i] += of[c].played[k][i]
				sums[r.group[i]] += s
				sizes[r.group[i]]++
			}
			for g := range sums {
				sums[g] /= sizes[g]
			}
			f.groups = append(f.groups, sums)
		}
	}
}

// folds deals the groups to folds.
func (o Options) folds(number int) []int {
	fold := make([]int, groups)
	for k, g := range rand.New(o.stream(number, streamFolds)).Perm(groups) {
		fold[g] = k / perFold
	}
	return fold
}

// round plays the runs of a round in every channel.
func (r *replayer) round(ctx context.Context, number int) ([]round, error) {
	fold, all := r.o.folds(number), make([]round, len(r.channels))
	for c, t := range r.channels {
		if t.infeasible != nil {
			continue
		}
		for k := range all[c].scores {
			all[c].scores[k], all[c].played[k] = make([]float64, len(r.log)), make([]float64, len(r.log))
		}
		for out := range folds {
			if err := context.Cause(ctx); err != nil {
				return nil, err
			}
			path, last, err := r.run(t.trust, number, fold, out)
			if err == nil {
				err = r.score(&all[c], path, last, number, fold, out)
			}
			if err != nil {
				return nil, err
			}
		}
	}
	return all, nil
}

// errShort reports a run whose rows did not suffice.
var errShort = errors.New("too few rows")

// run learns from all folds but one, and returns the policies that were in force and the last one.
func (r *replayer) run(t play.Trust, number int, fold []int, out int) (path []glm.Policy, last glm.Policy, err error) {
	for attempt := range attempts {
		coins := r.o.stream(number, streamRows+attempt*folds+out)
		path, last, err = r.attempt(t, r.o.stream(number, streamNoise), coins, fold, out)
		if !errors.Is(err, errShort) {
			return path, last, err
		}
	}
	return nil, last, fmt.Errorf("%w: far fewer rows are accepted than 1 in %.3g, so that arms which the learner "+
		"plays were never played, or propensities are wrong: too large ones. Log the probability with which each arm "+
		"was drawn, of a policy that explores", evaluate.ErrOverlap, 1/r.least)
}

func (r *replayer) attempt(t play.Trust, noise, coins protocol.Source, fold []int, out int) (path []glm.Policy,
	last glm.Policy, err error) {
	b, err := play.NewBatched(r.config, t, coins, noise)
	if err != nil {
		return nil, last, fmt.Errorf("%w: %w", ErrReplay, err)
	}
	path = append(path, b.InForce())
	people, before := 0, 0
	for _, i := range rand.New(coins).Perm(len(r.log)) {
		d := &r.log[i]
		if fold[r.group[i]] == out || protocol.Uniform(coins)*d.Propensity >= r.least {
			continue
		}
		arm, err := b.Choose(d.Arms)
		if err != nil {
			return nil, last, fmt.Errorf("%w: decision %d: %w", ErrReplay, i+1, err)
		}
		if arm != d.Arm {
			continue
		}
		if err := b.Learn(d.Reward); err != nil {
			return nil, last, fmt.Errorf("%w: %w", ErrReplay, err)
		}
		if people++; people == r.config.Horizon {
			last, err = b.FinalPolicy()
			return path, last, err
		}
		if k := len(path) - 1; people-before == r.cohorts[k] {
			path, before = append(path, b.InForce()), people
		}
	}
	return nil, last, errShort
}

// score scores the rows that were kept out of a run: by one of its policies, drawn as a person of the run meets them,
// and by the last one.
func (r *replayer) score(into *round, path []glm.Policy, last glm.Policy, number int, fold []int, out int) error {
	draw := rand.New(r.o.stream(number, streamRows+attempts*folds+out))
	ends := make([]int, len(r.cohorts))
	for k, n := range r.cohorts {
		ends[k] = n
		if k > 0 {
			ends[k] += ends[k-1]
		}
	}
	for i, d := range r.log {
		if fold[r.group[i]] != out {
			continue
		}
		met, _ := slices.BinarySearch(ends, draw.IntN(r.config.Horizon)+1)
		while, err := path[met].Probabilities(d.Arms)
		if err != nil {
			return fmt.Errorf("%w: decision %d: %w", ErrReplay, i+1, err)
		}
		after, err := last.ProbabilitiesFor(d.Arms, glm.Choice{Unrecorded: true})
		if err != nil {
			return fmt.Errorf("%w: decision %d: %w", ErrReplay, i+1, err)
		}
		for k, p := range [][]float64{while, after} {
			into.scores[k][i], into.played[k][i] = r.judge.Score(i, p), p[d.Arm]
			if math.IsNaN(into.scores[k][i]) {
				return fmt.Errorf("%w: decision %d has no finite score: scale rewards and features", ErrReplay,
					i+1)
			}
		}
	}
	return nil
}

package empirical

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"

	"golang.org/x/sync/errgroup"
)

// blockRuns is how many runs draw from one source, one after another. It does not depend on the number of workers, so
// that the result is a function of the options alone.
const blockRuns = 4000

// worlds is the number of records that the canary reports in turn: its first one, and one for each rival.
const worlds = 1 + rivals

// player plays runs of a game one after another.
type player interface {
	// run draws one run of every world.
	run(src *rand.ChaCha8) error
	// score is what the attack that tells the canary's first record from a rival makes of what the observer sees in a
	// world. It is in deviations of the promised noise, and larger for the first record.
	score(world, rival int) float64
}

// arena plays the runs of one game.
type arena struct {
	o     Options
	enter func() player
}

// source is one of the independent sources that follow from the seed.
func (a arena) source(purpose string, number uint64) *rand.ChaCha8 {
	h := sha256.New()
	h.Write(a.o.Seed[:])
	h.Write(binary.BigEndian.AppendUint64([]byte(purpose), number))
	return rand.NewChaCha8([32]byte(h.Sum(nil)))
}

// play plays all runs: those that choose thresholds, and those that are measured.
func (a arena) play(ctx context.Context) (choosing, measured *tally, err error) {
	halves := [2]*tally{{}, {}}
	half := a.o.Runs / 2
	var mu sync.Mutex
	var done atomic.Int64
	workers, ctx := errgroup.WithContext(ctx)
	workers.SetLimit(a.workers())
	for h, t := range halves {
		for block := 0; block*blockRuns < half; block++ {
			workers.Go(func() error {
				if ctx.Err() != nil {
					return context.Cause(ctx)
				}
				runs := min(blockRuns, half-block*blockRuns)
				part, err := a.block(a.source([]string{"choose", "measure"}[h], uint64(block)), runs)
				if err != nil {
					return err
				}
				mu.Lock()
				t.merge(part)
				mu.Unlock()
				if n := done.Add(int64(runs)); a.o.Progress != nil {
					a.o.Progress(int(n), a.o.Runs)
				}
				return nil
			})
		}
	}
	err = workers.Wait()
	return halves[0], halves[1], err
}

func (a arena) workers() int {
	if a.o.Workers > 0 {
		return a.o.Workers
	}
	return runtime.GOMAXPROCS(0)
}

// block plays so many runs from one source.
func (a arena) block(src *rand.ChaCha8, runs int) (*tally, error) {
	t, p := &tally{runs: runs}, a.enter()
	for range runs {
		if err := p.run(src); err != nil {
			return nil, err
		}
		for rival := range rivals {
			t.duels[rival].canary.add(p.score(0, rival))
			t.duels[rival].other.add(p.score(1+rival, rival))
		}
	}
	return t, nil
}

package shuffle

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/riffle-dp/riffle/internal/worker"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// One, two and four processes send the same messages, each once; what they exchanged has one length in each execution,
// whatever is in it, and is gone when all has left. A retry says the same.
func TestSeveralProcessesMixARelease(t *testing.T) {
	t.Parallel()
	for _, workers := range []int{1, 2, 4} {
		x := newExchange(t, 40, 3, workers)
		slots, err := x.Repeated(t.Context(), x.release)
		if err != nil || len(slots) > 0 {
			t.Fatalf("repeated: %v, %v", slots, err)
		}
		lengths := map[string]map[int]int{}
		for name, b := range x.segments {
			execution := name[:32]
			if lengths[execution] == nil {
				lengths[execution] = map[int]int{}
			}
			lengths[execution][len(b)]++
		}
		for _, l := range lengths {
			if len(l) != 1 {
				t.Errorf("segments of one execution have lengths %v", l)
			}
		}
		m, err := x.leave()
		x.must(err)
		x.whole(m)
		if len(x.segments) != 0 {
			t.Errorf("%d segments are left", len(x.segments))
		}
		x.begin(4, 3)
		again := new(wire.Manifest)
		_, err = x.Release(t.Context(), x.release, again)
		x.must(err)
		if !bytes.Equal(again.ChunksDigest, m.ChunksDigest) || !bytes.Equal(again.MessagesRoot, m.MessagesRoot) {
			t.Error("a retry says something else")
		}
		x.must(x.Forget(1, 0))
	}
}

var errDied = errors.New("died")

// Lead and workers may die at every step, again and again: what is behind the barrier goes on from what has left, and
// what is before it is drawn anew. No chunk that left is ever replaced.
func TestAnyProcessMayDieAtAnyStep(t *testing.T) {
	t.Parallel()
	steps := newExchange(t, 12, 2, 2)
	_, err := steps.leave()
	steps.must(err)
	for at := 1; at <= steps.steps; at++ {
		x := newExchange(t, 12, 2, 2)
		died := ""
		x.fails = func(step int, what string) error {
			if step == at || died != "" { // everything that it still does fails as well
				died = what
				return errDied
			}
			return nil
		}
		_, err := x.leave()
		left := map[uint32][]byte{}
		for i, b := range x.chunks {
			left[i] = b
		}
		if err == nil {
			t.Fatalf("step %d: %v", at, died)
		}
		x.fails = nil
		x.begin(3, 4) // the next process would draw another number of buckets
		m := new(wire.Manifest)
		if _, err = x.Release(t.Context(), x.release, m); err != nil {
			t.Fatalf("after %s failed at step %d: %v", died, at, err)
		}
		x.whole(m)
		for i, b := range left {
			if !bytes.Equal(x.chunks[i], b) {
				t.Errorf("after %s failed at step %d: chunk %d left twice", died, at, i)
			}
		}
	}
}

// twice is a pool that has every task done by two workers at the same time, and uses either result.
type twice struct {
	worker.Pool
	n atomic.Uint64
}

func (p *twice) Do(ctx context.Context, t worker.Task) ([]byte, error) {
	var results [2][]byte
	var errs [2]error
	var both sync.WaitGroup
	for i := range results {
		both.Go(func() { results[i], errs[i] = p.Pool.Do(ctx, t) })
	}
	both.Wait()
	return results[p.n.Add(1)%2], errors.Join(errs[:]...)
}

// A task that two workers do at the same time, because one was thought to be dead, leaves every message once.
func TestTasksThatAreDoneTwiceLeaveOnce(t *testing.T) {
	t.Parallel()
	for range 20 {
		x := newExchange(t, 20, 3, 8)
		x.Exchange.Pool = &twice{Pool: x.Exchange.Pool}
		m, err := x.leave()
		x.must(err)
		x.whole(m)
	}
}

// Over the whole path with one bucket and with three, parts of two members, chunks of two messages, and with a worker
// that dies behind its first chunk, so that another one goes on from it, every order of six messages is as likely as
// every other: 3600 releases over 720 orders, twice. The chi-square with 719 degrees of freedom passes 935 with a
// probability below 1e-6 (Wilson and Hilferty). It finds what it must: with any of the plants below it passes 1100.
func TestTheOrderOfAnExchangeIsUniform(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("nothing of it runs at the same time as anything else")
	}
	for _, buckets := range []uint32{1, 3} {
		all := orders(t, buckets)
		if chi := uniform(all); chi > 935 {
			t.Errorf("%d buckets: chi-square %.0f over 720 orders", buckets, chi)
		}
		checkBadOrdersAreCaught(t, all)
	}
}

func checkBadOrdersAreCaught(t *testing.T, all [][6]int) {
	t.Helper()
	for what, plant := range map[string]func([]int){
		"messages of one person stay together": func(o []int) {
			i, j := slices.Index(o, 0), slices.Index(o, 1)
			if d := i - j; d < -3 || d > 3 {
				o[(j+1)%6], o[i] = o[i], o[(j+1)%6]
			}
		},
		"what follows the chunk that was stored is in order": func(o []int) { slices.Sort(o[2:4]) },
		"the smaller of the first two leaves first": func(o []int) {
			if o[0] > o[1] {
				o[0], o[1] = o[1], o[0]
			}
		},
	} {
		planted := make([][6]int, len(all))
		for i, o := range all {
			plant(o[:])
			planted[i] = o
		}
		if chi := uniform(planted); chi < 1100 {
			t.Errorf("%s: chi-square %.0f: not found", what, chi)
		}
	}
}

// orders are those in which the messages of many releases left.
func orders(t *testing.T, buckets uint32) (all [][6]int) {
	const releases = 3600
	x := newExchange(t, 3, 2, 1)
	x.begin(buckets, 2)
	x.Mixing.Chunk = 2
	for range releases {
		clear(x.chunks)
		_, err := x.Repeated(t.Context(), x.release)
		x.must(err)
		died := false
		x.fails = func(_ int, what string) error {
			if what == "chunk" && !died {
				died = true
				return errDied
			}
			return nil
		}
		m := new(wire.Manifest)
		if _, err := x.Release(t.Context(), x.release, m); !died || !errors.Is(err, errDied) {
			t.Fatal(err)
		}
		_, err = x.Release(t.Context(), x.release, m)
		x.must(err)
		all = append(all, [6]int(x.order()))
		x.must(x.Forget(1, 0))
	}
	return all
}

// uniform is the chi-square of orders of six over all that there are.
func uniform(all [][6]int) (chi float64) {
	seen := map[[6]int]int{}
	for _, o := range all {
		seen[o]++
	}
	mean := float64(len(all)) / 720
	for _, n := range seen {
		chi += (float64(n) - mean) * (float64(n) - mean) / mean
	}
	return chi + float64(720-len(seen))*mean
}

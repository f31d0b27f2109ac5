package shuffle

import (
	"bytes"
	"context"
	"errors"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/rs/zerolog"

	"github.com/riffle-dp/riffle/internal/channel/chunks"
	"github.com/riffle-dp/riffle/internal/testing/testbed"
	"github.com/riffle-dp/riffle/internal/worker"
	"github.com/riffle-dp/riffle/pkg/seal"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// pool is a number of workers of which each does what the test says with a task.
type pool struct {
	workers []worker.Pool
	do      doing
	next    atomic.Int64
	tasks   atomic.Int64
}

// doing is what becomes of a task that a worker has.
type doing func(ctx context.Context, t worker.Task, of worker.Pool) ([]byte, error)

func (p *pool) Do(ctx context.Context, t worker.Task) ([]byte, error) {
	p.tasks.Add(1)
	return p.do(ctx, t, p.pick())
}

func (p *pool) pick() worker.Pool { return p.workers[int(p.next.Add(1))%len(p.workers)] }

func (p *pool) Workers() int { return len(p.workers) }

// crew is this number of workers that hold the round's key and read what the table stores.
func (x *table) crew(workers int) *pool {
	p := &pool{do: func(ctx context.Context, t worker.Task, of worker.Pool) ([]byte, error) { return of.Do(ctx, t) }}
	for range workers {
		p.workers = append(p.workers, worker.Inside(2, worker.Handlers{
			TaskCount: CountHandler(&x.stored, []*seal.HPKEKey{x.round.Key}),
		}))
	}
	return p
}

// Any number of workers counts what one process counts, whether chunks arrive or came to an earlier process, and every
// chunk once: also where a worker dies in each task and another one does it again, and where all tasks are done twice.
func TestWorkersCountWhatOneProcessCounts(t *testing.T) {
	t.Parallel()
	again := func(ctx context.Context, t worker.Task, of worker.Pool) ([]byte, error) { return of.Do(ctx, t) }
	for _, workers := range []int{1, 2, 4} {
		for name, do := range map[string]func(*pool) doing{
			"as they should": func(*pool) doing { return again },
			"each task by one that dies after it, and by another": func(p *pool) doing {
				return func(ctx context.Context, t worker.Task, of worker.Pool) ([]byte, error) {
					dying, cancel := context.WithCancel(ctx)
					cancel()
					_, _ = of.Do(dying, t)
					return p.pick().Do(ctx, t)
				}
			},
			"each task twice at the same time": func(p *pool) doing {
				return func(ctx context.Context, t worker.Task, of worker.Pool) ([]byte, error) {
					var other sync.WaitGroup
					other.Go(func() { _, _ = p.pick().Do(ctx, t) })
					defer other.Wait()
					return of.Do(ctx, t)
				}
			},
		} {
			for _, arriving := range []int{0, 1, people} {
				x := newTable(t)
				p := x.crew(workers)
				p.do = do(p)
				x.Pool = p
				parts, m := x.cut(x.reports())
				x.stored = parts
				counts, err := x.count(m, func() {
					x.take(parts[:arriving]...)
					x.take(parts[:arriving]...)
				})
				if want := []uint64{people * 4, people * 5}; err != nil || !reflect.DeepEqual(counts[0].Ones, want) {
					t.Errorf("%d workers, %s, %d arrive: %v, %v", workers, name, arriving, counts, err)
				}
				if n := p.tasks.Load(); n != int64(len(parts)) {
					t.Errorf("%d workers, %s, %d arrive: %d tasks for %d chunks",
						workers, name, arriving, n, len(parts))
				}
			}
		}
	}
}

// What no worker could do, and an answer that is malformed, about other bytes, or adds up to other than the chunk's
// messages, is said by name and changes nothing: the chunk is counted here. A worker with the keys of earlier epochs
// says so.
func TestAWrongAnswerCountsNowhere(t *testing.T) {
	t.Parallel()
	stale, err := seal.GenerateHPKE()
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		change func(x *table, body, result []byte) ([]byte, error)
		says   string
	}{
		"failed": {
			func(_ *table, _, _ []byte) ([]byte, error) { return nil, worker.ErrFailed }, worker.ErrFailed.Error(),
		},
		"of another version": {
			func(_ *table, _, _ []byte) ([]byte, error) { return nil, worker.ErrKind }, worker.ErrKind.Error(),
		},
		"empty":  {func(_ *table, _, _ []byte) ([]byte, error) { return nil, nil }, chunks.ErrAnswer.Error()},
		"no sum": {func(_ *table, _, r []byte) ([]byte, error) { return r[:32], nil }, chunks.ErrAnswer.Error()},
		"longer": {
			func(_ *table, _, r []byte) ([]byte, error) { return append(r, 0), nil }, chunks.ErrAnswer.Error(),
		},
		"fewer messages": {func(_ *table, _, r []byte) ([]byte, error) {
			r[35]--
			r[47]--
			r[51]--
			return r, nil
		}, chunks.ErrAnswer.Error()},
		"messages that are counted nowhere": {func(_ *table, _, r []byte) ([]byte, error) {
			r[47]--
			r[51]--
			return r, nil
		}, chunks.ErrAnswer.Error()},
		"more ones than messages": {func(_ *table, _, r []byte) ([]byte, error) {
			r[51]++
			return r, nil
		}, chunks.ErrAnswer.Error()},
		"about other bytes": {func(_ *table, _, r []byte) ([]byte, error) {
			r[0] ^= 1
			return r, nil
		}, chunks.ErrOtherChunk.Error()},
		"with another key": {func(x *table, body, _ []byte) ([]byte, error) {
			handler := CountHandler(&x.stored, []*seal.HPKEKey{stale})
			return handler(context.Background(), body)
		}, "does not hold the HPKE key of epoch 1"},
	} {
		x := newTable(t)
		var log bytes.Buffer
		x.Log = zerolog.New(zerolog.SyncWriter(&log))
		p := x.crew(2)
		p.do = func(ctx context.Context, t worker.Task, of worker.Pool) ([]byte, error) {
			result, err := of.Do(ctx, t)
			if err != nil {
				return nil, err
			}
			return c.change(x, t.Body, result)
		}
		x.Pool = p
		parts, m := x.cut(x.reports())
		x.stored = parts
		counts, err := x.count(m, func() { x.take(parts...) })
		if want := []uint64{people * 4, people * 5}; err != nil || !reflect.DeepEqual(counts[0].Ones, want) {
			t.Errorf("%s: %v, %v", name, counts, err)
		}
		if n := strings.Count(log.String(), c.says); n != len(parts) {
			t.Errorf("%s: the log has %q %d times, want %d: %s", name, c.says, n, len(parts), &log)
		}
	}
}

// A worker reads a chunk by its name: what is not there, or another round's, is an error that says so, and no count.
func TestAWorkerCountsOnlyWhatTheTaskNames(t *testing.T) {
	t.Parallel()
	x := newTable(t)
	var body []byte
	p := x.crew(1)
	p.do = func(_ context.Context, t worker.Task, _ worker.Pool) ([]byte, error) {
		body = t.Body
		return nil, worker.ErrFailed
	}
	x.Pool = p
	parts, m := x.cut(x.report())
	x.round.Cohort.Minimum, m.Reports = 1, 1
	if _, err := x.count(m, func() { x.take(parts...) }); err != nil {
		t.Fatal(err)
	}
	handler := CountHandler(&x.stored, []*seal.HPKEKey{x.round.Key})
	for name, stored := range map[string]testbed.Chunks{
		"nothing": nil, "another index": {x.chunk(1, x.report())}, "no chunk": {[]byte("chunk")},
		"half a message": {x.chunk(0, x.report()[1:])},
	} {
		x.stored = stored
		if found, err := handler(t.Context(), body); err == nil {
			t.Errorf("%s: %x", name, found)
		}
	}
	for name, stored := range map[string]always{
		"another index": x.chunk(1, x.report()), "another round": x.chunk(0, x.report()),
	} {
		if name == "another round" {
			var err error
			if stored, err = wire.BuildChunk(wire.Chunk{Epoch: 1, Round: 1, Payload: x.report()}); err != nil {
				t.Fatal(err)
			}
		}
		if found, err := CountHandler(stored, []*seal.HPKEKey{x.round.Key})(t.Context(), body); err == nil {
			t.Errorf("%s: %x", name, found)
		}
	}
	x.stored = parts
	for _, malformed := range []string{"{}", "chunk"} {
		if found, err := handler(t.Context(), []byte(malformed)); err == nil {
			t.Errorf("%s: %x", malformed, found)
		}
	}
	if found, err := handler(t.Context(), body); err != nil || len(found) < 32 {
		t.Errorf("%x, %v", found, err)
	}
}

// always is a broker that has this chunk under every name.
type always []byte

func (a always) ReadChunk(context.Context, uint64, uint32, uint32) ([]byte, error) { return a, nil }

// A round that ends while chunks are out waits for nobody.
func TestARoundEndsWhileWorkersWork(t *testing.T) {
	t.Parallel()
	x := newTable(t)
	p := x.crew(1)
	p.do = func(ctx context.Context, _ worker.Task, _ worker.Pool) ([]byte, error) {
		<-ctx.Done()
		return nil, context.Cause(ctx)
	}
	x.Pool = p
	parts, m := x.cut(x.reports())
	x.stored = parts
	ended := errors.New("the analyzer stops")
	ctx, cancel := context.WithCancelCause(t.Context())
	_, err := x.Count(ctx, x.round, manifestAfter(m, func() {
		x.take(parts...)
		cancel(ended)
	}))
	if !errors.Is(err, ended) {
		t.Error(err)
	}
}

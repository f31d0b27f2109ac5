package shares

import (
	"bytes"
	"context"
	"encoding/binary"
	"strings"
	"sync"
	"testing"

	"github.com/rs/zerolog"

	"github.com/riffle-dp/riffle/internal/testing/testbed"
	"github.com/riffle-dp/riffle/internal/worker"
	devices "github.com/riffle-dp/riffle/pkg/channel"
	"github.com/riffle-dp/riffle/pkg/channel/shares"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/seal"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// helpers is a pool of some workers, of which do says what comes of a task.
type helpers struct {
	workers int
	inside  worker.Pool
	do      func(ctx context.Context, t worker.Task, of worker.Pool) ([]byte, error)

	mu    sync.Mutex
	tasks []worker.Task
}

func (h *helpers) Workers() int { return h.workers }

func (h *helpers) Do(ctx context.Context, t worker.Task) ([]byte, error) {
	h.mu.Lock()
	h.tasks = append(h.tasks, t)
	h.mu.Unlock()
	return h.do(ctx, t, h.inside)
}

func plainly(ctx context.Context, t worker.Task, of worker.Pool) ([]byte, error) {
	return of.Do(ctx, t)
}

// crew gives each server of a scene this number of workers.
func (s *scene) crew(
	workers int, do func(context.Context, worker.Task, worker.Pool) ([]byte, error),
) (mix, count *helpers) {
	verifier := devices.NewVerifier(wire.Party{Deployment: testbed.Deployment, Key: s.Registrar.Public()})
	mix = &helpers{workers: workers, do: do, inside: worker.Inside(workers, worker.Handlers{
		TaskPrepare: PrepareHandler(),
	})}
	count = &helpers{workers: workers, do: do, inside: worker.Inside(workers, worker.Handlers{
		TaskVerify: VerifyHandler([]*seal.HPKEKey{s.AnalyzerKey}, verifier),
	})}
	s.mixing = func(m *Mixing) { m.Pool = mix }
	s.counting = func(c *Counting) { c.Pool = count }
	return mix, count
}

// Any number of workers on both sides gives the sums that one process gives, with the same reports refused for the same
// reasons: also where each task is done by a worker that dies and then by another, and where each is done twice.
func TestWorkersPrepareWhatOneProcessPrepares(t *testing.T) {
	t.Parallel()
	d := newDeployment(t)
	twice := func(ctx context.Context, t worker.Task, of worker.Pool) ([]byte, error) {
		var both sync.WaitGroup
		both.Go(func() { _, _ = of.Do(ctx, t) })
		defer both.Wait()
		return of.Do(ctx, t)
	}
	dying := func(ctx context.Context, t worker.Task, of worker.Pool) ([]byte, error) {
		gone, cancel := context.WithCancel(ctx)
		cancel()
		_, _ = of.Do(gone, t)
		return of.Do(ctx, t)
	}
	for _, do := range []func(context.Context, worker.Task, worker.Pool) ([]byte, error){plainly, twice, dying} {
		for _, workers := range []int{1, 2, 4} {
			s := d.newScene(size, func(a *plan.Announcement) { a.Cohort.Size += 2 })
			s.add(size, s.sender(size), false)
			s.payloads[size][len(s.payloads[size])-1] ^= 1 // its proof of participation is no one's
			// a device that is there already: the lead knows, and no worker
			s.add(size+1, s.sender(0), false)
			mix, count := s.crew(workers, do)
			counts := s.released(s.run(), map[uint32]wire.Refusal{
				size: wire.RefusalUndecryptable, size + 1: wire.RefusalDuplicate,
			})
			s.exact(counts)
			if t.Failed() {
				t.Fatalf("%d workers", workers)
			}
			if len(mix.tasks) < 3 || len(count.tasks) < 3 {
				t.Errorf("%d workers: %d and %d tasks", workers, len(mix.tasks), len(count.tasks))
			}
			secret := shares.NewSecret(s.Shuffler, s.first)
			for _, one := range mix.tasks {
				first, err := mix.inside.Do(t.Context(), one)
				d.must(err)
				again, err := mix.inside.Do(t.Context(), one)
				if err != nil || !bytes.Equal(first, again) {
					t.Errorf("a task has two results: %v", err)
				}
				_, round, same, payloads, err := openTask(one.Body, (*shares.Round).PayloadSize)
				if err != nil || same != secret || len(payloads) == 0 || len(first) < 1+round.PrepareMessageSize() {
					t.Errorf("%d payloads, %v", len(payloads), err)
				}
			}
		}
	}
}

// What workers cannot do, and answers that are malformed or about other reports, are said in the log and change
// nothing.
func TestAnswersThatAreNoResultChangeNothing(t *testing.T) {
	t.Parallel()
	d := newDeployment(t)
	stale, err := seal.GenerateHPKE()
	d.must(err)
	var last sync.Map
	for name, do := range map[string]func(context.Context, worker.Task, worker.Pool) ([]byte, error){
		"of another version": func(context.Context, worker.Task, worker.Pool) ([]byte, error) {
			return nil, worker.ErrKind
		},
		"shorter": func(ctx context.Context, t worker.Task, of worker.Pool) ([]byte, error) {
			b, err := of.Do(ctx, t)
			return b[:max(1, len(b))-1], err
		},
		"longer": func(ctx context.Context, t worker.Task, of worker.Pool) ([]byte, error) {
			b, err := of.Do(ctx, t)
			return append(b, byte(wire.RefusalMalformed)), err
		},
		"an unknown refusal": func(ctx context.Context, t worker.Task, of worker.Pool) ([]byte, error) {
			b, err := of.Do(ctx, t)
			b[0] = 255
			return b, err
		},
		"one that is nothing but an unknown refusal": func(context.Context, worker.Task, worker.Pool) ([]byte, error) {
			return []byte{255}, nil // tasks of a scene have one report each
		},
		"about the reports of another task": func(ctx context.Context, t worker.Task, of worker.Pool) ([]byte, error) {
			b, err := of.Do(ctx, t)
			if other, ok := last.Swap(t.Kind, b); ok && err == nil {
				return other.([]byte), nil
			}
			return nil, worker.ErrFailed
		},
		"a share that is out of range": func(ctx context.Context, t worker.Task, of worker.Pool) ([]byte, error) {
			b, err := of.Do(ctx, t)
			at := len(b) - 16
			if t.Kind == TaskPrepare {
				at -= shares.AnswerSize
			}
			for i := range 16 {
				b[at+i] = 255
			}
			return b, err
		},
		"with another key": func(ctx context.Context, t worker.Task, of worker.Pool) ([]byte, error) {
			if t.Kind == TaskPrepare {
				return nil, worker.ErrFailed
			}
			return VerifyHandler([]*seal.HPKEKey{stale}, nil)(ctx, t.Body)
		},
	} {
		s := d.newScene(size)
		mix, count := s.crew(2, do)
		var log bytes.Buffer
		to := zerolog.New(zerolog.SyncWriter(&log))
		s.mixing = func(m *Mixing) { m.Pool, m.Log = mix, to }
		s.counting = func(c *Counting) { c.Pool, c.Log = count, to }
		s.exact(s.released(s.run(), nil))
		if n := strings.Count(log.String(), "a worker did not work on reports"); n != len(mix.tasks)+len(count.tasks) {
			t.Errorf("%s: the log speaks of %d of %d tasks: %s", name, n, len(mix.tasks)+len(count.tasks), &log)
		}
		if t.Failed() {
			t.Fatal(name)
		}
	}
}

// A task that is none is refused by both handlers.
func TestMalformedTasksAreRefused(t *testing.T) {
	t.Parallel()
	d := newDeployment(t)
	s := d.newScene(size)
	mix, count := s.crew(1, plainly)
	s.released(s.run(), nil)
	for _, c := range []struct {
		handler worker.Handler
		body    []byte
	}{
		{PrepareHandler(), mix.tasks[0].Body},
		{VerifyHandler([]*seal.HPKEKey{s.AnalyzerKey}, nil), count.tasks[0].Body},
	} {
		long := binary.BigEndian.AppendUint32(nil, 1<<31)
		for _, body := range [][]byte{
			nil, c.body[:3], c.body[:100], c.body[:len(c.body)-1], append(long, c.body[4:]...),
		} {
			if b, err := c.handler(t.Context(), body); err == nil {
				t.Errorf("a task of %d bytes gives %d bytes", len(body), len(b))
			}
		}
	}
}

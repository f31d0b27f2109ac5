package worker_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/riffle-dp/riffle/internal/broker"
	"github.com/riffle-dp/riffle/internal/bus"
	"github.com/riffle-dp/riffle/internal/testing/testbed"
	"github.com/riffle-dp/riffle/internal/worker"
)

// crew is a broker on which no task comes to another worker because the machine is busy.
func crew(t *testing.T) *testbed.Bed { return crewOf(t, 5*time.Second) }

// crewOf is a broker on which a silent worker's task comes to another after a while.
func crewOf(t *testing.T, after time.Duration) *testbed.Bed {
	return testbed.New(t, func(_ *broker.Options, p *bus.ProvisionOptions) { p.TaskWait = after })
}

func sealer(t *testing.T, role bus.Role, secrets ...string) *worker.Sealer {
	t.Helper()
	var all [][]byte
	for _, s := range secrets {
		all = append(all, []byte(s))
	}
	b, err := worker.NewSealer(role, all)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// config is a process of the shuffler.
func config(t *testing.T, b *testbed.Bed) worker.Config {
	return configOver(t, b.Connect(bus.Shuffler))
}

func configOver(t *testing.T, conn *bus.Conn) worker.Config {
	return worker.Config{Tasks: conn.Tasks, Lead: conn.Lead, Sealer: sealer(t, bus.Shuffler, "the shuffler's HPKE key"),
		Log: testbed.Log(), Metrics: prometheus.NewRegistry()}
}

// run keeps something running until the test ends, or until stop is called, which waits for it.
func run(t *testing.T, f func(context.Context) error) (stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- f(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) && !errors.Is(err, bus.ErrClosed) {
			t.Errorf("it ended with %v", err)
		}
	})
	t.Cleanup(stop)
	return stop
}

func lead(t *testing.T, c worker.Config) *worker.Lead {
	l := worker.NewLead(c)
	run(t, l.Run)
	return l
}

func echo(_ context.Context, body []byte) ([]byte, error) {
	return append([]byte("did "), body...), nil
}

func expect(t *testing.T, p worker.Pool, body, want string) {
	t.Helper()
	got, err := p.Do(t.Context(), worker.Task{Kind: "work", Body: []byte(body)})
	if err != nil || string(got) != want {
		t.Errorf("%q, %v", got, err)
	}
}

// Four workers share the tasks of a lead that does none, and their failures are told apart.
func TestWorkersShareTheTasks(t *testing.T) {
	b := crew(t)
	l := lead(t, config(t, b))
	var by [4]atomic.Int32
	var busy sync.WaitGroup // until each of them has a task at the same time
	busy.Add(len(by))
	for i := range by {
		run(t, func(ctx context.Context) error {
			return worker.Serve(ctx, config(t, b), worker.Handlers{
				"work": func(ctx context.Context, body []byte) ([]byte, error) {
					if by[i].Add(1) == 1 {
						busy.Done()
					}
					busy.Wait()
					return echo(ctx, body)
				},
				"fail": func(context.Context, []byte) ([]byte, error) { return nil, errors.New("no such release") },
			})
		})
	}
	testbed.Eventually(t, "four workers are heard of", func() bool { return l.Workers() == 4 && l.Places() == 4 })
	var all sync.WaitGroup
	for n := range 200 {
		all.Go(func() { expect(t, l, fmt.Sprint(n), fmt.Sprint("did ", n)) })
	}
	all.Wait()
	total := int32(0)
	for i := range by {
		total += by[i].Load()
	}
	if total != 200 {
		t.Errorf("200 tasks were done %d times", total)
	}
	_, err := l.Do(t.Context(), worker.Task{Kind: "fail"})
	if !errors.Is(err, worker.ErrFailed) || err.Error() != "worker: the task failed: fail: no such release" {
		t.Errorf("%v", err)
	}
	testbed.Eventually(t, "four workers are heard of", func() bool { return l.Workers() == 4 && l.Places() == 4 })
	if err := l.Ready(); err != nil {
		t.Error(err)
	}
}

// A worker that is cut off in the middle of a task loses it to another one; one that is stopped gives it back.
func TestAnotherWorkerDoesTheTaskOfADeadOne(t *testing.T) {
	for name, end := range map[string]func(c *bus.Conn, stop func()){
		"cut off": func(c *bus.Conn, stop func()) { c.Close(); stop() },
		"stopped": func(_ *bus.Conn, stop func()) { stop() },
	} {
		t.Run(name, func(t *testing.T) {
			b := crewOf(t, time.Second)
			l := lead(t, config(t, b))
			began, conn := make(chan struct{}), b.Connect(bus.Shuffler)
			stop := run(t, func(ctx context.Context) error {
				return worker.Serve(ctx, configOver(t, conn), worker.Handlers{
					"work": func(ctx context.Context, _ []byte) ([]byte, error) {
						close(began)
						<-ctx.Done()
						return nil, ctx.Err()
					}})
			})
			done := make(chan struct{})
			go func() { defer close(done); expect(t, l, "a", "did a") }()
			<-began
			end(conn, stop)
			run(t, func(ctx context.Context) error {
				return worker.Serve(ctx, config(t, b), worker.Handlers{"work": echo})
			})
			select {
			case <-done:
			case <-time.After(testbed.Patience):
				t.Fatal("nobody did the dead worker's task")
			}
		})
	}
}

// Without workers, a lead that has places does its tasks itself, and asks itself.
func TestALeadWorksAlone(t *testing.T) {
	b := crew(t)
	c := config(t, b)
	c.Inside, c.Handlers = 2, worker.Handlers{"work": echo}
	l := lead(t, c)
	l.Answer("question", echo)
	var all sync.WaitGroup
	for n := range 20 {
		all.Go(func() { expect(t, l, fmt.Sprint(n), fmt.Sprint("did ", n)) })
	}
	all.Wait()
	if got, err := l.Ask(t.Context(), "question", []byte("q")); err != nil || string(got) != "did q" {
		t.Errorf("%q, %v", got, err)
	}
	for kind, want := range map[string]error{"unheard": worker.ErrKind, "work": worker.ErrTooLarge} {
		if _, err := l.Do(t.Context(), worker.Task{Kind: kind, Body: make([]byte, worker.MaxBody+1)}); !errors.Is(err,
			want) {
			t.Errorf("%s: %v", kind, err)
		}
	}
	if l.Workers() != 1 || l.Places() != 2 || l.Ready() == nil {
		t.Errorf("%d workers, %d places, %v", l.Workers(), l.Places(), l.Ready())
	}
}

// A worker's questions are answered by the lead that there is, also after it was started anew, and what an earlier lead
// left is not done.
func TestALeadThatIsStartedAnew(t *testing.T) {
	b := crew(t)
	first := worker.NewLead(config(t, b))
	first.Answer("who", func(context.Context, []byte) ([]byte, error) { return []byte("first"), nil })
	stop := run(t, first.Run)
	var did atomic.Int32
	w := worker.NewWorker(config(t, b))
	begun, release := make(chan struct{}, 9), make(chan struct{})
	run(t, func(ctx context.Context) error {
		return w.Serve(ctx, worker.Handlers{"work": func(ctx context.Context, body []byte) ([]byte, error) {
			did.Add(1)
			begun <- struct{}{}
			<-release
			return echo(ctx, body)
		}})
	})
	ask := func(want string) {
		t.Helper()
		if got, err := w.Ask(t.Context(), "who", nil); err != nil || string(got) != want {
			t.Errorf("%q, %v", got, err)
		}
	}
	ask("first")
	if _, err := w.Ask(t.Context(), "unheard", nil); !errors.Is(err, worker.ErrKind) {
		t.Errorf("%v", err)
	}
	ctx, abandon := context.WithCancel(t.Context())
	go first.Do(ctx, worker.Task{Kind: "work", Body: []byte("old")})
	go first.Do(ctx, worker.Task{Kind: "work", Body: []byte("old")})
	<-begun
	abandon()
	stop()
	second := worker.NewLead(config(t, b))
	second.Answer("who", func(context.Context, []byte) ([]byte, error) { return []byte("second"), nil })
	run(t, second.Run)
	ask("second")
	close(release)
	expect(t, second, "new", "did new")
	if did.Load() != 2 {
		t.Errorf("%d tasks were done: the first of the old lead and the new lead's are 2", did.Load())
	}
}

// What is not sealed by a process of the role for its place is refused: another key, another place, a changed byte.
func TestASealerRefusesWhatIsNotItsOwn(t *testing.T) {
	t.Parallel()
	b, old := sealer(t, bus.Shuffler, "new", "old"), sealer(t, bus.Shuffler, "old")
	sealed := b.Seal(nil, "segment 1", []byte("body"))
	if len(sealed) != 4+worker.SealOverhead {
		t.Errorf("%d bytes", len(sealed))
	}
	if p, err := b.Open("segment 1", sealed); err != nil || string(p) != "body" {
		t.Errorf("%q, %v", p, err)
	}
	if p, err := b.Open("x", old.Seal(nil, "x", []byte("body"))); err != nil || string(p) != "body" {
		t.Errorf("the older key: %q, %v", p, err)
	}
	if _, err := old.Open("segment 1", sealed); !errors.Is(err, worker.ErrKey) {
		t.Errorf("a key that it does not have: %v", err)
	}
	if _, err := sealer(t, bus.Analyzer, "new").Open("segment 1", sealed); !errors.Is(err, worker.ErrKey) {
		t.Errorf("another role: %v", err)
	}
	if _, err := b.Open("segment 2", sealed); !errors.Is(err, worker.ErrSealed) {
		t.Errorf("another place: %v", err)
	}
	for i := range sealed {
		sealed[i] ^= 1
		if _, err := b.Open("segment 1", sealed); err == nil {
			t.Errorf("byte %d was changed", i)
		}
		sealed[i] ^= 1
	}
	if _, err := worker.NewSealer(bus.Shuffler, nil); err == nil {
		t.Error("a sealer without a key")
	}
}

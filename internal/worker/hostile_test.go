package worker_test

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/riffle-dp/riffle/internal/broker"
	"github.com/riffle-dp/riffle/internal/bus"
	"github.com/riffle-dp/riffle/internal/testing/testbed"
	"github.com/riffle-dp/riffle/internal/worker"
)

// thief is in the broker's place: it takes letters to the lead in the lead's place and answers none of them.
type thief struct {
	letters chan []byte // those that it took
	stop    func()
}

func steal(t *testing.T, c *bus.Conn) *thief {
	s := &thief{letters: make(chan []byte, 1000)}
	s.stop = run(t, func(ctx context.Context) error {
		return c.Lead.ServeLead(ctx, 1, func(_ context.Context, letter []byte) []byte {
			s.letters <- letter
			return nil
		})
	})
	return s
}

// took waits for a letter with these words in its head.
func (s *thief) took(t *testing.T, words string) []byte {
	t.Helper()
	for {
		select {
		case letter := <-s.letters:
			if bytes.Contains(letter[:min(len(letter), 60)], []byte(words)) {
				return letter
			}
		case <-time.After(testbed.Patience):
			t.Fatalf("no letter %s was sent", words)
		}
	}
}

// counted is how many tasks had the outcome at a process.
func counted(t *testing.T, c worker.Config, outcome string) (n int) {
	t.Helper()
	families, err := c.Metrics.(*prometheus.Registry).Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			for _, l := range m.GetLabel() {
				if f.GetName() == "riffle_worker_tasks_total" && l.GetName() == "outcome" && l.GetValue() == outcome {
					n = int(m.GetCounter().GetValue())
				}
			}
		}
	}
	return n
}

// unanswered says a letter to whoever leads, and expects silence until the lead has refused this many letters.
func unanswered(t *testing.T, c *bus.Conn, letter []byte, lead worker.Config, refused int) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	over := make(chan error, 1)
	go func() {
		_, err := c.Lead.AskLead(ctx, letter)
		over <- err
	}()
	testbed.Eventually(t, "refused by the lead", func() bool { return counted(t, lead, "refused") >= refused })
	time.Sleep(100 * time.Millisecond) // an answer would take a few
	cancel()
	if err := <-over; !errors.Is(err, bus.ErrUnknown) {
		t.Errorf("it was answered: %v", err)
	}
}

// A result that is lost on the way is sent again. One that was altered, or that is under another letter's head, is
// not used, and one that comes twice is used once.
func TestResultsThatAreLostAlteredOrRepeated(t *testing.T) {
	t.Parallel()
	b := crew(t)
	lc, wc, broker := config(t, b), config(t, b), b.Connect(bus.Shuffler)
	l := lead(t, lc)
	began, finish := make(chan struct{}), make(chan struct{})
	run(t, func(ctx context.Context) error {
		return worker.Serve(ctx, wc, worker.Handlers{"work": func(ctx context.Context, body []byte) ([]byte, error) {
			began <- struct{}{}
			<-finish
			return echo(ctx, body)
		}})
	})
	done := make(chan struct{})
	go func() { defer close(done); expect(t, l, "a", "did a") }()
	<-began
	var stolen []byte
	for stolen == nil { // the broker gives each letter to the lead or to the thief, by chance
		s := steal(t, broker)
		finish <- struct{}{}
		select {
		case <-done: // the lead got it: try with another task
			s.stop()
			done = make(chan struct{})
			go func() { defer close(done); expect(t, l, "a", "did a") }()
			<-began
		case letter := <-s.letters:
			for !bytes.Contains(letter[:60], []byte(".done")) {
				letter = s.took(t, ".")
			}
			stolen = letter
			s.stop()
		}
	}
	for i, at := range []int{1, 20, 40, len(stolen) - 1} { // incarnation, id, kind, body
		altered := bytes.Clone(stolen)
		altered[at] ^= 1
		unanswered(t, broker, altered, lc, i+1)
	}
	unanswered(t, broker, nil, lc, 5)
	<-done // the worker sent its result again
	// A slow machine makes the worker repeat its result once more, so that more than this one may be unwanted.
	used, unwanted := counted(t, lc, "done"), counted(t, lc, "unwanted")
	if _, err := broker.Lead.AskLead(t.Context(), stolen); err != nil {
		t.Error(err)
	}
	if n, more := counted(t, lc, "done"), counted(t, lc, "unwanted"); n != used || more <= unwanted {
		t.Errorf("a repeated result was used: %d results of %d tasks, %d unwanted in place of more than %d",
			n, used, more, unwanted)
	}
}

// A task that the broker stores again when it is done is not done again, nor is one that was altered, nor one of an
// earlier lead.
func TestTasksThatAreReplayed(t *testing.T) {
	t.Parallel()
	b := testbed.New(t, func(_ *broker.Options, p *bus.ProvisionOptions) {
		p.TaskWait, p.DedupWindow = 5*time.Second, 100*time.Millisecond
	})
	first := worker.NewLead(config(t, b))
	stop := run(t, first.Run)
	conn := b.Connect(bus.Shuffler)
	seen := make(chan []byte, 1)
	halt := run(t, func(ctx context.Context) error { // it looks at the task and puts it back
		return conn.Tasks.ReceiveTasks(ctx, 1,
			func(task *bus.Task) {
				select {
				case seen <- task.Payload:
				default: // it comes again before a busy machine has stopped this
				}
				_ = task.Return(time.Second)
			})
	})
	done := make(chan struct{})
	go func() { defer close(done); expect(t, first, "a", "did a") }()
	task := <-seen
	halt()
	var did atomic.Int32
	wc := config(t, b)
	run(t, func(ctx context.Context) error {
		return worker.Serve(ctx, wc, worker.Handlers{"work": func(ctx context.Context, body []byte) ([]byte, error) {
			did.Add(1)
			return echo(ctx, body)
		}})
	})
	<-done
	replay := func(task []byte, outcome string) {
		t.Helper()
		before := counted(t, wc, outcome)
		testbed.Eventually(t, "the task is over", func() bool {
			// again: at first the broker itself recognises it
			if err := conn.Tasks.PublishTask(t.Context(), task); err != nil {
				t.Fatal(err)
			}
			return counted(t, wc, outcome) > before
		})
	}
	replay(task, "unwanted")
	altered := slices.Clone(task)
	altered[len(altered)-1] ^= 1
	replay(altered, "refused")
	stop()
	second := lead(t, config(t, b))
	expect(t, second, "b", "did b")
	replay(task, "unwanted")
	if did.Load() != 2 {
		t.Errorf("2 tasks were done %d times", did.Load())
	}
}

// Processes with other keys, or of another role, understand nothing of each other, and what they cannot read they leave
// to those who can.
func TestOtherKeysUnderstandNothing(t *testing.T) {
	t.Parallel()
	b := crew(t)
	l := lead(t, config(t, b))
	l.Answer("who", echo)
	other := config(t, b)
	other.Sealer = sealer(t, bus.Shuffler, "another key")
	foreign := worker.NewWorker(other)
	var did atomic.Int32
	halt := run(t, func(ctx context.Context) error {
		return foreign.Serve(ctx, worker.Handlers{"work": func(context.Context, []byte) ([]byte, error) {
			did.Add(1)
			return nil, nil
		}})
	})
	done := make(chan struct{})
	go func() { defer close(done); expect(t, l, "a", "did a") }()
	testbed.Eventually(t, "the foreign worker gives the task back", func() bool {
		return counted(t, other, "returned") > 0
	})
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if _, err := foreign.Ask(ctx, "who", nil); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a foreign worker's question: %v", err)
	}
	if foreign.Ready() == nil || l.Workers() != 1 {
		t.Errorf("%d workers; the foreign one is ready: %v", l.Workers(), foreign.Ready())
	}
	halt()
	run(t, func(ctx context.Context) error {
		return worker.Serve(ctx, config(t, b), worker.Handlers{"work": echo})
	})
	<-done
	if did.Load() != 0 {
		t.Error("a process without the key did a task")
	}
}

package analyzer

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/riffle-dp/riffle/internal/broker"
	"github.com/riffle-dp/riffle/internal/bus"
	"github.com/riffle-dp/riffle/internal/testing/testbed"
	"github.com/riffle-dp/riffle/internal/worker"
	"github.com/riffle-dp/riffle/pkg/glm"
	"github.com/riffle-dp/riffle/pkg/seal"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// crew is a scene whose analyzer does no task itself, on a broker where the task of a silent worker comes to another
// after a second.
type crew struct {
	*scene
	sealer *worker.Sealer
	did    []*atomic.Int64 // tasks, by worker
	dead   atomic.Bool     // the next task that is begun is its worker's last
}

func newCrew(t *testing.T) *crew {
	t.Helper()
	c := &crew{scene: newScene(t, glm.Practical, func(_ *broker.Options, p *bus.ProvisionOptions) {
		p.TaskWait = time.Second
	})}
	var err error
	c.sealer, err = worker.NewSealer(bus.Analyzer, [][]byte{c.AnalyzerKey.Bytes()})
	c.must(err)
	return c
}

func (c *crew) process(conn *bus.Conn) worker.Config {
	return worker.Config{Tasks: conn.Tasks, Lead: conn.Lead, Sealer: c.sealer, Parallel: 1, Log: testbed.Log(),
		Metrics: prometheus.NewRegistry()}
}

// run keeps something running until the test ends.
func (c *crew) run(f func(context.Context) error) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- f(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) && !errors.Is(err, bus.ErrClosed) {
			c.t.Errorf("it ended with %v", err)
		}
	})
	c.t.Cleanup(stop)
	return stop
}

// lead starts an analyzer with workers.
func (c *crew) lead() {
	lead := worker.NewLead(c.process(c.Connect(bus.Analyzer)))
	c.config.Pool = lead
	stop := c.run(lead.Run)
	c.start()
	analyzer := c.stop
	c.stop = func() error {
		err := analyzer()
		stop()
		return err
	}
}

// worker starts one, with a connection of its own.
func (c *crew) worker() {
	conn, did := c.Connect(bus.Analyzer), new(atomic.Int64)
	c.did = append(c.did, did)
	handlers := WorkerHandlers(WorkerConfig{
		Deployment: testbed.Deployment, Keys: c.config.Keys, Registrar: c.Registrar.Public(), Bus: conn.Mixed,
	})
	for kind, do := range handlers {
		handlers[kind] = func(ctx context.Context, body []byte) ([]byte, error) {
			if c.dead.CompareAndSwap(true, false) {
				go conn.Close()
				<-ctx.Done() // its result would come too late
			}
			did.Add(1)
			return do(ctx, body)
		}
	}
	c.run(func(ctx context.Context) error { return worker.Serve(ctx, c.process(conn), handlers) })
}

// 1, 2 and 4 workers over a real broker count what there is, with one that dies in the middle of each round, and so
// does an analyzer that begins anew in the middle of one.
func TestWorkersCountAcrossDeaths(t *testing.T) {
	t.Parallel()
	c := newCrew(t)
	c.lead()
	for epoch, workers := range []int{1, 2, 4} {
		for len(c.did) < 2*workers { // as many as there are to be, and a death for each
			c.worker()
		}
		a, digest := c.announcement(uint64(epoch)+1, 0)
		r, ones := c.honest(a, digest, int(a.Cohort.Size))
		c.dead.Store(true)
		half := len(r.chunks) / 2
		for i, chunk := range r.chunks[:half] {
			c.must(c.shuffler.Mixed.PublishChunk(c.Context(), a.Epoch, 0, uint32(i), chunk))
		}
		// What comes before the analyzer has begun the round is read when the manifest is there. So that a worker gets
		// a task before, chunks come that the manifest does not name.
		unnamed := uint32(1000)
		testbed.Eventually(t, "a worker died", func() bool {
			chunk, err := wire.BuildChunk(wire.Chunk{
				Epoch: a.Epoch, Index: unnamed, Payload: make([]byte, seal.BitSize),
			})
			c.must(err)
			c.must(c.shuffler.Mixed.PublishChunk(c.Context(), a.Epoch, 0, unnamed, chunk))
			unnamed++
			return !c.dead.Load()
		})
		if workers == 4 {
			c.must(c.stop())
			c.lead()
		}
		c.publish(r)
		if counts := c.counts(a.Epoch, 0); !sameOnes(counts, ones) {
			t.Fatalf("%d workers: counts %v, want %v", workers, counts, ones)
		}
	}
	var total int64
	for _, did := range c.did {
		total += did.Load()
	}
	if total == 0 {
		t.Error("no worker did anything")
	}
	c.must(c.stop())
}

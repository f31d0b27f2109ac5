package worker_test

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/riffle-dp/riffle/internal/bus"
	"github.com/riffle-dp/riffle/internal/testing/testbed"
	"github.com/riffle-dp/riffle/internal/worker"
)

// What it costs to have a task done by another process that does nothing: lead, worker and broker together, 16 tasks at
// a time, on a broker that does not sync.
func BenchmarkTasks(b *testing.B) {
	bed := testbed.New(b)
	shared, err := worker.NewSealer(bus.Shuffler, [][]byte{[]byte("a key")})
	if err != nil {
		b.Fatal(err)
	}
	config := func() worker.Config {
		conn := bed.Connect(bus.Shuffler)
		return worker.Config{Tasks: conn.Tasks, Lead: conn.Lead, Sealer: shared, Parallel: 4,
			Metrics: prometheus.NewRegistry()}
	}
	ctx, cancel := context.WithCancel(b.Context())
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	lead := worker.NewLead(config())
	running.Go(func() { _ = lead.Run(ctx) })
	for range 4 {
		c := config()
		running.Go(func() { _ = worker.Serve(ctx, c, worker.Handlers{"work": echo}) })
	}
	for _, size := range []int{1 << 10, 1 << 20} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			b.SetBytes(int64(2 * size)) // there and back
			b.SetParallelism(8)
			b.RunParallel(func(p *testing.PB) {
				for body := make([]byte, size); p.Next(); {
					if _, err := lead.Do(b.Context(), worker.Task{Kind: "work", Body: body}); err != nil {
						b.Error(err)
					}
				}
			})
		})
	}
}

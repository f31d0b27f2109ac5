package bus_test

import (
	"context"
	"fmt"
	"runtime"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/riffle-dp/riffle/internal/broker"
	"github.com/riffle-dp/riffle/internal/bus"
)

// BenchmarkPublish compares what a report costs with what NATS costs without this package: a core publish, which
// no stream stores, and a JetStream publish by a user of the streams' own account.
func BenchmarkPublish(b *testing.B) {
	for _, size := range []int{1 << 10, 64 << 10} {
		payload := make([]byte, size)
		for _, sync := range []bool{false, true} {
			br := newBroker(b, func(o *broker.Options, _ *bus.ProvisionOptions) { o.SyncAlways = sync })
			dev, admin := br.connect(bus.Randomizer), br.connect(bus.Admin)
			ctx := context.Background()
			var n atomic.Uint64
			name := fmt.Sprintf("%dKiB/sync=%v", size>>10, sync)
			if !sync {
				b.Run(name+"/core", func(b *testing.B) {
					b.SetBytes(int64(size))
					for b.Loop() {
						if err := admin.NATS().Publish(bus.APIStreams+".INFO.none", payload); err != nil {
							b.Fatal(err)
						}
					}
					if err := admin.NATS().Flush(); err != nil {
						b.Fatal(err)
					}
				})
			}
			b.Run(name+"/report", func(b *testing.B) {
				b.SetBytes(int64(size))
				for b.Loop() {
					if err := dev.Reports.PublishReport(ctx, 1, 0, strconv.FormatUint(n.Add(1), 10),
						payload); err != nil {
						b.Fatal(err)
					}
				}
			})
			b.Run(name+"/reports-by-64", func(b *testing.B) {
				b.SetBytes(int64(size))
				b.SetParallelism(64 / runtime.GOMAXPROCS(0))
				b.RunParallel(func(pb *testing.PB) {
					for pb.Next() {
						if err := dev.Reports.PublishReport(ctx, 1, 0, strconv.FormatUint(n.Add(1), 10),
							payload); err != nil {
							b.Error(err)
						}
					}
				})
			})
			br.server.Stop()
			raw := newRaw(b, sync)
			b.Run(name+"/raw-jetstream", func(b *testing.B) {
				b.SetBytes(int64(size))
				for b.Loop() {
					if _, err := raw.Publish(ctx, bus.ReportSubject("one"), payload,
						jetstream.WithMsgID(strconv.FormatUint(n.Add(1), 10))); err != nil {
						b.Fatal(err)
					}
				}
			})
			b.Run(name+"/raw-jetstream-by-64", func(b *testing.B) {
				b.SetBytes(int64(size))
				b.SetParallelism(64 / runtime.GOMAXPROCS(0))
				b.RunParallel(func(pb *testing.PB) {
					for pb.Next() {
						if _, err := raw.Publish(ctx, bus.ReportSubject("one"), payload,
							jetstream.WithMsgID(strconv.FormatUint(n.Add(1), 10))); err != nil {
							b.Error(err)
						}
					}
				})
			})
		}
	}
}

// newRaw is JetStream with no accounts and no permissions.
func newRaw(b *testing.B, sync bool) jetstream.JetStream {
	b.Helper()
	br := newBroker(b, func(o *broker.Options, _ *bus.ProvisionOptions) { o.SyncAlways = sync })
	br.startWithoutPermissions()
	return br.connect(bus.Admin).JetStream()
}

// BenchmarkConsume measures delivery and acknowledgement of stored reports of 64 KiB.
func BenchmarkConsume(b *testing.B) {
	br := newBroker(b)
	dev, shuf := br.connect(bus.Randomizer), br.connect(bus.Shuffler)
	ctx := context.Background()
	const stored = 1000
	payload := make([]byte, 64<<10)
	b.SetBytes(stored * int64(len(payload)))
	id := 0
	for b.Loop() {
		b.StopTimer()
		if err := shuf.Reports.PurgeReports(ctx, uint64(id)); err != nil { // one host may not have more waiting
			b.Fatal(err)
		}
		for range stored {
			id++
			if err := dev.Reports.PublishReport(ctx, 1, 0, strconv.Itoa(id), payload); err != nil {
				b.Fatal(err)
			}
		}
		b.StartTimer()
		n := 0
		rctx, cancel := context.WithCancel(ctx)
		_ = shuf.Reports.ReceiveReports(rctx, func(d *bus.Delivery) {
			if err := d.Ack(); err != nil {
				b.Error(err)
			}
			if n++; n == stored {
				cancel()
			}
		})
	}
	b.ReportMetric(float64(b.N*stored)/b.Elapsed().Seconds(), "reports/s")
}

// BenchmarkDedupMemory measures what the broker keeps in memory per report for recognising a repetition: the heap
// with a window against the heap without one, over many small reports with ids of 32 letters.
func BenchmarkDedupMemory(b *testing.B) {
	const reports = 50_000
	heap := func(window time.Duration) float64 {
		br := newBroker(b, func(_ *broker.Options, p *bus.ProvisionOptions) {
			p.DedupWindow, p.HostReports, p.ReportSize = window, reports, 1024
		})
		dev := br.connect(bus.Randomizer)
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		b.SetParallelism(32)
		done := make(chan error, 32)
		for w := range 32 {
			go func() {
				for i := w; i < reports; i += 32 {
					if err := dev.Reports.PublishReport(context.Background(), 1, 0, fmt.Sprintf("%032d", i),
						[]byte("x")); err != nil {
						done <- err
						return
					}
				}
				done <- nil
			}()
		}
		for range 32 {
			if err := <-done; err != nil {
				b.Fatal(err)
			}
		}
		if window < time.Second {
			time.Sleep(2 * time.Second) // the ids expire
		}
		runtime.GC()
		runtime.ReadMemStats(&after)
		br.server.Stop()
		return float64(after.HeapAlloc) - float64(before.HeapAlloc)
	}
	for b.Loop() {
		with, without := heap(time.Hour), heap(100*time.Millisecond)
		b.ReportMetric((with-without)/reports, "bytes/report")
	}
}

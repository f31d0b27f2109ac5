//go:build unix

package randomizer

import (
	"context"
	"runtime"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"golang.org/x/sync/errgroup"

	"github.com/riffle-dp/riffle/internal/bus"
	"github.com/riffle-dp/riffle/internal/role/entropy"
	"github.com/riffle-dp/riffle/internal/testing/testbed"
	"github.com/riffle-dp/riffle/pkg/device"
	"github.com/riffle-dp/riffle/pkg/glm"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/protocol"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// acceptor is a broker that has room for every report.
type acceptor struct{ Broker }

func (acceptor) PublishReport(context.Context, uint64, uint32, string, []byte) error { return nil }

// How many reports one host makes in a second when all of its devices report at once: from what falls due to what the
// broker has, with every state and report durable. The metric cores is how many cores were busy.
func BenchmarkReportsOfOneHost(b *testing.B) {
	for _, c := range []plan.Channel{plan.Shuffle, plan.Shares} {
		b.Run(string(c), func(b *testing.B) { benchmarkReports(b, c) })
	}
}

func benchmarkReports(b *testing.B, c plan.Channel) {
	bed := testbed.New(b)
	identity, credential := bed.Host(uint32(b.N))
	h, err := New(Config{
		Deployment: testbed.Deployment, Analyzer: bed.Analyzer.Public(), Shuffler: bed.Shuffler.Public(),
		Identity: identity, Credential: credential, Devices: b.N, StateDir: b.TempDir(),
		Limits: device.Limits{Epsilon: 4, Delta: 1e-3, MinCohort: 4, MaxReleases: 8, MaxNorm: 10, MaxMessages: 1000,
			Records: 1},
		Source: func() protocol.Source { return entropy.New() }, Bus: acceptor{}, Log: zerolog.Nop(),
		Reports: testbed.Account(b, "report", nil, Reasons()),
	})
	if err != nil {
		b.Fatal(err)
	}
	h.shuffler = bed.ShufflerKey.Public()
	a := bed.Announcement(glm.Practical, 12)
	a.Plan.Channel = c
	signed, digest := bed.Sign(a, bed.Analyzer)
	if fresh, err := h.following.follow(bus.Announcement{Epoch: 1, Payload: signed}); !fresh || err != nil ||
		h.current.Weak() != nil {
		b.Fatal(fresh, err, h.current.Weak())
	}
	reply := &wire.EnrolReply{Enrolled: true}
	if c == plan.Shares {
		reply.Commitment = digest[:]
	}
	var promised errgroup.Group
	promised.SetLimit(256)
	for i := range b.N {
		promised.Go(func() error {
			dev := &localDevice{name: string(rune(i)), state: h.rules.NewState(uint32(i))}
			next, err := dev.state.Ask(h.current, time.Now())
			if err == nil {
				dev.state = next
				_, err = h.promises.promise(h.current, dev, reply)
			}
			return err
		})
	}
	if err := promised.Wait(); err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	due := make(chan job)
	used := cpuTime()
	b.ResetTimer()
	begin := time.Now()
	running.Go(func() { _ = h.promises.timetable.run(ctx, due) })
	cores := runtime.GOMAXPROCS(0)
	at := newSources(cores, h.c.Source)
	for range cores * sealersPerCore {
		running.Go(func() {
			if err := h.reports.sealDue(ctx, due, at); ctx.Err() == nil {
				b.Error(err)
			}
		})
	}
	for range senders {
		running.Go(func() { _ = h.reports.send(ctx) })
	}
	for h.Pending() > 0 {
		time.Sleep(time.Millisecond)
	}
	wall := time.Since(begin)
	b.StopTimer()
	b.ReportMetric(float64(b.N)/wall.Seconds(), "reports/s")
	b.ReportMetric((cpuTime()-used).Seconds()/wall.Seconds(), "cores")
	cancel()
	running.Wait()
	if err := h.Close(); err != nil {
		b.Fatal(err)
	}
}

// cpuTime is what this process has used of all cores.
func cpuTime() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

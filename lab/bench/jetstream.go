package bench

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"math"
	"os"
	"strconv"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/riffle-dp/riffle/internal/bus"
	"github.com/riffle-dp/riffle/internal/drive/cluster"
	"github.com/riffle-dp/riffle/internal/keyring"
)

// streamed is what one message of a size costs a broker that does nothing else: publish, and consume with
// acknowledgement. Streams, their rights and their syncing are the deployment's.
type streamed struct {
	size                     int
	publish, consume         float64 // seconds of the broker's processor time
	publishWall, consumeWall float64 // seconds between two messages, 64 at a time
}

// both is the broker's processor time for one message's way through.
func (s streamed) both() float64 { return s.publish + s.consume }

// orLess has the lesser of each time: other work only ever adds, and a message that the broker delivers again after
// its wait adds half a minute.
func (s streamed) orLess(b streamed) streamed {
	s.publish, s.consume = math.Min(s.publish, b.publish), math.Min(s.consume, b.consume)
	s.publishWall, s.consumeWall = math.Min(s.publishWall, b.publishWall), math.Min(s.consumeWall, b.consumeWall)
	return s
}

// streamRuns is how many times each size is measured.
const streamRuns = 3

// streamBytes is how much one measurement carries, in so many messages at least and at most.
const (
	streamBytes   = 64 << 20
	leastStreamed = 8
	mostStreamed  = 8192
)

// measureStreams measures messages of these sizes, in bytes.
func (s Setup) measureStreams(ctx context.Context, sizes []int, bytes int) (all []streamed, err error) {
	folder, err := s.folderOf("streams")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(folder)
	c, err := cluster.Start(ctx, cluster.Options{
		Dir: folder, Name: standName, Executable: s.Executable, Hosts: []string{standHost}, Idle: true,
		Devices: mostStreamed, Without: []string{cluster.Shuffler, cluster.Analyzer}, Sync: s.Sync,
	})
	if err != nil {
		return nil, err
	}
	defer c.Stop()
	host, err := keyring.LoadRandomizer(c.Keys(), standHost)
	if err != nil {
		return nil, err
	}
	keys, err := keyring.LoadShuffler(c.Keys())
	if err != nil {
		return nil, err
	}
	connect := func(role bus.Role, seed []byte) (*bus.Conn, error) {
		return bus.Connect(ctx, bus.Options{URL: c.URL(), Role: role, Seed: seed, Name: "riffle-bench"})
	}
	devices, err := connect(bus.Randomizer, host.Seed)
	if err != nil {
		return nil, err
	}
	defer devices.Close()
	shuffler, err := connect(bus.Shuffler, keys.Seed)
	if err != nil {
		return nil, err
	}
	defer shuffler.Close()
	for i, size := range sizes {
		n := max(leastStreamed, min(bytes/size, mostStreamed)/streamRuns)
		least := streamed{size: size, publish: math.Inf(1), consume: math.Inf(1), publishWall: math.Inf(1),
			consumeWall: math.Inf(1)}
		for run := range streamRuns {
			one, err := stream(ctx, c, devices, shuffler, uint64(i*streamRuns+run+1), size, n)
			if err != nil {
				return nil, err
			}
			least = least.orLess(one)
		}
		all = append(all, least)
	}
	return all, nil
}

func stream(ctx context.Context, c *cluster.Cluster, devices, shuffler *bus.Conn, epoch uint64, size, n int) (
	streamed, error,
) {
	out := streamed{size: size}
	payload := make([]byte, size)
	rand.Read(payload)
	measured := func(f func() error) (cpu, wall float64, err error) {
		before, _ := c.Running(cluster.Broker)
		begin := time.Now()
		if err := f(); err != nil {
			return 0, 0, err
		}
		now, _ := c.Running(cluster.Broker)
		return (now.CPU - before.CPU).Seconds() / float64(n), time.Since(begin).Seconds() / float64(n), nil
	}
	var err error
	out.publish, out.publishWall, err = measured(func() error {
		g, ctx := errgroup.WithContext(ctx)
		const parallel = 64
		for p := range parallel {
			g.Go(func() error {
				for i := p; i < n; i += parallel {
					if err := devices.Reports.PublishReport(ctx, epoch, 0, strconv.Itoa(i), payload); err != nil {
						return err
					}
				}
				return nil
			})
		}
		return g.Wait()
	})
	if err != nil {
		return out, fmt.Errorf("bench: publishing: %w", err)
	}
	over := errors.New("over")
	out.consume, out.consumeWall, err = measured(func() error {
		run, stop := context.WithCancelCause(ctx)
		defer stop(nil)
		got := 0
		var fault error
		err := shuffler.Reports.ReceiveReports(run, func(d *bus.Delivery) {
			fault = errors.Join(fault, d.Ack())
			if got++; got == n {
				stop(over)
			}
		})
		if context.Cause(run) != over {
			return err
		}
		return fault
	})
	if err != nil {
		return out, fmt.Errorf("bench: consuming: %w", err)
	}
	last, err := shuffler.Reports.LastReport(ctx)
	if err != nil {
		return out, err
	}
	return out, shuffler.Reports.PurgeReports(ctx, last)
}

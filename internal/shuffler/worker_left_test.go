package shuffler

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/riffle-dp/riffle/internal/bus"
	"github.com/riffle-dp/riffle/internal/shuffler/work"
	"github.com/riffle-dp/riffle/internal/testing/testbed"
	"github.com/riffle-dp/riffle/internal/worker"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// dropping is a broker that drops what workers exchanged of all buckets but one, once a chunk of that one has left.
type dropping struct {
	work.Broker
	bucket atomic.Int64 // that leaves, and 1 more; 0: none yet
	once   sync.Once
	left   chan struct{}
}

func (b *dropping) ReadSegment(ctx context.Context, e uint64, r uint32, n string, bucket uint32) ([]byte, error) {
	b.bucket.CompareAndSwap(0, int64(bucket)+1)
	if b.bucket.Load() == int64(bucket)+1 {
		return b.Broker.ReadSegment(ctx, e, r, n, bucket)
	}
	select {
	case <-b.left:
		return nil, bus.ErrGone
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

func (b *dropping) PublishChunk(ctx context.Context, e uint64, r, index uint32, p []byte) error {
	err := b.Broker.PublishChunk(ctx, e, r, index, p)
	b.once.Do(func() { close(b.left) })
	return err
}

// A cohort that is destroyed after a part of it left, because the broker dropped the rest, is not said to have left
// nothing: the manifest says how many messages can have left at most, and what the plan reveals is spent. So says the
// next process, whose journal is all that it has.
func TestWhatLeftBeforeACohortWasDestroyedIsSaid(t *testing.T) {
	t.Parallel()
	c := newCrew(t)
	c.start()
	c.open(c.announcement())
	c.enrol(12)
	c.sendAll(12)
	conn := c.Connect(bus.Shuffler)
	ctx, cancel := context.WithCancel(context.Background())
	w, err := work.New(c.worker(&dropping{Broker: work.Over(conn.Streams), left: make(chan struct{})}))
	c.must(err)
	member := worker.NewWorker(worker.Config{Tasks: conn.Tasks, Lead: conn.Lead, Sealer: c.box(), Log: testbed.Log()})
	var running sync.WaitGroup
	running.Go(func() { _ = member.Serve(ctx, w.Handlers()) })
	running.Go(func() { _ = w.Arrive(ctx, member) })
	t.Cleanup(func() { cancel(); running.Wait() })

	m := c.manifest(1, 0)
	c.finished()
	left := 0
	for _, b := range c.left(1, 0) {
		chunk, err := wire.ParseChunk(b)
		c.must(err)
		left += len(chunk.Payload)
	}
	whole := len(c.messages(12))
	if m.Outcome != wire.Destroyed || left == 0 || m.Reports != 12 || m.Messages != uint64(whole) {
		t.Fatalf("%d bytes left, and the manifest says %+v; the release has %d messages", left, m, whole)
	}
	told := func(when string) {
		t.Helper()
		s := c.shuffler.Snapshot()
		if r := s.Releases; len(r) != 1 || r[0].Outcome != "destroyed" || !(r[0].Epsilon > 0) ||
			r[0].Messages != whole || s.Budget == nil || *s.Budget.Spent != r[0].Epsilon {
			t.Errorf("%s the status says %+v, %+v", when, s.Releases, s.Budget)
		}
	}
	told("at once")
	c.must(c.stop())
	c.members[0]()
	c.start()
	c.finished()
	c.eventually("the announcement is read again", func() bool { return c.shuffler.Snapshot().Budget != nil })
	told("after a restart")
}

package shuffler

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/riffle-dp/riffle/internal/broker"
	"github.com/riffle-dp/riffle/internal/bus"
	"github.com/riffle-dp/riffle/internal/channel/shuffle"
	"github.com/riffle-dp/riffle/internal/shuffler/work"
	"github.com/riffle-dp/riffle/internal/testing/testbed"
	"github.com/riffle-dp/riffle/internal/worker"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/protocol"
	"github.com/riffle-dp/riffle/pkg/seal"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// crew is a scene whose shuffler leads workers, and takes in no report itself.
type crew struct {
	*scene
	steps   func(step string) error // asked at every step of the lead; nil: none fails
	mixing  atomic.Bool             // the members are committed and gathered
	members []context.CancelFunc    // of workers
}

// led is the lead's broker: reports go to the workers.
type led struct {
	Broker
	c *crew
}

func (b led) ReceiveReports(ctx context.Context, _ func(*bus.Delivery)) error {
	<-ctx.Done()
	return context.Cause(ctx)
}

func (b led) step(what string) error {
	if b.c.steps == nil {
		return nil
	}
	return b.c.steps(what)
}

func (b led) ReadChunks(ctx context.Context, e uint64, r uint32, f func(uint32, []byte) error) error {
	b.c.mixing.Store(true)
	return errors.Join(b.Broker.ReadChunks(ctx, e, r, f), b.step("chunks read"))
}

func (b led) PurgeSegments(ctx context.Context) error {
	if !b.c.mixing.Load() { // before anything is gathered
		return b.Broker.PurgeSegments(ctx)
	}
	return errors.Join(b.Broker.PurgeSegments(ctx), b.step("segments purged"))
}

func (b led) PublishManifest(ctx context.Context, e uint64, r uint32, payload []byte) error {
	return errors.Join(b.step("manifest"), b.Broker.PublishManifest(ctx, e, r, payload))
}

func newCrew(t *testing.T, change ...func(*broker.Options, *bus.ProvisionOptions)) *crew {
	tasks := func(_ *broker.Options, p *bus.ProvisionOptions) { p.TaskWait = time.Second }
	c := &crew{scene: newScene(t, append(change, tasks)...)}
	c.wrap = func(conn Broker) Broker { return led{conn, c} }
	return c
}

func (c *crew) box() *worker.Sealer {
	box, err := worker.NewSealer(bus.Shuffler, [][]byte{c.ShufflerKey.Bytes()})
	c.must(err)
	return box
}

// start starts the lead. Its tasks go to workers alone, as long as there are any.
func (c *crew) start() {
	c.t.Helper()
	conn := c.Connect(bus.Shuffler)
	w, err := work.New(c.worker(work.Over(conn.Streams)))
	c.must(err)
	lead := worker.NewLead(worker.Config{
		Tasks: conn.Tasks, Lead: conn.Lead, Sealer: c.box(), Handlers: w.Handlers(), Log: testbed.Log(),
		Reissue: 2 * time.Second,
	})
	c.config.Workers = lead
	c.prepare = func(s *Shuffler) {
		mixing := s.channels[plan.Shuffle].(*shuffle.Mixing)
		mixing.Exchange.Buckets, mixing.Exchange.Members = 4, 3
		for kind, h := range s.Answers() {
			lead.Answer(kind, h)
		}
		ctx, cancel := context.WithCancel(context.Background())
		var running sync.WaitGroup
		running.Go(func() { _ = lead.Run(ctx) })
		c.t.Cleanup(func() { cancel(); running.Wait() })
		c.members = append(c.members, cancel) // the first one is the lead's
	}
	c.scene.start()
}

func (c *crew) worker(b work.Broker) work.Config {
	return work.Config{
		Deployment: testbed.Deployment, Keys: []*seal.HPKEKey{c.ShufflerKey}, Source: func() protocol.Source {
			return testbed.Source()
		}, Bus: b, Log: testbed.Log(),
	}
}

// mortal is a worker's broker, at which the worker dies at the step that the test says.
type mortal struct {
	work.Broker
	dies func(step string) bool
	die  context.CancelFunc
}

var errDead = errors.New("this worker is dead")

func (b mortal) step(what string, err error) error {
	if b.dies != nil && b.dies(what) {
		b.die()
		return errDead
	}
	return err
}

func (b mortal) ReceiveReports(ctx context.Context, handler func(*bus.Delivery)) error {
	return b.Broker.ReceiveReports(ctx, func(d *bus.Delivery) {
		if b.step("report", nil) == nil {
			handler(d)
		}
	})
}

func (b mortal) PublishSegment(ctx context.Context, e uint64, r uint32, n string, bucket uint32, p []byte) error {
	return b.step("segment", b.Broker.PublishSegment(ctx, e, r, n, bucket, p))
}

func (b mortal) ReadSegment(ctx context.Context, e uint64, r uint32, n string, bucket uint32) ([]byte, error) {
	if err := b.step("segment read", nil); err != nil {
		return nil, err
	}
	return b.Broker.ReadSegment(ctx, e, r, n, bucket)
}

func (b mortal) PublishChunk(ctx context.Context, e uint64, r, index uint32, p []byte) error {
	return b.step("chunk", b.Broker.PublishChunk(ctx, e, r, index, p))
}

// work starts a worker, which dies at the first step for which dies is true.
func (c *crew) work(dies func(step string) bool) {
	c.t.Helper()
	conn := c.Connect(bus.Shuffler)
	ctx, cancel := context.WithCancel(context.Background())
	w, err := work.New(c.worker(mortal{work.Over(conn.Streams), dies, cancel}))
	c.must(err)
	member := worker.NewWorker(worker.Config{Tasks: conn.Tasks, Lead: conn.Lead, Sealer: c.box(), Log: testbed.Log()})
	var running sync.WaitGroup
	running.Go(func() { _ = member.Serve(ctx, w.Handlers()) })
	running.Go(func() { _ = w.Arrive(ctx, member) })
	c.t.Cleanup(func() { cancel(); running.Wait() })
}

// messages are those of the first n devices' reports, sorted.
func (c *crew) messages(n int) (all [][]byte) {
	c.t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, envelope := range c.reports[:n] {
		all = append(all, slices.Collect(slices.Chunk(c.Open(envelope, c.opened).Payload, seal.BitSize))...)
	}
	slices.SortFunc(all, bytes.Compare)
	return all
}

// whole checks that exactly these messages left, and that the manifest is about them.
func (c *crew) whole(want [][]byte, m *wire.Manifest) {
	c.t.Helper()
	var left [][]byte
	digests := make([][32]byte, m.Chunks)
	c.must(c.analyzer.Mixed.ReadChunks(c.Context(), m.Epoch, m.Round, func(index uint32, payload []byte) error {
		chunk, err := wire.ParseChunk(payload)
		if err != nil || int(index) >= len(digests) {
			return fmt.Errorf("chunk %d: %w", index, err)
		}
		digests[index] = wire.ChunkDigest(payload)
		left = append(left, slices.Collect(slices.Chunk(chunk.Payload, seal.BitSize))...)
		return nil
	}))
	if slices.IsSortedFunc(left, bytes.Compare) {
		c.t.Error("the messages left in order")
	}
	slices.SortFunc(left, bytes.Compare)
	if !slices.EqualFunc(left, want, bytes.Equal) || int(m.Messages) != len(want) {
		c.t.Errorf("%d messages left, want %d; the manifest says %d", len(left), len(want), m.Messages)
	}
	if all := wire.ChunksDigest(digests); !bytes.Equal(m.ChunksDigest, all[:]) {
		c.t.Error("the manifest is about other chunks")
	}
}

// One, two and four workers share a cohort: what one process would have sent leaves, each report that is refused is
// refused for the same reason, and the lead accounts for all.
func TestWorkersShareACohort(t *testing.T) {
	t.Parallel()
	for _, n := range []int{1, 2, 4} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			t.Parallel()
			c := newCrew(t)
			c.start()
			for range n {
				c.work(nil)
			}
			c.open(c.announcement())
			c.enrol(12)
			c.sendAll(11)
			refused := map[wire.Refusal]int{
				wire.RefusalNotEnrolled: 1, wire.RefusalWrongSize: 1, wire.RefusalMalformed: 1,
				wire.RefusalWrongEpoch: 1, wire.RefusalDuplicate: 1,
			}
			c.send(c.report(50))
			c.send([]byte("junk"))
			c.send(make([]byte, len(c.reports[0])))
			c.sendTo(7, 0, c.reports[0])
			c.send(c.reports[3])
			c.account(0, 0, refused)
			c.send(c.report(11))
			m := c.manifest(1, 0)
			c.finished()
			c.reports = append(c.reports[:11], c.reports[len(c.reports)-1])
			c.whole(c.messages(12), m)
			delete(refused, wire.RefusalWrongEpoch) // it was not of this round
			testbed.RefusedIn(t, m, refused, nil)
			refused[wire.RefusalWrongEpoch] = 1
			c.account(12, 0, refused)
			c.eventually("acknowledged", func() bool {
				b, err := c.broker.Reports.Backlog(c.Context())
				c.must(err)
				return b.Waiting == 0
			})
		})
	}
}

// A worker that dies at any step, with what it had in hand, is not missed: another one does its work.
func TestAWorkerMayDieAtAnyStep(t *testing.T) {
	t.Parallel()
	for _, step := range []string{"report", "segment", "segment read", "chunk"} {
		t.Run(strings.ReplaceAll(step, " ", "_"), func(t *testing.T) {
			t.Parallel()
			c := newCrew(t, func(_ *broker.Options, p *bus.ProvisionOptions) { p.AckWait = 5 * time.Second })
			c.start()
			var died atomic.Bool
			var once atomic.Int32
			c.open(c.announcement())
			c.enrol(12)
			c.sendAll(12)
			for range 2 {
				c.work(func(at string) bool { // the second time, so that it leaves something behind
					if at != step || once.Add(1) != 2 {
						return false
					}
					died.Store(true)
					return true
				})
			}
			m := c.manifest(1, 0)
			c.finished()
			if !died.Load() {
				t.Error("no worker died")
			}
			c.whole(c.messages(12), m)
			c.account(12, 0, nil)
		})
	}
}

// A lead that dies at any step of a release, also behind the barrier, goes on where it stood: what has left stays as it
// is, and one manifest is logged.
func TestALeadMayDieAtAnyStep(t *testing.T) {
	t.Parallel()
	for _, step := range []string{"chunks read", "segments purged", "manifest"} {
		t.Run(strings.ReplaceAll(step, " ", "_"), func(t *testing.T) {
			t.Parallel()
			c := newCrew(t)
			c.steps = func(at string) error {
				if at != step {
					return nil
				}
				c.mu.Lock()
				c.dead = true
				c.mu.Unlock()
				return fatal(errCrash)
			}
			c.start()
			c.work(nil)
			c.work(nil)
			c.open(c.announcement())
			c.enrol(12)
			c.sendAll(12)
			c.eventually("crashed", c.crashed)
			if err := c.stop(); !errors.Is(err, errCrash) {
				t.Fatalf("stopped by %v", err)
			}
			c.members[0]() // the lead's other half
			before := c.left(1, 0)
			c.steps = nil
			c.start()
			m := c.manifest(1, 0)
			c.finished()
			c.whole(c.messages(12), m)
			after := c.left(1, 0)
			for _, b := range before {
				if !slices.ContainsFunc(after, func(a []byte) bool { return bytes.Equal(a, b) }) {
					t.Error("a chunk that left was replaced")
				}
			}
			if n := len(c.logged()); n != 1 {
				t.Errorf("%d manifests in the audit log", n)
			}
		})
	}
}

package shuffle

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/riffle-dp/riffle/internal/bus"
	"github.com/riffle-dp/riffle/internal/channel"
	"github.com/riffle-dp/riffle/internal/channel/spill"
	"github.com/riffle-dp/riffle/internal/worker"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/protocol"
	"github.com/riffle-dp/riffle/pkg/seal"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// exchange is a lead with workers, between reports and a broker in memory.
type exchange struct {
	*Mixing
	t       testing.TB
	release *channel.Release
	payload map[uint32][]byte // by slot
	seed    atomic.Uint64
	workers int
	disk    files // outlives the lead's process

	mu       sync.Mutex
	segments map[string][]byte
	chunks   map[uint32][]byte
	lost     []byte // the messages of the last chunk that was offered and did not stand
	steps    int
	fails    func(step int, what string) error // asked before every step of a worker or the lead; nil: none fails
}

// newExchange has members with each bit messages, all different: the first bytes of a message are its number.
func newExchange(t testing.TB, members, each, workers int) *exchange {
	x := &exchange{
		t: t, payload: map[uint32][]byte{}, workers: workers, segments: map[string][]byte{}, chunks: map[uint32][]byte{},
		disk: files{},
	}
	x.release = &channel.Release{
		Epoch: 1, Layout: channel.Layout{Messages: each}, Announced: &plan.Announcement{Final: true}, // no noise
	}
	for slot := range uint32(members) {
		m := channel.Member{Slot: slot, Sequence: uint64(members) - uint64(slot)}
		binary.BigEndian.PutUint32(m.Digest[:], slot)
		x.release.Members = append(x.release.Members, m)
		for i := range each {
			x.payload[slot] = append(x.payload[slot], numbered(int(slot)*each+i)...)
		}
	}
	x.begin(4, 3)
	return x
}

// numbered is a message that begins with its number.
func numbered(n int) []byte {
	return append(binary.BigEndian.AppendUint32(nil, uint32(n)), make([]byte, seal.BitSize-4)...)
}

// begin starts the lead and its workers anew: what they had in memory is gone.
func (x *exchange) begin(buckets uint32, members int) {
	x.t.Helper()
	store, err := spill.New(x.t.TempDir(), 0)
	x.must(err)
	x.t.Cleanup(func() { x.must(store.Close()) })
	x.Mixing = &Mixing{
		Store: store, Reports: x.report, Chunks: x, Disk: diskOf{x.disk, x}, Source: x.source(), Chunk: 5,
		Exchange: &Exchange{
			Pool: worker.Inside(x.workers, x.mixer().Handlers()), Segments: x, Chunks: x,
			Keys: [][]byte{[]byte("new"), []byte("old")}, Buckets: buckets, Members: members,
		},
	}
}

func (x *exchange) source() protocol.Source {
	var seed [32]byte
	binary.BigEndian.PutUint64(seed[:], x.seed.Add(1))
	return rand.NewChaCha8(seed)
}

// mixer is a worker.
func (x *exchange) mixer() *Mixer {
	return &Mixer{Deployment: "test", Reports: x.read, Segments: x, Chunks: x, Source: x.source}
}

func (x *exchange) must(err error) {
	x.t.Helper()
	if err != nil {
		x.t.Fatal(err)
	}
}

// step fails where the test says so. The lock is held.
func (x *exchange) step(what string) error {
	x.steps++
	if x.fails == nil {
		return nil
	}
	return x.fails(x.steps, what)
}

func (x *exchange) report(_ context.Context, _ *channel.Release, m channel.Member) (*wire.Report, error) {
	b, ok := x.payload[m.Slot]
	if !ok {
		return nil, channel.ErrImpossible
	}
	return &wire.Report{Slot: m.Slot, Payload: b}, nil
}

func (x *exchange) read(ctx context.Context, r *channel.Release, all []channel.Member, take func(int, []byte)) error {
	for i, m := range all {
		report, err := x.report(ctx, r, m)
		if err != nil {
			return err
		}
		take(i, report.Payload)
	}
	return nil
}

func (x *exchange) PublishSegment(_ context.Context, _ uint64, _ uint32, name string, bucket uint32, b []byte) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.segments[fmt.Sprintf("%s.%d", name, bucket)] = bytes.Clone(b)
	return x.step("segment")
}

func (x *exchange) ReadSegment(_ context.Context, _ uint64, _ uint32, name string, bucket uint32) ([]byte, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	b, ok := x.segments[fmt.Sprintf("%s.%d", name, bucket)]
	if !ok {
		return nil, bus.ErrGone
	}
	return bytes.Clone(b), x.step("segment read")
}

func (x *exchange) PurgeSegments(context.Context) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	clear(x.segments)
	return x.step("purge")
}

func (x *exchange) PublishChunk(_ context.Context, _ uint64, _, index uint32, b []byte) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	if stored, ok := x.chunks[index]; ok && !bytes.Equal(stored, b) {
		if chunk, err := wire.ParseChunk(b); err == nil {
			x.lost = chunk.Payload
		}
		return &bus.ExistsError{Stored: stored}
	}
	x.chunks[index] = bytes.Clone(b)
	return x.step("chunk")
}

func (x *exchange) ReadChunk(_ context.Context, _ uint64, _, index uint32) ([]byte, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if b, ok := x.chunks[index]; ok {
		return b, nil
	}
	return nil, bus.ErrGone
}

func (x *exchange) ReadChunks(_ context.Context, _ uint64, _ uint32, f func(uint32, []byte) error) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	for i, b := range x.chunks {
		if err := f(i, b); err != nil {
			return err
		}
	}
	return x.step("chunks read")
}

// files is a disk in memory.
type files map[string][]byte

// diskOf is a disk on which a step can fail after the file is durable.
type diskOf struct {
	files
	x *exchange
}

func (d diskOf) Store(name string, write func(w io.Writer) error) error {
	var b bytes.Buffer
	if err := write(&b); err != nil {
		return err
	}
	d.files[name] = b.Bytes()
	d.x.mu.Lock()
	defer d.x.mu.Unlock()
	return d.x.step("barrier")
}

func (d diskOf) Open(name string) (io.ReadCloser, error) {
	if b, ok := d.files[name]; ok {
		return io.NopCloser(bytes.NewReader(b)), nil
	}
	return nil, fs.ErrNotExist
}

func (d diskOf) Remove(name string) error {
	delete(d.files, name)
	return nil
}

// order are the numbers of the messages at the broker, in their order.
func (x *exchange) order() (all []int) {
	x.t.Helper()
	for index := range uint32(len(x.chunks)) {
		chunk, err := wire.ParseChunk(x.chunks[index])
		x.must(err)
		for b := chunk.Payload; len(b) > 0; b = b[seal.BitSize:] {
			all = append(all, int(binary.BigEndian.Uint32(b)))
		}
	}
	return all
}

// leave does as the shuffler does: it asks what is repeated, and then has the release leave.
func (x *exchange) leave() (*wire.Manifest, error) {
	if _, err := x.Repeated(x.t.Context(), x.release); err != nil {
		return nil, err
	}
	m := new(wire.Manifest)
	_, err := x.Release(x.t.Context(), x.release, m)
	return m, err
}

// whole checks that what stands at the broker is the release, once, and that the manifest says so.
func (x *exchange) whole(m *wire.Manifest) {
	x.t.Helper()
	order := x.order()
	slices.Sort(order)
	for i, n := range order {
		if i != n {
			x.t.Fatalf("message %d stands where %d should", n, i)
		}
	}
	want := x.release.Messages()
	if len(order) != want || int(m.Messages) != want || int(m.Chunks) != len(x.chunks) {
		x.t.Errorf("%d messages in %d chunks of %d; the manifest says %d in %d", len(order), len(x.chunks), want,
			m.Messages, m.Chunks)
	}
	var digests [][32]byte
	var messages []byte
	for index := range uint32(len(x.chunks)) {
		digests = append(digests, wire.ChunkDigest(x.chunks[index]))
		chunk, err := wire.ParseChunk(x.chunks[index])
		x.must(err)
		messages = append(messages, chunk.Payload...)
	}
	all, root := wire.ChunksDigest(digests), rootOf(messages, seal.BitSize)
	if !bytes.Equal(m.ChunksDigest, all[:]) || !bytes.Equal(m.MessagesRoot, root[:]) {
		x.t.Error("the manifest is about other chunks")
	}
}

// One, two and four processes send the same messages, each once; what they exchanged has one length in each execution,
// whatever is in it, and is gone when all has left. A retry says the same.
func TestSeveralProcessesMixARelease(t *testing.T) {
	t.Parallel()
	for _, workers := range []int{1, 2, 4} {
		x := newExchange(t, 40, 3, workers)
		slots, err := x.Repeated(t.Context(), x.release)
		if err != nil || len(slots) > 0 {
			t.Fatalf("repeated: %v, %v", slots, err)
		}
		lengths := map[string]map[int]int{}
		for name, b := range x.segments {
			execution := name[:32]
			if lengths[execution] == nil {
				lengths[execution] = map[int]int{}
			}
			lengths[execution][len(b)]++
		}
		for _, l := range lengths {
			if len(l) != 1 {
				t.Errorf("segments of one execution have lengths %v", l)
			}
		}
		m, err := x.leave()
		x.must(err)
		x.whole(m)
		if len(x.segments) != 0 {
			t.Errorf("%d segments are left", len(x.segments))
		}
		x.begin(4, 3)
		again := new(wire.Manifest)
		_, err = x.Release(t.Context(), x.release, again)
		x.must(err)
		if !bytes.Equal(again.ChunksDigest, m.ChunksDigest) || !bytes.Equal(again.MessagesRoot, m.MessagesRoot) {
			t.Error("a retry says something else")
		}
		x.must(x.Forget(1, 0))
	}
}

var errDied = errors.New("died")

// Lead and workers may die at every step, again and again: what is behind the barrier goes on from what has left, and
// what is before it is drawn anew. No chunk that left is ever replaced.
func TestAnyProcessMayDieAtAnyStep(t *testing.T) {
	t.Parallel()
	steps := newExchange(t, 12, 2, 2)
	_, err := steps.leave()
	steps.must(err)
	for at := 1; at <= steps.steps; at++ {
		x := newExchange(t, 12, 2, 2)
		died := ""
		x.fails = func(step int, what string) error {
			if step == at || died != "" { // everything that it still does fails as well
				died = what
				return errDied
			}
			return nil
		}
		_, err := x.leave()
		left := map[uint32][]byte{}
		for i, b := range x.chunks {
			left[i] = b
		}
		if err == nil {
			t.Fatalf("step %d: %v", at, died)
		}
		x.fails = nil
		x.begin(3, 4) // the next process would draw another number of buckets
		m := new(wire.Manifest)
		if _, err = x.Release(t.Context(), x.release, m); err != nil {
			t.Fatalf("after %s failed at step %d: %v", died, at, err)
		}
		x.whole(m)
		for i, b := range left {
			if !bytes.Equal(x.chunks[i], b) {
				t.Errorf("after %s failed at step %d: chunk %d left twice", died, at, i)
			}
		}
	}
}

// twice is a pool that has every task done by two workers at the same time, and uses either result.
type twice struct {
	worker.Pool
	n atomic.Uint64
}

func (p *twice) Do(ctx context.Context, t worker.Task) ([]byte, error) {
	var results [2][]byte
	var errs [2]error
	var both sync.WaitGroup
	for i := range results {
		both.Go(func() { results[i], errs[i] = p.Pool.Do(ctx, t) })
	}
	both.Wait()
	return results[p.n.Add(1)%2], errors.Join(errs[:]...)
}

// A task that two workers do at the same time, because one was thought to be dead, leaves every message once.
func TestTasksThatAreDoneTwiceLeaveOnce(t *testing.T) {
	t.Parallel()
	for range 20 {
		x := newExchange(t, 20, 3, 8)
		x.Exchange.Pool = &twice{Pool: x.Exchange.Pool}
		m, err := x.leave()
		x.must(err)
		x.whole(m)
	}
}

// Over the whole path with one bucket and with three, parts of two members, chunks of two messages, and with a worker
// that dies behind its first chunk, so that another one goes on from it, every order of six messages is as likely as
// every other: 3600 releases over 720 orders, twice. The chi-square with 719 degrees of freedom passes 935 with a
// probability below 1e-6 (Wilson and Hilferty). It finds what it must: with any of the plants below it passes 1100.
func TestTheOrderOfAnExchangeIsUniform(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("nothing of it runs at the same time as anything else")
	}
	for _, buckets := range []uint32{1, 3} {
		all := orders(t, buckets)
		if chi := uniform(all); chi > 935 {
			t.Errorf("%d buckets: chi-square %.0f over 720 orders", buckets, chi)
		}
		planted(t, all)
	}
}

func planted(t *testing.T, all [][6]int) {
	t.Helper()
	for what, plant := range map[string]func([]int){
		"messages of one person stay together": func(o []int) {
			i, j := slices.Index(o, 0), slices.Index(o, 1)
			if d := i - j; d < -3 || d > 3 {
				o[(j+1)%6], o[i] = o[i], o[(j+1)%6]
			}
		},
		"what follows the chunk that stood is in order": func(o []int) { slices.Sort(o[2:4]) },
		"the smaller of the first two leaves first": func(o []int) {
			if o[0] > o[1] {
				o[0], o[1] = o[1], o[0]
			}
		},
	} {
		planted := make([][6]int, len(all))
		for i, o := range all {
			plant(o[:])
			planted[i] = o
		}
		if chi := uniform(planted); chi < 1100 {
			t.Errorf("%s: chi-square %.0f: not found", what, chi)
		}
	}
}

// orders are those in which the messages of many releases left.
func orders(t *testing.T, buckets uint32) (all [][6]int) {
	const releases = 3600
	x := newExchange(t, 3, 2, 1)
	x.begin(buckets, 2)
	x.Mixing.Chunk = 2
	for range releases {
		clear(x.chunks)
		_, err := x.Repeated(t.Context(), x.release)
		x.must(err)
		died := false
		x.fails = func(_ int, what string) error {
			if what == "chunk" && !died {
				died = true
				return errDied
			}
			return nil
		}
		m := new(wire.Manifest)
		if _, err := x.Release(t.Context(), x.release, m); !died || !errors.Is(err, errDied) {
			t.Fatal(err)
		}
		_, err = x.Release(t.Context(), x.release, m)
		x.must(err)
		all = append(all, [6]int(x.order()))
		x.must(x.Forget(1, 0))
	}
	return all
}

// uniform is the chi-square of orders of six over all that there are.
func uniform(all [][6]int) (chi float64) {
	seen := map[[6]int]int{}
	for _, o := range all {
		seen[o]++
	}
	mean := float64(len(all)) / 720
	for _, n := range seen {
		chi += (float64(n) - mean) * (float64(n) - mean) / mean
	}
	return chi + float64(720-len(seen))*mean
}

package shuffle

import (
	"bytes"
	"context"
	"encoding/binary"
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
	lost     []byte // the messages of the last chunk that was offered and not stored
	steps    int
	fails    func(step int, what string) error // asked before every step of a worker or the lead; nil: none fails
}

// newExchange has members with each bit messages, all different: the first bytes of a message are its number.
func newExchange(t testing.TB, members, each, workers int) *exchange {
	x := &exchange{
		t: t, payload: map[uint32][]byte{}, workers: workers,
		segments: map[string][]byte{}, chunks: map[uint32][]byte{}, disk: files{},
	}
	x.release = &channel.Release{
		Epoch: 1, Layout: channel.Layout{Messages: each}, Announced: &plan.Announcement{Final: true}, // no noise
	}
	for slot := range uint32(members) {
		m := channel.Member{Slot: slot, Sequence: uint64(members) - uint64(slot)}
		binary.BigEndian.PutUint32(m.Digest[:], slot)
		x.release.Members = append(x.release.Members, m)
		for i := range each {
			x.payload[slot] = append(x.payload[slot], numberedMessage(int(slot)*each+i)...)
		}
	}
	x.begin(4, 3)
	return x
}

// numberedMessage is a message that begins with its number.
func numberedMessage(n int) []byte {
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

// whole checks that what is at the broker is the release, once, and that the manifest says so.
func (x *exchange) whole(m *wire.Manifest) {
	x.t.Helper()
	order := x.order()
	slices.Sort(order)
	for i, n := range order {
		if i != n {
			x.t.Fatalf("message %d is where %d should be", n, i)
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

package inmemory

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/riffle-dp/riffle/internal/bus"
	"github.com/riffle-dp/riffle/internal/channel"
	"github.com/riffle-dp/riffle/internal/channel/shuffle"
	"github.com/riffle-dp/riffle/internal/channel/spill"
	"github.com/riffle-dp/riffle/internal/role/entropy"
	"github.com/riffle-dp/riffle/internal/worker"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/protocol"
	"github.com/riffle-dp/riffle/pkg/seal"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// Setup says how marked messages are mixed.
type Setup struct {
	Folder  string                 // for what does not fit into memory; it belongs to one process
	Memory  int64                  // of the store, in bytes; 0: so much that all fits
	Workers int                    // workers that mix together, each with its own draws; 0: one process alone
	Buckets uint32                 // that workers scatter to
	Chunk   int                    // messages that leave together; 0: the default
	Reorder func(messages []int)   // where set, breaks the shuffler on purpose: it gets every order, and sorts it anew
	source  func() protocol.Source // nil: the system's random bits. Only tests set it
}

// Marked mixes marked messages by the shuffler's own code, and tells in which order they left. The messages of releases
// with as many reports are the same each time, so that nothing but the shuffler's draws decides their order. It is not
// safe for concurrent use.
type Marked struct {
	setup   Setup
	store   *spill.Store
	mixing  *shuffle.Mixing
	streams *streams
	epoch   uint64
}

// sameKey is a source whose first words, of which the mixing makes the key that it sorts messages by before it permutes
// them, are the same for each release. So the order rests on the permutation alone: a second random order in front of
// it would hide a broken one.
type sameKey struct {
	words int
	then  protocol.Source
}

// keyWords is how many words the mixing draws for that key.
const keyWords = 4

func (s *sameKey) Uint64() uint64 {
	if s.words > 0 {
		s.words--
		return 0
	}
	return s.then.Uint64()
}

// enough is memory in which all messages of a check fit.
const enough = 1 << 30

// NewMarked makes a shuffler. Close it.
func NewMarked(s Setup) (*Marked, error) {
	memory := s.Memory
	if memory == 0 {
		memory = enough
	}
	store, err := spill.New(s.Folder, memory)
	if err != nil {
		return nil, err
	}
	if s.source == nil {
		s.source = func() protocol.Source { return entropy.New() }
	}
	m := &Marked{setup: s, store: store, streams: newStreams()}
	none := func() time.Duration { return 0 }
	m.mixing = &shuffle.Mixing{
		Chunks: m.streams, Disk: reordering{&outlet{files: map[string][]byte{}, cpu: none}, s.Reorder}, Store: store,
		Source: s.source(), Chunk: s.Chunk, Reports: m.report, // Order gives another source where it can
	}
	if s.Workers > 0 {
		mixer := &shuffle.Mixer{
			Deployment: "marked", Reports: m.reports, Segments: m.streams, Chunks: m.streams, Source: s.source,
		}
		m.mixing.Exchange = &shuffle.Exchange{
			Pool: worker.Inside(s.Workers, mixer.Handlers()), Segments: m.streams, Chunks: m.streams,
			Keys: [][]byte{make([]byte, 32)}, Buckets: s.Buckets,
		}
	}
	return m, nil
}

// Close gives back what mixing takes.
func (m *Marked) Close() error { return m.store.Close() }

// mark is the message of that number: an encapsulated key that no device would make, and nothing sealed.
func mark(b []byte, number int) []byte {
	var key [32]byte
	binary.BigEndian.PutUint64(key[:], uint64(number))
	message := make([]byte, seal.BitSize)
	_, _ = rand.NewChaCha8(key).Read(message) // it has no error; nobody's privacy rests on these bytes
	binary.BigEndian.PutUint32(message, uint32(number))
	return append(b, message...)
}

// payload is that of the report of a slot.
func (m *Marked) payload(slot uint32, each int) (b []byte) {
	for i := range each {
		b = mark(b, int(slot)*each+i)
	}
	return b
}

func (m *Marked) report(_ context.Context, r *channel.Release, member channel.Member) (*wire.Report, error) {
	return &wire.Report{Slot: member.Slot, Payload: m.payload(member.Slot, r.Layout.Messages)}, nil
}

// reports reads reports again for a worker.
func (m *Marked) reports(
	_ context.Context, r *channel.Release, members []channel.Member, take func(int, []byte),
) error {
	for i, member := range members {
		take(i, m.payload(member.Slot, r.Layout.Messages))
	}
	return nil
}

// Order mixes so many reports with each as many messages. order has at each place the number of the message that left
// there: messages are numbered from 0, report by report, as they were taken. chunks are how many left together.
func (m *Marked) Order(ctx context.Context, reports, each int) (order, chunks []int, err error) {
	m.epoch++
	m.streams.clear()
	if m.setup.Workers == 0 {
		m.mixing.Source = &sameKey{words: keyWords, then: m.setup.source()}
	}
	r := &channel.Release{
		Epoch: m.epoch, Layout: channel.Layout{Messages: each}, Announced: &plan.Announcement{Final: true}, // no noise
	}
	for i := range reports {
		member := channel.Member{Slot: uint32(i), Sequence: uint64(i) + 1}
		binary.BigEndian.PutUint64(member.Digest[:], uint64(i)+1)
		r.Members = append(r.Members, member)
		if err := m.mixing.Take(r.Epoch, r.Round, member, m.payload(member.Slot, each)); err != nil {
			return nil, nil, err
		}
	}
	switch slots, err := m.mixing.Repeated(ctx, r); {
	case err != nil:
		return nil, nil, err
	case len(slots) > 0:
		return nil, nil, fmt.Errorf("inmemory: %d reports seem to repeat a message", len(slots))
	}
	if _, err := m.mixing.Release(ctx, r, &wire.Manifest{}); err != nil {
		return nil, nil, err
	}
	if order, chunks, err = m.streams.order(); err != nil {
		return nil, nil, err
	}
	if len(order) != reports*each {
		return nil, nil, fmt.Errorf("%w: %d of %d messages", ErrOther, len(order), reports*each)
	}
	return order, chunks, m.mixing.Forget(r.Epoch, r.Round)
}

// reordering is a disk in memory on which a spool is sorted anew, if somebody wants to break the shuffler.
type reordering struct {
	*outlet
	reorder func([]int)
}

func (d reordering) Store(name string, write func(io.Writer) error) error {
	if err := d.outlet.Store(name, write); err != nil || d.reorder == nil {
		return err
	}
	file := d.files[name]
	var order []int
	for message := range slices.Chunk(file, seal.BitSize) {
		order = append(order, int(binary.BigEndian.Uint32(message)))
	}
	d.reorder(order)
	other := make([]byte, 0, len(file))
	for _, number := range order {
		other = mark(other, number)
	}
	d.files[name] = other
	return nil
}

// streams are those of the broker, in memory. It is safe for concurrent use.
type streams struct {
	mu       sync.Mutex
	chunks   map[uint32][]byte
	segments map[string][]byte
}

func newStreams() *streams {
	return &streams{chunks: map[uint32][]byte{}, segments: map[string][]byte{}}
}

func (s *streams) clear() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.chunks)
	clear(s.segments)
}

// order are the messages' numbers, chunk by chunk.
func (s *streams) order() (order, chunks []int, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range uint32(len(s.chunks)) {
		chunk, err := wire.ParseChunk(s.chunks[i])
		if err != nil {
			return nil, nil, fmt.Errorf("inmemory: chunk %d of %d: %w", i, len(s.chunks), err)
		}
		chunks = append(chunks, len(chunk.Payload)/seal.BitSize)
		for message := range slices.Chunk(chunk.Payload, seal.BitSize) {
			number := int(binary.BigEndian.Uint32(message))
			if !bytes.Equal(message, mark(nil, number)) {
				return nil, nil, ErrOther
			}
			order = append(order, number)
		}
	}
	return order, chunks, nil
}

func (s *streams) PublishChunk(_ context.Context, _ uint64, _, index uint32, payload []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if stored, ok := s.chunks[index]; ok && !bytes.Equal(stored, payload) {
		return &bus.ExistsError{Stored: stored}
	}
	s.chunks[index] = bytes.Clone(payload)
	return nil
}

func (s *streams) ReadChunk(_ context.Context, _ uint64, _, index uint32) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if b, ok := s.chunks[index]; ok {
		return b, nil
	}
	return nil, bus.ErrGone
}

func (s *streams) ReadChunks(_ context.Context, _ uint64, _ uint32, f func(uint32, []byte) error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, b := range s.chunks {
		if err := f(i, b); err != nil {
			return err
		}
	}
	return nil
}

func segment(name string, bucket uint32) string { return fmt.Sprintf("%s.%d", name, bucket) }

func (s *streams) PublishSegment(_ context.Context, _ uint64, _ uint32, name string, bucket uint32, b []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.segments[segment(name, bucket)] = bytes.Clone(b)
	return nil
}

func (s *streams) ReadSegment(_ context.Context, _ uint64, _ uint32, name string, bucket uint32) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if b, ok := s.segments[segment(name, bucket)]; ok {
		return bytes.Clone(b), nil
	}
	return nil, bus.ErrGone
}

func (s *streams) PurgeSegments(context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.segments)
	return nil
}

var (
	_ shuffle.Publisher    = (*streams)(nil)
	_ shuffle.ChunkStore   = (*streams)(nil)
	_ shuffle.SegmentStore = (*streams)(nil)
	_ channel.Disk         = reordering{}
)

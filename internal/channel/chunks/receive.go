// Package chunks is what the analyzer's sides of all channels share whose releases are permuted messages, sent in chunks
// that a manifest names: it receives the chunks of a round, each once, reads those again that came to an earlier
// process, and compares them with announcement and manifest. What a message holds is the channel's.
package chunks

import (
	"bytes"
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"github.com/riffle-dp/riffle/internal/channel"
	"github.com/riffle-dp/riffle/internal/role"
	"github.com/riffle-dp/riffle/internal/role/outcome"
	"github.com/riffle-dp/riffle/pkg/transparency"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// Why a message is not counted in every such channel.
const (
	Undecryptable outcome.Reason = "undecryptable" // does not open under the round's announcement
	Rejected      outcome.Reason = "rejected"      // announcement, manifest and messages do not fit together
	BadChunk      outcome.Reason = "bad_chunk"     // its chunk is unreadable, or another round's
)

// Store is what the broker keeps of rounds that are not counted yet. *bus.Conn is one, and documents the methods.
type Store interface {
	ReadChunks(ctx context.Context, epoch uint64, round uint32, handler func(index uint32, payload []byte) error) error
	PurgeMixed(ctx context.Context, epoch uint64, round uint32) error
}

// Receiver receives the chunks of one round after the other. T is what a channel finds in a chunk. Its methods are those
// of channel.Counting, but for Begin.
type Receiver[T any] struct {
	Store Store
	Clock role.Clock
	Log   zerolog.Logger

	current atomic.Pointer[Round[T]] // nil between rounds
}

// Begin starts a round whose messages have this length, and of which noise are the shuffler's. end is to be called when
// it is over. open is called with the messages of each chunk, one chunk at a time.
func (c *Receiver[T]) Begin(
	of *channel.Round, size int, noise uint64, open func(messages []byte) T,
) (r *Round[T], end func()) {
	r = &Round[T]{
		Round: of, size: size, open: open, arrived: make(chan struct{}, 1), chunks: map[uint32]*Chunk[T]{},
		digested: spare * (uint64(of.Cohort.Size)*uint64(of.ReportMessages()) + noise),
	}
	c.current.Store(r)
	return r, func() { c.current.Store(nil) }
}

// Take opens a chunk, and returns when that is done.
func (c *Receiver[T]) Take(p channel.Part) {
	if r := c.current.Load(); r != nil && r.Epoch == p.Epoch && r.Announcement.Round == p.Round {
		c.take(r, p.Payload)
		select {
		case r.arrived <- struct{}{}:
		default:
		}
	}
}

// Taken counts the messages that were opened.
func (c *Receiver[T]) Taken() (messages int) {
	if r := c.current.Load(); r != nil {
		r.mu.Lock()
		defer r.mu.Unlock()
		for _, chunk := range r.chunks {
			messages += chunk.Messages
		}
	}
	return messages
}

// Forget drops the round's chunks from the broker.
func (c *Receiver[T]) Forget(ctx context.Context, epoch uint64, round uint32) error {
	return c.Store.PurgeMixed(ctx, epoch, round)
}

// spare is how often the largest number of messages of a release have their digests kept: some in chunks that the
// manifest turns out not to name do no harm, and many take no memory.
const spare = 2

// quietTime is how long no chunk may come before those that are missing are read from the store.
const quietTime = 500 * time.Millisecond

// Complete waits for the first chunks of the round, this many, and reads those that Take did not bring: they came to an
// earlier process.
func (c *Receiver[T]) Complete(ctx context.Context, r *Round[T], chunks uint32) error {
	for r.lacks(chunks) {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-r.arrived: // what is on its way need not be read again
			continue
		case <-c.Clock.After(quietTime):
		}
		if !r.isBusy() {
			return c.Store.ReadChunks(ctx, r.Epoch, r.Announcement.Round, func(_ uint32, payload []byte) error {
				c.take(r, payload)
				return nil
			})
		}
	}
	return nil
}

// take opens a chunk of a round. A chunk that cannot be opened is logged: if the manifest names it, the round will be
// rejected.
func (c *Receiver[T]) take(r *Round[T], payload []byte) {
	if err := r.Open(payload); err != nil {
		c.Log.Error().Err(err).Str(outcome.Field, string(BadChunk)).Uint64("epoch", r.Epoch).
			Uint32("round", r.Announcement.Round).Msg("chunk not counted")
	}
}

// Round is the receiving of one round. It is safe for concurrent use.
type Round[T any] struct {
	*channel.Round
	size    int // of a message, in bytes
	open    func(messages []byte) T
	arrived chan struct{} // holds a token after a chunk arrived

	opening sync.Mutex // a chunk is opened once, whichever way it comes

	mu       sync.Mutex
	chunks   map[uint32]*Chunk[T] // by index
	busy     bool                 // a chunk is being opened
	digested uint64               // how many more messages have their digests kept
}

// Chunk is a chunk that was opened.
type Chunk[T any] struct {
	Found    T
	Messages int
	Digest   [32]byte // wire.ChunkDigest's
	// messages are the digests of the messages, 32 bytes of each until the manifest is checked; nil if too many came
	// before.
	messages [][32]byte
}

// Chunk is the chunk with this index; nil if it was not opened yet.
func (r *Round[T]) Chunk(index uint32) *Chunk[T] {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.chunks[index]
}

// lacks tells whether one of the first chunks, this many, was not opened yet. Others may have been: a shuffler can send
// chunks that its manifest does not name.
func (r *Round[T]) lacks(chunks uint32) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.chunks) < int(chunks) {
		return true
	}
	for i := range chunks {
		if r.chunks[i] == nil {
			return true
		}
	}
	return false
}

func (r *Round[T]) isBusy() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.busy
}

// Open opens one chunk. A chunk that was opened is skipped.
func (r *Round[T]) Open(payload []byte) error {
	c, err := wire.ParseChunk(payload)
	if err != nil {
		return err
	}
	if len(c.Payload)%r.size != 0 {
		return fmt.Errorf("a chunk of %d bytes, which are not whole messages of %d", len(c.Payload), r.size)
	}
	if c.Epoch != r.Epoch || c.Round != r.Announcement.Round {
		return fmt.Errorf("chunk of round %d of epoch %d in the stream of round %d of epoch %d",
			c.Round, c.Epoch, r.Announcement.Round, r.Epoch)
	}
	r.opening.Lock()
	defer r.opening.Unlock()
	r.mu.Lock()
	known := r.chunks[c.Index] != nil
	r.busy = !known
	r.mu.Unlock()
	if known {
		return nil
	}
	chunk := &Chunk[T]{Messages: len(c.Payload) / r.size, Digest: wire.ChunkDigest(payload)}
	if n := uint64(chunk.Messages); n <= r.digested {
		r.digested -= n
		chunk.messages = wire.AppendMessageDigests(make([][32]byte, 0, n), c.Payload, r.size)
	}
	chunk.Found = r.open(c.Payload)
	r.mu.Lock()
	r.chunks[c.Index], r.busy = chunk, false
	r.mu.Unlock()
	return nil
}

// Sent is what came of the chunks that a manifest names.
type Sent struct {
	Messages int
	Chunks   [32]byte // wire.ChunksDigest's
	// Root is over the messages that came, and nil where the manifest names none or too many messages came.
	Root []byte
}

// Named are the chunks that a manifest names, in order, and what came in them. The error wraps Rejected where one of
// them did not come.
func (r *Round[T]) Named(m *wire.Manifest) (named []*Chunk[T], sent Sent, err error) {
	var digests [][32]byte
	for i := range m.Chunks {
		chunk := r.Chunk(i)
		if chunk == nil {
			return nil, Sent{}, fmt.Errorf("%w: chunk %d of %d is not in the stream", Rejected, i, m.Chunks)
		}
		named, digests = append(named, chunk), append(digests, chunk.Digest)
		sent.Messages += chunk.Messages
	}
	sent.Chunks = wire.ChunksDigest(digests)
	if len(m.MessagesRoot) > 0 {
		sent.Root = root(named, sent.Messages)
	}
	return named, sent, nil
}

// root is the root over this many messages in chunks, whose digests it drops; nil if they were not kept.
func root[T any](of []*Chunk[T], messages int) []byte {
	digests := make([][32]byte, 0, messages)
	for _, chunk := range of {
		digests = append(digests, chunk.messages...)
		chunk.messages = nil
	}
	if len(digests) < messages {
		return nil
	}
	root := transparency.SortedRoot(digests)
	return root[:]
}

// Check compares a manifest with the round's announcement, and with what came. noise is how many messages the plan wants
// of the shuffler. Its errors wrap Rejected.
//
// Of the chunks the analyzer needs no more than their digest. The root of the messages is checked for whoever reads the
// audit log and sees no message: with the counts, the analyzer says that the root is of what it counted. A manifest of a
// version without roots passes.
func Check(r *channel.Round, m *wire.Manifest, sent Sent, noise uint64) error {
	rejected := func(format string, v ...any) error { return fmt.Errorf("%w: %s", Rejected, fmt.Sprintf(format, v...)) }
	hold := uint64(m.Reports) * uint64(r.ReportMessages())
	switch {
	case !bytes.Equal(m.Announcement, r.Digest[:]):
		return rejected("the shuffler admitted reports for another announcement, %x", m.Announcement[:8])
	case m.Reports < r.Cohort.Minimum:
		return rejected("the shuffler released %d reports, below the minimum of %d", m.Reports, r.Cohort.Minimum)
	case m.Reports > r.Cohort.Size:
		return rejected("the shuffler released %d reports from a cohort of %d", m.Reports, r.Cohort.Size)
	case m.NoiseMessages != noise:
		return rejected("the shuffler added %d messages of noise, planned are %d", m.NoiseMessages, noise)
	case !bytes.Equal(m.ChunksDigest, sent.Chunks[:]):
		return rejected("the chunks are not those of the manifest")
	case m.Messages != uint64(sent.Messages) || m.Messages != hold+noise:
		return rejected("%d messages came, the manifest says %d, %d reports hold %d, and %d are noise",
			sent.Messages, m.Messages, m.Reports, hold, noise)
	case len(m.MessagesRoot) > 0 && sent.Root == nil:
		return rejected("too many messages came to hold them against the manifest's root: " +
			"most are in chunks that the manifest does not name")
	case !bytes.Equal(m.MessagesRoot, sent.Root):
		return rejected("the manifest's root is not that of the messages that came")
	}
	return nil
}

package chunks

import (
	"context"
	"encoding/binary"
	"fmt"
	"sync"

	"github.com/rs/zerolog"

	"github.com/riffle-dp/riffle/internal/channel"
	"github.com/riffle-dp/riffle/internal/channel/spill"
	"github.com/riffle-dp/riffle/internal/worker"
	"github.com/riffle-dp/riffle/pkg/transparency"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// spare is how often the largest number of messages of a release are taken in: some in chunks that the manifest turns
// out not to name do no harm, and many take neither work nor room.
const spare = 2

// Of each message an entry is kept until the manifest is checked: its digest, and the index of its chunk.
const entrySize = 32 + 4

// Round is the receiving of one round. It is safe for concurrent use.
type Round[T any] struct {
	*channel.Round
	how     Opening[T]
	pool    worker.Pool // nil: chunks are opened here
	most    int         // bytes that are handed out at a time
	log     zerolog.Logger
	ctx     context.Context // of the round: chunks come without one
	arrived chan struct{}   // holds a token after a chunk arrived or was opened
	back    chan struct{}   // holds a token after a chunk that was handed out came back

	opening sync.Mutex // a chunk is taken in once, whichever way it comes. It guards what follows.
	closed  bool
	digests *spill.Sorter
	room    uint64 // how many more messages are taken in
	entries []byte // reused

	out sync.WaitGroup // chunks that were handed out

	mu     sync.Mutex
	failed error                // after which the round cannot go on
	chunks map[uint32]*Chunk[T] // by index
	taken  int                  // messages that were opened
	busy   int                  // chunks that are being opened
	moved  int                  // how often busy changed
	held   int                  // bytes of those that were handed out
}

// Chunk is a chunk that was taken in.
type Chunk[T any] struct {
	Found    T // once it is opened
	Messages int
	Digest   [32]byte // wire.ChunkDigest's

	index  uint32
	opened bool // or will never be
	spared bool // more came before than a release has: it is not opened, and a round that it belongs to is refused
}

// Chunk is the chunk with this index; nil if it was not opened yet.
func (r *Round[T]) Chunk(index uint32) *Chunk[T] {
	r.mu.Lock()
	defer r.mu.Unlock()
	if c := r.chunks[index]; c != nil && c.opened {
		return c
	}
	return nil
}

// progress is how far a round is.
type progress struct {
	lacks bool // one of the chunks that are waited for was not opened yet
	busy  bool // a chunk is being opened
	moved int  // how often a chunk came or was opened
}

// lacks reports whether one of the first chunks, this many, was not opened yet, and what goes on. Others may have been
// opened: a shuffler can send chunks that its manifest does not name.
func (r *Round[T]) lacks(chunks uint32) (p progress, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	p = progress{lacks: len(r.chunks) < int(chunks), busy: r.busy > 0, moved: r.moved}
	for i := uint32(0); i < chunks && !p.lacks; i++ {
		c := r.chunks[i]
		p.lacks = c == nil || !c.opened
	}
	return p, r.failed
}

// came reports whether a chunk came, opened or not.
func (r *Round[T]) came(index uint32) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.chunks[index] != nil
}

func (r *Round[T]) tell() {
	select {
	case r.arrived <- struct{}{}:
	default:
	}
}

// Open takes in one chunk, and opens it or hands it out. A chunk that came before is skipped.
func (r *Round[T]) Open(payload []byte) error {
	c, err := wire.ParseChunk(payload)
	if err != nil {
		return err
	}
	if err := r.belongs(c); err != nil {
		return err
	}
	r.opening.Lock()
	defer r.opening.Unlock()
	if r.closed {
		return nil
	}
	chunk := &Chunk[T]{Messages: len(c.Payload) / r.how.Size, index: c.Index}
	r.mu.Lock()
	known := r.chunks[c.Index] != nil || r.failed != nil
	if !known {
		r.busy++
		r.moved++
	}
	r.mu.Unlock()
	if known {
		return nil
	}
	chunk.Digest = wire.ChunkDigest(payload)
	n := uint64(chunk.Messages)
	if chunk.spared = n > r.room; !chunk.spared {
		r.room -= n
		if err := r.digest(c); err != nil {
			r.fail(err)
			return nil
		}
	}
	r.mu.Lock()
	r.chunks[c.Index] = chunk
	r.mu.Unlock()
	switch {
	case chunk.spared:
		r.note(chunk, chunk.Found)
	case r.pool == nil:
		r.note(chunk, r.how.Open(c.Payload))
	default:
		r.hand(chunk, c.Payload)
	}
	return nil
}

// belongs checks that a chunk is one of the round, of whole messages.
func (r *Round[T]) belongs(c *wire.Chunk) error {
	if len(c.Payload)%r.how.Size != 0 {
		return fmt.Errorf("a chunk of %d bytes, which are not whole messages of %d", len(c.Payload), r.how.Size)
	}
	if c.Epoch != r.Epoch || c.Round != r.Announcement.Round {
		return fmt.Errorf("chunk of round %d of epoch %d in the stream of round %d of epoch %d",
			c.Round, c.Epoch, r.Announcement.Round, r.Epoch)
	}
	return nil
}

// digest keeps the digests of a chunk's messages.
func (r *Round[T]) digest(c *wire.Chunk) error {
	r.entries = r.entries[:0]
	for at := 0; at < len(c.Payload); at += r.how.Size {
		digest := wire.MessageDigest(c.Payload[at : at+r.how.Size])
		r.entries = append(r.entries, digest[:]...)
		r.entries = binary.BigEndian.AppendUint32(r.entries, c.Index)
	}
	return r.digests.Append(r.entries)
}

// note notes what was found in a chunk.
func (r *Round[T]) note(chunk *Chunk[T], found T) {
	r.mu.Lock()
	chunk.Found, chunk.opened = found, true
	r.taken += chunk.Messages
	r.busy--
	r.moved++
	r.mu.Unlock()
	r.tell()
}

// fail ends the round with an error that is no verdict on it.
func (r *Round[T]) fail(err error) {
	r.mu.Lock()
	if r.failed == nil {
		r.failed = fmt.Errorf("chunks: digests of round %d of epoch %d: %w", r.Announcement.Round, r.Epoch, err)
	}
	r.busy--
	r.moved++
	r.mu.Unlock()
	r.tell()
}

// close waits for what goes on, and gives back what the round takes. Its context has ended.
func (r *Round[T]) close() {
	r.opening.Lock()
	defer r.opening.Unlock()
	r.closed = true
	r.out.Wait()
	if err := r.digests.Close(); err != nil {
		r.log.Warn().Err(err).Msg("a file of digests could not be removed")
	}
}

// Sent is what came of the chunks that a manifest names.
type Sent struct {
	Messages int
	Chunks   [32]byte // wire.ChunksDigest's
	// Root is over the messages that came; nil if too many came to hold them against the manifest.
	Root []byte
	// Twice are two chunks, or one twice, in which the same message is, byte for byte; nil if all messages differ.
	Twice *[2]uint32
}

// Named are the chunks that a manifest names, in order, and what came in them. It is called once. The error wraps
// Rejected where one of them did not come. Where Root is nil, what was found in the chunks may be missing.
func (r *Round[T]) Named(m *wire.Manifest) (named []*Chunk[T], sent Sent, err error) {
	var digests [][32]byte
	complete := true
	for i := range m.Chunks {
		chunk := r.Chunk(i)
		if chunk == nil {
			return nil, Sent{}, fmt.Errorf("%w: chunk %d of %d is not in the stream", Rejected, i, m.Chunks)
		}
		named, digests = append(named, chunk), append(digests, chunk.Digest)
		sent.Messages += chunk.Messages
		complete = complete && !chunk.spared
	}
	sent.Chunks = wire.ChunksDigest(digests)
	if complete {
		err = r.compare(m.Chunks, &sent)
	}
	return named, sent, err
}

// compare goes through the digests of the messages in the first chunks, this many, in ascending order: they are the
// leaves under the root, and messages that are the same are beside each other. Digests of messages in other chunks
// are passed over.
func (r *Round[T]) compare(chunks uint32, sent *Sent) error {
	r.opening.Lock()
	defer r.opening.Unlock()
	var tree transparency.SortedTree
	var last [32]byte
	var in uint32 // the chunk that it is in
	err := r.digests.Sorted(func(entries []byte) error {
		for ; len(entries) > 0; entries = entries[entrySize:] {
			digest, index := [32]byte(entries), binary.BigEndian.Uint32(entries[len(last):])
			if index >= chunks {
				continue
			}
			if tree.Size() > 0 && digest == last && sent.Twice == nil {
				sent.Twice = &[2]uint32{in, index}
			}
			last, in = digest, index
			if err := tree.Append(digest); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("chunks: digests of round %d of epoch %d: %w", r.Announcement.Round, r.Epoch, err)
	}
	root := tree.Root()
	sent.Root = root[:]
	return nil
}

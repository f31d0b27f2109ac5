package shuffle

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"runtime"
	"sync"

	"github.com/riffle-dp/riffle/internal/channel"
	"github.com/riffle-dp/riffle/pkg/channel/shuffle"
	"github.com/riffle-dp/riffle/pkg/seal"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// round is the counting of one round.
type round struct {
	*channel.Round
	opener  *seal.BitOpener
	arrived chan struct{} // holds a token after a chunk arrived

	opening sync.Mutex      // a chunk is opened once, whichever way it comes, and on all processors at once
	copies  *shuffle.Copies // of the chunks that were opened; guarded by opening

	mu     sync.Mutex
	chunks map[uint32]*chunk // by index
	busy   bool              // a chunk is being opened
}

// chunk is what was found in one chunk.
type chunk struct {
	*shuffle.Tally
	digest [32]byte
}

func newRound(of *channel.Round) *round {
	expected := int(of.Cohort.Size) * of.ReportMessages()
	return &round{
		Round: of, opener: seal.NewBitOpener(of.Key, of.Digest), arrived: make(chan struct{}, 1),
		copies: shuffle.NewCopies(maphash.MakeSeed(), expected), chunks: map[uint32]*chunk{},
	}
}

// counted is the chunk with this index; nil if it was not counted yet.
func (r *round) counted(index uint32) *chunk {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.chunks[index]
}

// lacks tells whether one of the first chunks, this many, was not counted yet. Others may have been: a shuffler can
// send chunks that its manifest does not name.
func (r *round) lacks(chunks uint32) bool {
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

func (r *round) isBusy() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.busy
}

// open decrypts and counts one chunk, on all processors. A chunk that was counted is skipped.
func (r *round) open(payload []byte) error {
	c, err := wire.ParseChunk(payload)
	if err != nil {
		return err
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
	tally := r.tally(c.Bits)
	r.copies.Add(c.Bits)
	r.mu.Lock()
	r.chunks[c.Index], r.busy = &chunk{tally, wire.ChunkDigest(payload)}, false
	r.mu.Unlock()
	return nil
}

// tally opens messages on all processors.
func (r *round) tally(bits []byte) *shuffle.Tally {
	messages, parts := len(bits)/seal.BitSize, runtime.GOMAXPROCS(0)
	tallies := make([]*shuffle.Tally, parts)
	var open sync.WaitGroup
	for p := range parts {
		open.Go(func() {
			tallies[p] = shuffle.NewTally(r.Encodings)
			tallies[p].Open(r.opener, bits[p*messages/parts*seal.BitSize:(p+1)*messages/parts*seal.BitSize])
		})
	}
	open.Wait()
	for _, t := range tallies[1:] {
		tallies[0].Add(t)
	}
	return tallies[0]
}

// errFound ends the second pass over the chunks.
var errFound = errors.New("a message stands twice")

// copied reads a counted round's chunks again if a message may stand twice. refused, if not nil, says where one does
// (Repeated), or that the chunks are not there any more as they were counted, or that too many messages may be copies
// to compare them all (Rejected).
func (c *Counting) copied(ctx context.Context, r *round, m *wire.Manifest) (refused, err error) {
	r.opening.Lock()
	suspects, complete := r.copies.Suspects()
	r.opening.Unlock()
	if suspects == nil {
		return nil, nil
	}
	read := map[uint32]bool{}
	err = c.Chunks.ReadChunks(ctx, r.Epoch, r.Announcement.Round, func(_ uint32, payload []byte) error {
		chunk, err := wire.ParseChunk(payload)
		if err != nil || read[chunk.Index] || chunk.Index >= m.Chunks {
			return nil // what cannot be parsed was not counted
		}
		if counted := r.counted(chunk.Index); counted == nil || counted.digest != wire.ChunkDigest(payload) {
			return nil // it is not the one that was counted
		}
		read[chunk.Index] = true
		if first, second, found := suspects.Compare(chunk.Index, chunk.Bits); found {
			refused = fmt.Errorf("%w: message %d of chunk %d is the same as message %d of chunk %d: "+
				"a person's bits were copied", Repeated, second.Message, second.Chunk, first.Message, first.Chunk)
			return errFound
		}
		return nil
	})
	switch {
	case errors.Is(err, errFound):
		return refused, nil
	case err != nil:
		return nil, err
	case len(read) < int(m.Chunks):
		return fmt.Errorf("%w: only %d of %d chunks could be read again to compare messages",
			Rejected, len(read), m.Chunks), nil
	case !complete:
		return fmt.Errorf("%w: too many messages look as if they stood twice to compare them: "+
			"too many came, some in chunks that the manifest does not name", Rejected), nil
	}
	return nil, nil
}

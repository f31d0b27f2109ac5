package shuffle

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"

	"github.com/riffle-dp/riffle/internal/channel"
	"github.com/riffle-dp/riffle/internal/channel/chunks"
	"github.com/riffle-dp/riffle/pkg/channel/shuffle"
	"github.com/riffle-dp/riffle/pkg/seal"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// open decrypts and counts bit messages, on all processors.
func open(r *channel.Round, opener *seal.BitOpener, bits []byte) *shuffle.Tally {
	messages, parts := len(bits)/seal.BitSize, runtime.GOMAXPROCS(0)
	tallies := make([]*shuffle.Tally, parts)
	var open sync.WaitGroup
	for p := range parts {
		open.Go(func() {
			tallies[p] = shuffle.NewTally(r.Encodings)
			tallies[p].Open(opener, bits[p*messages/parts*seal.BitSize:(p+1)*messages/parts*seal.BitSize])
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
	r.mu.Lock()
	suspects, complete := r.copies.Suspects()
	r.mu.Unlock()
	if suspects == nil {
		return nil, nil
	}
	read := map[uint32]bool{}
	err = c.Store.ReadChunks(ctx, r.Epoch, r.Announcement.Round, func(_ uint32, payload []byte) error {
		chunk, err := wire.ParseChunk(payload)
		if err != nil || read[chunk.Index] || chunk.Index >= m.Chunks {
			return nil // what cannot be parsed was not counted
		}
		if counted := r.Chunk(chunk.Index); counted == nil || counted.Digest != wire.ChunkDigest(payload) {
			return nil // it is not the one that was counted
		}
		read[chunk.Index] = true
		if first, second, found := suspects.Compare(chunk.Index, chunk.Payload); found {
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
			chunks.Rejected, len(read), m.Chunks), nil
	case !complete:
		return fmt.Errorf("%w: too many messages look as if they stood twice to compare them: "+
			"too many came, some in chunks that the manifest does not name", chunks.Rejected), nil
	}
	return nil, nil
}

package shuffle

import (
	"runtime"
	"sync"

	"github.com/riffle-dp/riffle/internal/channel"
	"github.com/riffle-dp/riffle/internal/channel/chunks"
	"github.com/riffle-dp/riffle/internal/worker"
	"github.com/riffle-dp/riffle/pkg/channel/shuffle"
	"github.com/riffle-dp/riffle/pkg/seal"
)

// TaskCount is the kind of task by which a worker opens and counts a chunk of bit messages.
const TaskCount = "count-bits"

// CountHandler opens and counts chunks of bit messages on all processors, for rounds whose analyzer's key is among
// keys.
func CountHandler(from chunks.Reader, keys []*seal.HPKEKey) worker.Handler {
	size := func(*channel.Round) int { return seal.BitSize }
	return chunks.Handler(from, keys, size, func(of *channel.Round, messages []byte) ([]byte, error) {
		return open(of, seal.NewBitOpener(of.Key, of.Digest), messages), nil
	})
}

// tally is a shuffle.Tally as bytes: 8 of each coordinate, whatever the number of messages, since one is kept of each
// chunk until the manifest says which ones count.
type tally []byte

// open decrypts and counts bit messages, on all processors.
func open(r *channel.Round, opener *seal.BitOpener, bits []byte) tally {
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
	b, _ := tallies[0].AppendBinary(nil) // which returns no error
	return b
}

package chunks

import (
	"context"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/riffle-dp/riffle/internal/channel"
	"github.com/riffle-dp/riffle/internal/channel/spill"
	"github.com/riffle-dp/riffle/internal/role"
	"github.com/riffle-dp/riffle/internal/testing/testbed"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/protocol"
	"github.com/riffle-dp/riffle/pkg/seal"
	"github.com/riffle-dp/riffle/pkg/transparency"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// each is how many messages a chunk has, as the shuffler sends them by default.
const each = 16384

// makeChunk is a random chunk.
func makeChunk(t *testing.T, src *rand.ChaCha8, index uint32) (chunk, messages []byte) {
	t.Helper()
	messages = make([]byte, each*seal.BitSize)
	src.Read(messages)
	chunk, err := wire.BuildChunk(wire.Chunk{Epoch: 1, Index: index, Payload: messages})
	if err != nil {
		t.Fatal(err)
	}
	return chunk, messages
}

// received takes in this many random chunks, whose messages nobody opens, and returns what came, the manifest's root by
// definition where want is set, and the most bytes of the heap that were seen to be reachable, above what was before.
func receive(t *testing.T, chunks int, memory int64, want bool) (sent Sent, root transparency.Hash, peak int64) {
	t.Helper()
	store, err := spill.New(t.TempDir(), memory)
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	c := &Receiver[[]byte]{Store: &testbed.Chunks{}, Spill: store, Clock: role.SystemClock(), Log: zerolog.Nop()}
	of := &channel.Round{Announcement: &plan.Announcement{
		Epoch: 1, Cohort: plan.Cohort{Size: uint32(chunks)}, Plan: plan.Plan{Channel: plan.Shuffle},
		Encodings: []protocol.Encoding{{Coordinates: []protocol.Coordinate{{Levels: each}}}},
	}}
	r, end := c.Begin(t.Context(), of, Opening[[]byte]{
		Size: seal.BitSize, Open: func([]byte) []byte { return nil },
	})
	defer end()
	// What is garbage does not count: how much of it there is depends on when the collector has a processor.
	reachable := func() int64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	before := reachable()
	src := rand.NewChaCha8([32]byte{1})
	var digests [][32]byte
	for i := range uint32(chunks) {
		chunk, messages := makeChunk(t, src, i)
		c.Take(channel.Part{Epoch: 1, Payload: chunk})
		if want {
			for message := range slices.Chunk(messages, seal.BitSize) {
				digests = append(digests, wire.MessageDigest(message))
			}
		} else if i%4 == 0 { // between two chunks, so that what this test makes does not count
			peak = max(peak, reachable()-before)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		for ctx.Err() == nil {
			peak = max(peak, reachable()-before)
		}
	}()
	_, sent, err = r.Named(&wire.Manifest{Chunks: uint32(chunks)})
	cancel()
	<-watched
	if err != nil {
		t.Fatal(err)
	}
	return sent, transparency.SortedRoot(digests), peak
}

// Far more digests than fit into memory give the root that the manifest must have.
func TestTheRootOfMoreThanFitsIntoMemory(t *testing.T) {
	sent, root, _ := receive(t, 12, 1<<18, true)
	if sent.Messages != 12*each || sent.Twice != nil || !slices.Equal(sent.Root, root[:]) {
		t.Errorf("%d messages, %v twice, root %x, want %x", sent.Messages, sent.Twice, sent.Root, root)
	}
}

// A duplicate message is found where the digests are in many files, with the chunks that it is in; one that
// is again in a chunk that the manifest does not name is not.
func TestACopyIsFoundAmongMoreThanFitsIntoMemory(t *testing.T) {
	t.Parallel()
	const chunks = 10
	for name, copies := range map[string][2]uint32{
		"first and last chunk": {0, chunks - 1}, "neighbours": {4, 5},
		"one chunk": {7, 7}, "an unnamed chunk": {3, chunks},
	} {
		store, err := spill.New(t.TempDir(), 1<<18)
		if err != nil {
			t.Fatal(err)
		}
		defer store.Close()
		c := &Receiver[int]{Store: &testbed.Chunks{}, Spill: store, Clock: role.SystemClock(), Log: zerolog.Nop()}
		r, end := c.Begin(t.Context(), &channel.Round{Announcement: &plan.Announcement{
			Epoch: 1, Cohort: plan.Cohort{Size: chunks + 1}, Plan: plan.Plan{Channel: plan.Shuffle},
			Encodings: []protocol.Encoding{{Coordinates: []protocol.Coordinate{{Levels: each}}}},
		}}, Opening[int]{Size: seal.BitSize, Open: func(messages []byte) int { return len(messages) }})
		defer end()
		src := rand.NewChaCha8([32]byte{2})
		copied := make([]byte, seal.BitSize)
		src.Read(copied)
		for i := range uint32(chunks + 1) {
			_, messages := makeChunk(t, src, i)
			if i == copies[0] {
				copy(messages, copied)
			}
			if i == copies[1] {
				copy(messages[len(messages)-seal.BitSize:], copied)
			}
			chunk, err := wire.BuildChunk(wire.Chunk{Epoch: 1, Index: i, Payload: messages})
			if err != nil {
				t.Fatal(err)
			}
			c.Take(channel.Part{Epoch: 1, Payload: chunk})
		}
		_, sent, err := r.Named(&wire.Manifest{Chunks: chunks})
		if err != nil {
			t.Fatal(err)
		}
		if named := copies[1] < chunks; named != (sent.Twice != nil) || named && *sent.Twice != copies {
			t.Errorf("%s: %v, want %v", name, sent.Twice, copies)
		}
	}
}

// What receiving a round takes does not grow with its messages: digests of a million take 36 MB, and what is reachable
// is at most what the store may take twice, and 16 MiB.
func TestMemoryDoesNotGrowWithMessages(t *testing.T) {
	if testing.Short() {
		t.Skip("nothing of it runs at the same time as anything else, and the race detector takes memory of its own")
	}
	sizes := []int{64}
	memory := int64(4 << 20)
	if os.Getenv("RIFFLE_LONG") != "" {
		sizes, memory = []int{64, 640, 3200}, spill.DefaultMemory
	}
	for _, chunks := range sizes {
		begin := time.Now()
		sent, _, peak := receive(t, chunks, memory, false)
		t.Logf("%d messages: %d MiB reachable at most, %.0f messages/s", sent.Messages, peak>>20,
			float64(sent.Messages)/time.Since(begin).Seconds())
		if most := 2*memory + 16<<20; peak > most {
			t.Errorf("%d messages take %d MiB, want at most %d", sent.Messages, peak>>20, most>>20)
		}
	}
}

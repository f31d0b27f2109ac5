package analyzer

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"maps"

	"github.com/riffle-dp/riffle/pkg/seal"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// A round's bit messages are all different: each has an encapsulated key of its own. A shuffler that forwards copies of one person's
// messages multiplies that person's part in the sums, where every copy would add no noise; the next policy would tell it. So a release
// in which a message stands twice is not counted.
//
// Whoever cannot open a message cannot make another one of it, so comparing bytes is enough. A shuffler that makes up bits of its own
// in place of everybody else's is not found out: see the threat model.

const (
	// filterBits is the size of the filter for each message: 2 bytes, 120 MB for a cohort of 400 000 with 150 messages each.
	filterBits = 16
	// filterProbes is how many bits of the filter a message sets. When all are in, (1-exp(-8/16))^8 = 6e-4 of other messages would look
	// as if they had been there; while they come, 8e-5 of them do in the mean: 5000 of 60 million. It takes half a microsecond, where opening
	// a message takes fifty.
	filterProbes = 8
	// maxSuspects bounds the messages that are looked at again. A random key decides which messages only look like others, so that a
	// cohort's own messages are never so many suspects but for a chance beyond any chance, unless they are copies. More messages than the
	// filter was made for can be: a shuffler that sends chunks which its manifest does not name could hide copies behind them. So a round
	// with more suspects is refused.
	maxSuspects = 1 << 20
)

// copies finds messages that stand twice among very many, in two passes: while they come, a filter picks suspects, every message that
// stands twice among them; a second pass over the stored chunks compares the suspects byte for byte.
type copies struct {
	seed     maphash.Seed
	filter   []uint64
	suspects map[uint64]struct{} // hashes
	most     int                 // suspects that are kept: maxSuspects, but for tests
	dropped  bool                // a suspect was not kept
}

// newCopies prepares for so many messages. More are looked at just as well, with more suspects.
func newCopies(messages, bitsEach int) *copies {
	return &copies{seed: maphash.MakeSeed(), filter: make([]uint64, max(1, messages*bitsEach/64)), suspects: map[uint64]struct{}{}, most: maxSuspects}
}

// add takes in bit messages, one after another. It belongs to one goroutine at a time.
func (c *copies) add(messages []byte) {
	size := uint64(len(c.filter)) * 64
	for at := 0; at < len(messages); at += seal.BitSize {
		hash := maphash.Bytes(c.seed, messages[at:at+seal.BitSize])
		there := true
		for x, i := hash, 0; i < filterProbes; i++ {
			x = scramble(x)
			place := x % size
			if mask := uint64(1) << (place % 64); c.filter[place/64]&mask == 0 {
				there = false
				c.filter[place/64] |= mask
			}
		}
		switch {
		case !there:
		case len(c.suspects) < c.most:
			c.suspects[hash] = struct{}{}
		default:
			c.dropped = true
		}
	}
}

// scramble is the finalizer of SplitMix64: a bijection whose values look independent.
func scramble(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// position is where a message stands in a release.
type position struct {
	chunk   uint32
	message int
}

// second looks at chunks again, each once, and returns the two places of a message that stands twice.
type second struct {
	seed     maphash.Seed
	suspects map[uint64]struct{}
	seen     map[[seal.BitSize]byte]position // suspects
}

// again begins the second pass, with the suspects up to now.
func (c *copies) again() *second {
	return &second{c.seed, maps.Clone(c.suspects), map[[seal.BitSize]byte]position{}}
}

// look goes through one chunk. found says that a message of it stands at first, too.
func (s *second) look(chunk uint32, messages []byte) (first, twice position, found bool) {
	for at := 0; at < len(messages); at += seal.BitSize {
		if _, suspect := s.suspects[maphash.Bytes(s.seed, messages[at:at+seal.BitSize])]; !suspect {
			continue
		}
		message, here := [seal.BitSize]byte(messages[at:]), position{chunk, at / seal.BitSize}
		if first, ok := s.seen[message]; ok {
			return first, here, true
		}
		s.seen[message] = here
	}
	return first, twice, false
}

// copied reads a counted round's chunks again where a message may stand twice. finding, if not nil, says where one does (Repeated), or that
// the chunks are no longer there as they were counted, or that too many messages may be copies to compare them all (Rejected).
func (n *counter) copied(ctx context.Context, work *roundWork, m *wire.Manifest) (finding, err error) {
	work.opening.Lock()
	again, dropped := work.copies.again(), work.copies.dropped
	work.opening.Unlock()
	if len(again.suspects) == 0 {
		return nil, nil
	}
	read := map[uint32]bool{}
	err = n.c.Bus.ReadChunks(ctx, work.at.epoch, work.at.round, func(_ uint32, payload []byte) error {
		chunk, err := wire.ParseChunk(payload)
		if err != nil || read[chunk.Index] || chunk.Index >= m.Chunks {
			return nil // what cannot be parsed was not counted
		}
		n.mu.Lock()
		counted := work.chunks[chunk.Index]
		n.mu.Unlock()
		if counted == nil || counted.digest != wire.ChunkDigest(payload) {
			return nil // another round's
		}
		read[chunk.Index] = true
		if first, twice, found := again.look(chunk.Index, chunk.Bits); found {
			finding = fmt.Errorf("%w: message %d of chunk %d is the same as message %d of chunk %d: somebody's bits were copied", Repeated, twice.message, twice.chunk, first.message, first.chunk)
			return errFound
		}
		return nil
	})
	if errors.Is(err, errFound) {
		return finding, nil
	}
	switch {
	case err != nil:
	case len(read) < int(m.Chunks):
		finding = fmt.Errorf("%w: only %d of %d chunks could be read again to compare messages", Rejected, len(read), m.Chunks)
	case dropped:
		finding = fmt.Errorf("%w: more messages than can be compared look as if they stood twice: too many came, some in chunks that the manifest does not name", Rejected)
	}
	return finding, err
}

// errFound ends the second pass.
var errFound = errors.New("a message stands twice")

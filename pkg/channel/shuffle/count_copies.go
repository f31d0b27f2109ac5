package shuffle

import (
	"hash/maphash"
	"maps"

	"github.com/riffle-dp/riffle/pkg/seal"
)

const (
	// filterBits is the size of the filter for each message: 2 bytes, 120 MB for a cohort of 400 000 with 150 messages
	// each.
	filterBits = 16
	// filterProbes is how many bits of the filter a message sets. When all messages are in, (1-exp(-8/16))^8 = 6e-4 of
	// other messages would look as if they had been there. While they come, 8e-5 of them do on average: 5000 of 60
	// million. The probes take half a microsecond, where opening a message takes fifty.
	filterProbes = 8
	// maxSuspects bounds the messages that are compared. A random key decides which messages only look alike, so the
	// chance that a cohort's own messages are this many suspects without being copies is negligible. If more messages
	// come than the filter was made for, they can be: a shuffler that sends chunks which its manifest does not name
	// could hide copies behind them. So a round with more suspects must be refused.
	maxSuspects = 1 << 20
)

// Copies finds messages that stand twice among very many, in two passes. While messages come, a filter picks suspects:
// every message that stands twice is among them. The second pass compares the suspects byte for byte.
//
// A round's bit messages are all different: each has an encapsulated key of its own. A shuffler that forwards copies of
// one person's messages multiplies that person's part in the sums, and the copies add no noise: the next policy would
// reveal the record. So a round in which a message stands twice is not counted. It is enough to compare bytes, because a
// party that cannot open a message cannot make a different one with the same content. A shuffler that replaces all other
// people's bits by bits that it made itself is not detected.
type Copies struct {
	seed     maphash.Seed
	filter   []uint64
	suspects map[uint64]struct{} // hashes
	most     int                 // suspects that are kept: maxSuspects, except in tests
	dropped  bool                // a suspect was not kept
}

// NewCopies prepares for this number of messages. If more come they are examined as well, with more suspects. The seed
// must be random: a shuffler that knew it could choose which messages are suspects.
func NewCopies(seed maphash.Seed, messages int) *Copies {
	return newCopies(seed, messages, filterBits, maxSuspects)
}

func newCopies(seed maphash.Seed, messages, bitsEach, most int) *Copies {
	filter := make([]uint64, max(1, messages*bitsEach/64))
	return &Copies{seed: seed, filter: filter, suspects: map[uint64]struct{}{}, most: most}
}

// Add takes in bit messages that stand one after another. It must not be called concurrently.
func (c *Copies) Add(messages []byte) {
	size := uint64(len(c.filter)) * 64
	for at := 0; at < len(messages); at += seal.BitSize {
		hash := maphash.Bytes(c.seed, messages[at:at+seal.BitSize])
		there := true
		for x, i := hash, 0; i < filterProbes; i++ {
			x = scramble(x)
			probe := x % size
			if mask := uint64(1) << (probe % 64); c.filter[probe/64]&mask == 0 {
				there = false
				c.filter[probe/64] |= mask
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

// Suspects begins the second pass, with the suspects up to now. It returns nil if there are none: then all messages
// differ. complete says whether all suspects were kept. If not, a second pass that finds nothing proves nothing.
func (c *Copies) Suspects() (s *Suspects, complete bool) {
	if len(c.suspects) == 0 {
		return nil, true
	}
	return &Suspects{c.seed, maps.Clone(c.suspects), map[[seal.BitSize]byte]Position{}}, !c.dropped
}

// Suspects are messages that may stand twice.
type Suspects struct {
	seed   maphash.Seed
	hashes map[uint64]struct{}
	seen   map[[seal.BitSize]byte]Position
}

// Position is where a message stands in a round.
type Position struct {
	Chunk   uint32
	Message int // from 0, within the chunk
}

// Compare examines the messages of one chunk; each chunk once. found says that a message stands at both positions.
func (s *Suspects) Compare(chunk uint32, messages []byte) (first, second Position, found bool) {
	for at := 0; at < len(messages); at += seal.BitSize {
		if _, suspect := s.hashes[maphash.Bytes(s.seed, messages[at:at+seal.BitSize])]; !suspect {
			continue
		}
		message, here := [seal.BitSize]byte(messages[at:]), Position{chunk, at / seal.BitSize}
		if first, ok := s.seen[message]; ok {
			return first, here, true
		}
		s.seen[message] = here
	}
	return first, second, false
}

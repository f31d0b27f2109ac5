package randomizer

import (
	"crypto/sha256"
	"encoding/binary"
	"math"

	"github.com/riffle-dp/riffle/internal/keyring"
	"github.com/riffle-dp/riffle/pkg/seal"
)

// numbers gives a host's devices their numbers, out of those that the credential covers: in an order that is fixed for
// the host and that nobody else can tell. Some channels tell the analyzer which numbers took part, and numbers in order
// of arrival would tell it when each person first came. The order is fixed so that a host whose state was set back gives
// the next device a number that it gave before: the shuffler knows it, and its answer is the proof (Contradicts). Not
// safe for concurrent use.
type numbers struct {
	taken map[uint32]bool
	order [32]byte // what the order follows from
	words uint64   // that were taken from it
	// The permutation of all numbers as far as it was drawn: an entry that is not in the map stands at its own place.
	at    map[uint32]uint32
	drawn uint32
	left  uint32 // not drawn
}

func newNumbers(host *seal.Identity, covered uint32) *numbers {
	return &numbers{
		taken: map[uint32]bool{}, order: keyring.OrderOf(host),
		at: map[uint32]uint32{}, left: covered,
	}
}

// take marks a number as a known device's.
func (n *numbers) take(number uint32) { n.taken[number] = true }

// next gives the first number of the order that no device has; ok is false where every number is taken.
func (n *numbers) next() (number uint32, ok bool) {
	for n.left > 0 {
		if number = n.draw(); !n.taken[number] {
			n.taken[number] = true
			return number, true
		}
	}
	return 0, false
}

// draw is a step of Fisher and Yates, with an unbiased draw.
func (n *numbers) draw() uint32 {
	left := uint64(n.left)
	word := n.word()
	for most := math.MaxUint64 - math.MaxUint64%left; word >= most; { // below a multiple of left no rest is likelier
		word = n.word()
	}
	place := n.drawn + uint32(word%left)
	number := n.where(place)
	n.at[place] = n.where(n.drawn)
	delete(n.at, n.drawn)
	n.drawn++
	n.left--
	return number
}

// word is the next word of the order.
func (n *numbers) word() uint64 {
	n.words++
	h := sha256.Sum256(binary.BigEndian.AppendUint64(n.order[:], n.words))
	return binary.BigEndian.Uint64(h[:])
}

func (n *numbers) where(place uint32) uint32 {
	if number, moved := n.at[place]; moved {
		return number
	}
	return place
}

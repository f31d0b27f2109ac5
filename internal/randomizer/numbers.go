package randomizer

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math"

	"github.com/riffle-dp/riffle/internal/keyring"
	"github.com/riffle-dp/riffle/internal/randomizer/store"
	"github.com/riffle-dp/riffle/pkg/seal"
)

// numbers gives a host's devices their numbers, out of those that the credential covers: in an order that is fixed for
// the host and that nobody else can tell. Some channels tell the analyzer which numbers took part, and numbers in order
// of arrival would tell it when each person first came. The order is fixed so that a host whose state was set back
// gives the next device a number that it gave before: the shuffler knows it, and its answer is the proof (Contradicts).
// What a later credential covers besides comes behind all that there was before it. Not safe for concurrent use.
type numbers struct {
	taken map[uint32]bool
	order [32]byte // what the order follows from
	words uint64   // that were taken from it
	// The permutation of all numbers as far as it was drawn: an entry that is not in the map is at its own place.
	at    map[uint32]uint32
	drawn uint32
	left  uint32   // not drawn, of those below the first bound that is above drawn
	later []uint32 // the bounds behind it
	first uint32   // bound of the first credential
}

// newNumbers are the numbers of a host whose credentials covered so many devices one after the other, ascending.
func newNumbers(host *seal.Identity, covered ...uint32) *numbers {
	return &numbers{
		taken: map[uint32]bool{}, order: keyring.OrderOf(host), at: map[uint32]uint32{}, later: covered,
		first: covered[0],
	}
}

// coveredSoFar is what each credential of the host covered, this one with so many devices last. It refuses one that
// covers fewer than the one before, and is durable before a number is given.
func coveredSoFar(st store.Store, devices uint32) (covered []uint32, err error) {
	kept, err := st.Note(store.Covered)
	if err != nil {
		return nil, err
	}
	if len(kept)%4 != 0 {
		return nil, fmt.Errorf("what the host's credentials covered is kept in %d bytes, which is no list of numbers",
			len(kept))
	}
	last := uint32(0)
	for i := 0; i < len(kept); i += 4 {
		last = binary.BigEndian.Uint32(kept[i:])
		covered = append(covered, last)
	}
	switch {
	case devices < last:
		return nil, fmt.Errorf("the credential covers %d devices, and this host had one that covers %d: it is an "+
			"earlier one; use the newest that the registrar gave this host", devices, last)
	case devices == last && len(covered) > 0:
		return covered, nil
	}
	return append(covered, devices), st.PutNote(store.Covered, binary.BigEndian.AppendUint32(kept, devices))
}

// take marks a number as a known device's.
func (n *numbers) take(number uint32) { n.taken[number] = true }

// next gives the first number of the order that no device has; ok is false where every number is taken. Unless
// raised it gives none that only a later credential covers.
func (n *numbers) next(raised bool) (number uint32, ok bool) {
	for n.more(raised) {
		if number = n.draw(); !n.taken[number] {
			n.taken[number] = true
			return number, true
		}
	}
	return 0, false
}

// more reports whether there is a number that was not drawn. Those of a later credential come when the earlier one's
// have all been.
func (n *numbers) more(raised bool) bool {
	for n.left == 0 && len(n.later) > 0 && (raised || n.drawn == 0) {
		n.left, n.later = n.later[0]-n.drawn, n.later[1:]
	}
	return n.left > 0 && (raised || n.drawn < n.first)
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

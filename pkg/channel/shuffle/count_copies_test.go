package shuffle

import (
	"hash/maphash"
	"math/rand/v2"
	"testing"

	"github.com/riffle-dp/riffle/pkg/seal"
)

// random returns this number of messages, all different.
func random(source *rand.ChaCha8, messages int) []byte {
	b := make([]byte, messages*seal.BitSize)
	source.Read(b)
	return b
}

// Whatever the filter makes of them, messages that are all different pass, and one that stands twice is found where it
// stands.
func TestOnlyCopiesAreFound(t *testing.T) {
	t.Parallel()
	const chunks, each = 20, 500
	source := rand.NewChaCha8([32]byte{1})
	for _, bitsEach := range []int{1, 4, filterBits} {
		var all [][]byte
		for range chunks {
			all = append(all, random(source, each))
		}
		find := func() (first, second Position, found bool, picked int) {
			c := newCopies(maphash.MakeSeed(), chunks*each, bitsEach, maxSuspects)
			for _, chunk := range all {
				c.Add(chunk)
			}
			suspects, complete := c.Suspects()
			if suspects == nil || !complete {
				return first, second, false, 0
			}
			for i, chunk := range all {
				if first, second, found = suspects.Compare(uint32(i), chunk); found {
					break
				}
			}
			return first, second, found, len(c.suspects)
		}
		// At one bit a message the filter is full early and suspects nearly everything. At its own size the mean number
		// of suspects is 0.8 of 10 000, and more than 10 come by chance with a probability below 1e-8.
		first, second, found, picked := find()
		if found || bitsEach == 1 && picked < chunks*each/2 || bitsEach == filterBits && picked > 10 {
			t.Errorf("%d bits each: %v and %v, %v; %d suspects", bitsEach, first, second, found, picked)
		}
		copy(all[17][333*seal.BitSize:334*seal.BitSize], all[3][44*seal.BitSize:])
		first, second, found, _ = find()
		if !found || first != (Position{3, 44}) || second != (Position{17, 333}) {
			t.Errorf("%d bits each: message 44 of chunk 3 stands at 333 of 17, too: found %v and %v, %v",
				bitsEach, first, second, found)
		}
	}
}

// Where noise fills the filter until no further suspect is kept, the second pass does not pass for complete.
func TestDroppedSuspectsAreTold(t *testing.T) {
	t.Parallel()
	source := rand.NewChaCha8([32]byte{2})
	c := newCopies(maphash.MakeSeed(), 100, filterBits, 100)
	if suspects, complete := c.Suspects(); suspects != nil || !complete {
		t.Error("suspects among no messages")
	}
	c.Add(random(source, 4000))
	if suspects, complete := c.Suspects(); len(suspects.hashes) != 100 || complete {
		t.Errorf("%d suspects of 100 that are kept, complete: %v", len(suspects.hashes), complete)
	}
}

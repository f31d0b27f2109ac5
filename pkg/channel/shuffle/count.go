package shuffle

import (
	"github.com/riffle-dp/riffle/pkg/protocol"
	"github.com/riffle-dp/riffle/pkg/seal"
)

// Tally counts the bit messages of one round, or of a part of it.
type Tally struct {
	Messages      int // all that were counted
	Undecryptable int // those that do not open under the round's announcement
	OutOfPlan     int // those that name a release or coordinate that the round does not have

	encodings  []protocol.Encoding
	ones, seen [][]uint64 // ones, and messages, by release and coordinate
}

// NewTally returns an empty tally for a round with these encodings.
func NewTally(encodings []protocol.Encoding) *Tally {
	t := &Tally{encodings: encodings}
	for _, e := range encodings {
		t.ones = append(t.ones, make([]uint64, len(e.Coordinates)))
		t.seen = append(t.seen, make([]uint64, len(e.Coordinates)))
	}
	return t
}

// Open opens and counts messages that stand one after another. The length must be a multiple of seal.BitSize.
func (t *Tally) Open(opener *seal.BitOpener, messages []byte) {
	t.Messages += len(messages) / seal.BitSize
	for at := 0; at < len(messages); at += seal.BitSize {
		release, coordinate, one, err := opener.Open(messages[at : at+seal.BitSize])
		switch {
		case err != nil:
			t.Undecryptable++
		case int(release) >= len(t.seen) || int(coordinate) >= len(t.seen[release]):
			t.OutOfPlan++
		default:
			t.seen[release][coordinate]++
			if one {
				t.ones[release][coordinate]++
			}
		}
	}
}

// Add adds a tally of the same round.
func (t *Tally) Add(other *Tally) {
	t.Messages += other.Messages
	t.Undecryptable += other.Undecryptable
	t.OutOfPlan += other.OutOfPlan
	for i := range t.ones {
		for j := range t.ones[i] {
			t.ones[i][j] += other.ones[i][j]
			t.seen[i][j] += other.seen[i][j]
		}
	}
}

// Counts returns the ones by release and coordinate, never more than there can be messages for the coordinate: those of
// this number of reports, and those that the shuffler added to each coordinate of the release. odd is how many messages
// do not open, are out of the plan, or exceed their coordinate's number. Only a dishonest device or shuffler makes odd
// messages.
func (t *Tally) Counts(reports uint64, noise []uint64) (ones [][]uint64, odd int) {
	odd = t.Undecryptable + t.OutOfPlan
	for i, e := range t.encodings {
		ones = append(ones, make([]uint64, len(t.ones[i])))
		for j, n := range t.ones[i] {
			most := reports*uint64(e.MessagesAt(j)) + noise[i]
			ones[i][j] = min(n, most)
			odd += int(max(t.seen[i][j], most) - most)
		}
	}
	return ones, odd
}

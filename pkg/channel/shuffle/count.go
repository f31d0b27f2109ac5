package shuffle

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/riffle-dp/riffle/pkg/protocol"
	"github.com/riffle-dp/riffle/pkg/seal"
)

// Tally counts the bit messages of one round, or of a part of it.
type Tally struct {
	Messages      int // all that were counted
	Undecryptable int // those that do not open under the round's announcement
	OutOfPlan     int // those that name a release or coordinate that the round does not have

	encodings []protocol.Encoding
	// ones, and messages, by release and coordinate; messages that do not open are among those of their label
	ones, seen [][]uint64
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

// Open opens and counts messages, one after another. The length must be a multiple of seal.BitSize. It
// allocates nothing.
func (t *Tally) Open(opener *seal.BitOpener, messages []byte) {
	t.Messages += len(messages) / seal.BitSize
	err := opener.OpenAll(messages, func(release uint8, coordinate uint16, one bool, err error) {
		switch {
		case int(release) >= len(t.seen) || int(coordinate) >= len(t.seen[release]):
			t.OutOfPlan++
		default:
			t.seen[release][coordinate]++
			if err != nil {
				t.Undecryptable++
			} else if one {
				t.ones[release][coordinate]++
			}
		}
	})
	if err != nil {
		panic("shuffle: " + err.Error()) // whoever received the messages compared their length
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

// ErrTally says that bytes are no tally of the round.
var ErrTally = errors.New("shuffle: the bytes are no tally of this round's messages")

// AppendBinary appends the tally as bytes, which ParseTally reads: 4 bytes each, big endian, of the messages, those
// that do not open and those out of the plan, and then, release by release and coordinate by coordinate, how many
// messages there are and how many of them are ones. How many bytes these are says nothing of what was counted. It
// returns no error.
func (t *Tally) AppendBinary(b []byte) ([]byte, error) {
	for _, n := range []int{t.Messages, t.Undecryptable, t.OutOfPlan} {
		b = binary.BigEndian.AppendUint32(b, uint32(n))
	}
	for i := range t.ones {
		for j := range t.ones[i] {
			b = binary.BigEndian.AppendUint32(b, uint32(t.seen[i][j]))
			b = binary.BigEndian.AppendUint32(b, uint32(t.ones[i][j]))
		}
	}
	return b, nil
}

// ParseTally reads a tally of this many messages, at most 2^32-1, of a round with these encodings.
// ErrTally where it is none: every message is counted once in it, and there are no more ones than messages that open.
func ParseTally(encodings []protocol.Encoding, messages int, b []byte) (*Tally, error) {
	t, size := NewTally(encodings), 3*4
	for i := range t.ones {
		size += 2 * 4 * len(t.ones[i])
	}
	if len(b) != size {
		return nil, ErrTally
	}
	next := func() uint64 {
		n := binary.BigEndian.Uint32(b)
		b = b[4:]
		return uint64(n)
	}
	t.Messages, t.Undecryptable, t.OutOfPlan = int(next()), int(next()), int(next())
	counted, zeros, ones := uint64(t.OutOfPlan), uint64(0), true
	for i := range t.ones {
		for j := range t.ones[i] {
			t.seen[i][j], t.ones[i][j] = next(), next()
			counted += t.seen[i][j]
			zeros += t.seen[i][j] - t.ones[i][j]
			ones = ones && t.ones[i][j] <= t.seen[i][j]
		}
	}
	if t.Messages != messages || counted != uint64(messages) || !ones || uint64(t.Undecryptable) > zeros {
		return nil, ErrTally
	}
	return t, nil
}

// ErrIncomplete says that a coordinate has another number of messages than reports and shuffler make for it.
var ErrIncomplete = errors.New("shuffle: other numbers of messages than the plan's")

// Complete reports whether there are exactly as many messages of each coordinate as this number of reports has, and as
// the shuffler added to each coordinate of the release, and none of any other. A shuffler that admits only reports with
// the plan's labels always gives a round that is complete.
func (t *Tally) Complete(reports uint64, noise []uint64) error {
	if t.OutOfPlan > 0 {
		return fmt.Errorf("%w: %d of coordinates that the round does not have", ErrIncomplete, t.OutOfPlan)
	}
	for i, e := range t.encodings {
		for j, n := range t.seen[i] {
			if want := reports*uint64(e.MessagesAt(j)) + noise[i]; n != want {
				return fmt.Errorf("%w: %d of coordinate %d of release %d in place of %d", ErrIncomplete, n, j, i, want)
			}
		}
	}
	return nil
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

package protocol

import "fmt"

// Tally is what an analyzer keeps of a release: per coordinate, how many ones and how many bit messages it has counted. Tallies
// of parts of a release add up (Merge), in any order.
type Tally struct {
	Ones     []uint64
	Messages []uint64
}

// NewTally returns an empty tally of so many coordinates.
func NewTally(coordinates int) *Tally {
	return &Tally{Ones: make([]uint64, coordinates), Messages: make([]uint64, coordinates)}
}

// Add counts bits. If one of them names no coordinate of the tally, none is counted and the error wraps ErrCounts.
func (t *Tally) Add(bits []Bit) error {
	if len(t.Messages) != len(t.Ones) {
		return t.malformed()
	}
	if err := Count(t.Ones, bits); err != nil {
		return err
	}
	for _, bit := range bits {
		t.Messages[bit.Coordinate]++
	}
	return nil
}

// Merge adds the counts of another part of the same release.
func (t *Tally) Merge(part *Tally) error {
	if len(t.Messages) != len(t.Ones) {
		return t.malformed()
	}
	if len(part.Ones) != len(t.Ones) || len(part.Messages) != len(t.Messages) {
		return fmt.Errorf("%w: a tally of %d coordinates does not add to one of %d", ErrCounts, len(part.Ones), len(t.Ones))
	}
	for j := range t.Ones {
		t.Ones[j] += part.Ones[j]
		t.Messages[j] += part.Messages[j]
	}
	return nil
}

// DecodeTally is Decode for a tally, after checking that it holds exactly the reports*MessagesAt(j) messages of each coordinate:
// a release with one message too few or too many is refused with ErrCounts.
func (e Encoding) DecodeTally(t *Tally, reports uint64) ([]float64, error) {
	if err := e.checkCounts(t.Ones, reports); err != nil {
		return nil, err
	}
	if len(t.Messages) != len(t.Ones) {
		return nil, t.malformed()
	}
	for j, got := range t.Messages {
		want, err := e.messagesOf(j, reports)
		if err != nil {
			return nil, err
		}
		if got != want {
			return nil, fmt.Errorf("%w: %d messages on coordinate %d, %d reports send exactly %d", ErrCounts, got, j, reports, want)
		}
	}
	return e.Decode(t.Ones, reports)
}

// Count adds the ones among bits to ones, one entry per coordinate. If a bit names a coordinate out of range, nothing is added
// and the error wraps ErrCounts. It does not see how many zeros there were; Tally does.
func Count(ones []uint64, bits []Bit) error {
	for _, bit := range bits {
		if uint64(bit.Coordinate) >= uint64(len(ones)) {
			return fmt.Errorf("%w: a bit for coordinate %d of a release with %d", ErrCounts, bit.Coordinate, len(ones))
		}
	}
	for _, bit := range bits {
		if bit.One {
			ones[bit.Coordinate]++
		}
	}
	return nil
}

func (t *Tally) malformed() error {
	return fmt.Errorf("%w: the tally counts messages of %d coordinates and ones of %d", ErrCounts, len(t.Messages), len(t.Ones))
}

package shuffle

import (
	"errors"
	"reflect"
	"testing"

	"github.com/riffle-dp/riffle/pkg/protocol"
	"github.com/riffle-dp/riffle/pkg/seal"
)

// A tally counts what opens, tells apart what is wrong with the rest, and is the same however the messages are divided.
func TestTallyCountsWhatOpens(t *testing.T) {
	t.Parallel()
	encodings := []protocol.Encoding{
		{Coordinates: []protocol.Coordinate{{Levels: 1}, {Levels: 2}}, NoiseBits: 1},
		{Coordinates: []protocol.Coordinate{{Levels: 3}}},
	}
	key, err := seal.GenerateHPKE()
	if err != nil {
		t.Fatal(err)
	}
	digest, other := [32]byte{1}, [32]byte{2}
	var messages []byte
	for _, m := range []struct {
		context    [32]byte
		release    uint8
		coordinate uint16
		one        bool
	}{
		{digest, 0, 0, true}, {digest, 0, 0, false}, {digest, 0, 0, true}, {digest, 0, 0, true},
		{digest, 0, 1, true}, {digest, 1, 0, false},
		{digest, 1, 1, true}, {digest, 2, 0, true}, // not in the plan
		{other, 0, 0, true}, // another announcement's
	} {
		sealer, err := seal.NewBitSealer(key.Public(), m.context)
		if err != nil {
			t.Fatal(err)
		}
		if messages, err = sealer.AppendSeal(messages, m.release, m.coordinate, m.one); err != nil {
			t.Fatal(err)
		}
	}
	opener := seal.NewBitOpener(key, digest)
	whole := NewTally(encodings)
	whole.Open(opener, messages)
	for cut := 0; cut <= len(messages); cut += seal.BitSize {
		first, second := NewTally(encodings), NewTally(encodings)
		first.Open(opener, messages[:cut])
		second.Open(opener, messages[cut:])
		if first.Add(second); !reflect.DeepEqual(first, whole) {
			t.Errorf("cut after %d bytes: %+v, whole %+v", cut, first, whole)
		}
	}
	if whole.Messages != 9 || whole.Undecryptable != 1 || whole.OutOfPlan != 2 {
		t.Errorf("%+v", whole)
	}
	// One report holds 2 and 3 messages of the first release: 2 of the 4 at its first coordinate are too many, unless
	// the shuffler added as many to each coordinate.
	const extra = 1 // what does not open is one message too many of its coordinate
	for _, x := range []struct {
		reports, noise uint64
		ones           [][]uint64
		odd            int
	}{
		{1, 0, [][]uint64{{2, 1}, {0}}, 5 + extra}, {2, 0, [][]uint64{{3, 1}, {0}}, 3 + extra},
		{1, 1, [][]uint64{{3, 1}, {0}}, 4 + extra}, {1, 2, [][]uint64{{3, 1}, {0}}, 3 + extra},
	} {
		if ones, odd := whole.Counts(x.reports, []uint64{x.noise, 0}); !reflect.DeepEqual(ones, x.ones) ||
			odd != x.odd {
			t.Errorf("%d reports, %d of noise: %v and %d odd messages, want %v and %d", x.reports, x.noise, ones, odd,
				x.ones, x.odd)
		}
	}
}

// Counting makes no garbage, whatever the messages hold.
func TestCountingAllocatesNothing(t *testing.T) {
	key, err := seal.GenerateHPKE()
	if err != nil {
		t.Fatal(err)
	}
	digest := [32]byte{1}
	sealer, err := seal.NewBitSealer(key.Public(), digest)
	if err != nil {
		t.Fatal(err)
	}
	messages, err := sealer.AppendSealRun(nil, 0, 1, 20, 7)
	if err != nil {
		t.Fatal(err)
	}
	if messages, err = sealer.AppendSealRun(messages, 9, 1, 1, 0); err != nil { // out of the plan
		t.Fatal(err)
	}
	messages[3*seal.BitSize]++ // does not open
	tally := NewTally([]protocol.Encoding{{Coordinates: []protocol.Coordinate{{Levels: 1}, {Levels: 2}}, NoiseBits: 1}})
	opener := seal.NewBitOpener(key, digest)
	if n := testing.AllocsPerRun(10, func() { tally.Open(opener, messages) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
	if tally.Messages != 11*21 || tally.Undecryptable != 11 || tally.OutOfPlan != 11 {
		t.Errorf("%+v", tally)
	}
}

// A worker's tally of labelled messages is refused if more messages do not open than are no ones: one that does not
// open is among its coordinate's messages and counts as a zero.
func TestATallyHasNoMoreUnopenedThanZeros(t *testing.T) {
	t.Parallel()
	const messages, ones = 9, 5
	for unopened := range messages + 1 {
		tally := NewTally(labelledRound())
		tally.Messages, tally.Undecryptable = messages, unopened
		tally.seen[0][0], tally.ones[0][0] = messages, ones
		b, _ := tally.AppendBinary(nil)
		if _, err := ParseTally(labelledRound(), messages, b); errors.Is(err, ErrTally) != (unopened > messages-ones) {
			t.Errorf("%d of %d messages do not open, %d are ones: %v", unopened, messages, ones, err)
		}
	}
}

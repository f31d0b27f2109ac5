package shares

import (
	"context"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/riffle-dp/riffle/internal/channel"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// Whatever the order of the prepare messages, reports are read in the order of the broker's stream, each once, and come
// back in the members' order.
func TestReportsAreReadInTheOrderOfTheStream(t *testing.T) {
	var members []channel.Member
	for i, sequence := range rand.New(rand.NewPCG(1, 2)).Perm(1000) {
		members = append(members, channel.Member{Slot: uint32(i), Sequence: uint64(sequence)})
	}
	var read []uint64
	gone := uint64(len(members)) // none of them
	x := &exchange{leaders: []*leader{nil}, Mixing: &Mixing{
		Reports: func(_ context.Context, _ *channel.Release, m channel.Member) (*wire.Report, error) {
			if m.Sequence == gone {
				return nil, channel.ErrImpossible
			}
			read = append(read, m.Sequence)
			return &wire.Report{Payload: binary.BigEndian.AppendUint64(nil, m.Sequence)}, nil
		},
	}}
	payloads, err := x.gather(t.Context(), members)
	if err != nil {
		t.Fatal(err)
	}
	if len(read) != len(members) || !slices.IsSorted(read) {
		t.Errorf("%d reports are read, in the order %v", len(read), read)
	}
	for i, m := range members {
		if binary.BigEndian.Uint64(payloads[i]) != m.Sequence {
			t.Fatalf("member %d has the payload of %x, not of %d", i, payloads[i], m.Sequence)
		}
	}
	gone = 7
	if _, err := x.gather(t.Context(), members); !errors.Is(err, channel.ErrImpossible) {
		t.Errorf("a report that is gone: %v", err)
	}
}

// A window is whole chunks, one at least, and bounded.
func TestWindow(t *testing.T) {
	for _, c := range []struct{ batchSize, payload int }{{512, 3000}, {5, 200}, {1, windowBytes}, {512, 1 << 20}} {
		n := windowOf(c.batchSize, c.payload)
		if n%c.batchSize != 0 || n < c.batchSize || n > c.batchSize && n*c.payload > windowBytes {
			t.Errorf("%+v: a window of %d", c, n)
		}
	}
}

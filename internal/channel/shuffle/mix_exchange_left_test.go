package shuffle

import (
	"errors"
	"testing"

	"github.com/riffle-dp/riffle/internal/channel"
	"github.com/riffle-dp/riffle/pkg/seal"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// A release that ends behind its barrier says that a part of it may have left, in this process and in the next one: a
// broker that drops what others exchanged does not make it unsaid. One that ends before the barrier says nothing of it.
func TestAReleaseThatEndsBehindItsBarrierMayHaveLeft(t *testing.T) {
	t.Parallel()
	x := newExchange(t, 24, 2, 1)
	x.fails = func(_ int, what string) error {
		if what == "chunk" {
			clear(x.segments)
		}
		return nil
	}
	_, err := x.leave()
	n := 0
	for _, b := range x.chunks {
		chunk, err := wire.ParseChunk(b)
		x.must(err)
		n += len(chunk.Payload) / seal.BitSize
	}
	if !errors.Is(err, channel.ErrLeft) || !errors.Is(err, channel.ErrImpossible) || n == 0 || n >= 48 {
		t.Errorf("%d of 48 messages left, %v", n, err)
	}
	x.begin(4, 3)
	if _, err := x.Release(t.Context(), x.release, new(wire.Manifest)); !errors.Is(err, channel.ErrLeft) {
		t.Errorf("the next process: %v", err)
	}
	x = newExchange(t, 10, 3, 1)
	x.chunks[3] = x.chunk(3, 0, 1, 2, 3, 4)
	if _, err := x.leave(); !errors.Is(err, channel.ErrLeft) {
		t.Errorf("another draw left before: %v", err)
	}
	x = newExchange(t, 12, 2, 1)
	delete(x.payload, 4)
	_, err = x.Release(t.Context(), x.release, new(wire.Manifest))
	if !errors.Is(err, channel.ErrImpossible) || errors.Is(err, channel.ErrLeft) || len(x.chunks) > 0 {
		t.Errorf("nothing left, and it is said that something may have: %v", err)
	}
}

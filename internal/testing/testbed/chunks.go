package testbed

import (
	"context"

	"github.com/riffle-dp/riffle/internal/bus"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// Chunks is a stream of chunks of one round, in memory, by position.
type Chunks [][]byte

// ReadChunks hands out every chunk, in order. Its error is the handler's.
func (c *Chunks) ReadChunks(_ context.Context, _ uint64, _ uint32, handler func(uint32, []byte) error) error {
	for i, chunk := range *c {
		if err := handler(uint32(i), chunk); err != nil {
			return err
		}
	}
	return nil
}

// ReadChunk is the first chunk with this index; bus.ErrGone where there is none.
func (c *Chunks) ReadChunk(_ context.Context, _ uint64, _, index uint32) ([]byte, error) {
	for _, payload := range *c {
		if chunk, err := wire.ParseChunk(payload); err == nil && chunk.Index == index {
			return payload, nil
		}
	}
	return nil, bus.ErrGone
}

// PurgeMixed removes every chunk.
func (c *Chunks) PurgeMixed(context.Context, uint64, uint32) error {
	*c = nil
	return nil
}

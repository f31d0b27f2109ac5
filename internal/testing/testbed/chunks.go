package testbed

import "context"

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

// PurgeMixed removes every chunk.
func (c *Chunks) PurgeMixed(context.Context, uint64, uint32) error {
	*c = nil
	return nil
}

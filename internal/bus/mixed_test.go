package bus_test

import (
	"context"
	"errors"
	"testing"

	"github.com/riffle-dp/riffle/internal/bus"
)

// An analyzer that works on a chunk holds only a few that wait behind it: they would be delivered again, and cross the
// network twice, when they had waited for too long. Another process gets the others at once.
func TestFewChunksWaitBehindOne(t *testing.T) {
	t.Parallel()
	b := newBroker(t)
	shuf, slow, other := b.connect(bus.Shuffler), b.connect(bus.Analyzer), b.connect(bus.Analyzer)
	const chunks, most = 20, 4
	for i := range uint32(chunks) {
		if err := shuf.Mixed.PublishChunk(b.ctx(), 1, 0, i, []byte{byte(i)}); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithCancelCause(b.ctx())
	begun, ended := make(chan struct{}, chunks), make(chan error, 1)
	go func() {
		ended <- slow.Mixed.ReceiveMixed(ctx, func(*bus.Mixed) {
			begun <- struct{}{}
			<-ctx.Done()
		})
	}()
	<-begun
	n := 0
	err := other.Mixed.ReceiveMixed(ctx, func(m *bus.Mixed) {
		if err := m.Ack(); err != nil {
			t.Error(err)
		}
		if n++; n == chunks-most {
			cancel(errStop)
		}
	})
	if !errors.Is(err, errStop) || n < chunks-most {
		t.Errorf("the other process got %d of %d chunks: %v", n, chunks, err)
	}
	if err := <-ended; !errors.Is(err, errStop) {
		t.Error(err)
	}
}

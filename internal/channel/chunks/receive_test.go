package chunks

import (
	"context"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"github.com/riffle-dp/riffle/internal/bus"
	"github.com/riffle-dp/riffle/internal/channel"
	"github.com/riffle-dp/riffle/internal/channel/spill"
	"github.com/riffle-dp/riffle/internal/role"
	"github.com/riffle-dp/riffle/internal/testing/testbed"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/protocol"
	"github.com/riffle-dp/riffle/pkg/seal"
)

// counting is a broker that says which chunks are read from it, besides those that it delivers.
type counting struct {
	testbed.Chunks
	read chan uint32
	has  atomic.Bool // what is read from it
}

func (c *counting) ReadChunk(ctx context.Context, epoch uint64, round, index uint32) ([]byte, error) {
	c.read <- index
	if !c.has.Load() {
		return nil, bus.ErrGone
	}
	return c.Chunks.ReadChunk(ctx, epoch, round, index)
}

// stepped is a clock on which a wait ends when the test lets it.
type stepped struct {
	role.Clock
	waits chan chan time.Time
}

func (s *stepped) After(time.Duration) <-chan time.Time {
	over := make(chan time.Time, 1)
	s.waits <- over
	return over
}

// A chunk crosses the network once: one that takes longer to open than the quiet time is not read again, nor is what
// waits behind it, though the wait began before it came; and where one chunk did come to an earlier process, that one
// is read alone.
func TestAChunkIsReceivedOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, receivedOnce)
}

func receivedOnce(t *testing.T) {
	const n = 5
	store, err := spill.New(t.TempDir(), 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	broker := &counting{read: make(chan uint32, 100)}
	clock := &stepped{waits: make(chan chan time.Time, 100)}
	c := &Receiver[int]{Store: broker, Spill: store, Clock: clock, Log: zerolog.Nop()}
	opening, opened := make(chan struct{}), make(chan struct{})
	ctx, cancel := context.WithCancel(t.Context())
	step := func(to, from chan struct{}) {
		select {
		case to <- struct{}{}:
		case <-from:
		case <-ctx.Done():
		}
	}
	r, end := c.Begin(t.Context(), &channel.Round{Announcement: &plan.Announcement{
		Epoch: 1, Cohort: plan.Cohort{Size: n}, Plan: plan.Plan{Channel: plan.Shuffle},
		Encodings: []protocol.Encoding{{Coordinates: []protocol.Coordinate{{Levels: each}}}},
	}}, Opening[int]{Size: seal.BitSize, Open: func(messages []byte) int {
		step(opening, nil)
		step(nil, opened)
		return len(messages)
	}})
	defer end()
	defer cancel()
	src := rand.NewChaCha8([32]byte{1})
	for i := range uint32(n) {
		chunk, _ := makeChunk(t, src, i)
		broker.Chunks = append(broker.Chunks, chunk)
	}
	done := make(chan error, 1)
	go func() { done <- c.Complete(t.Context(), r, n) }()
	// wait is the newest wait, after nothing else is to be done.
	wait := func() (last chan time.Time) {
		synctest.Wait()
		for len(clock.waits) > 0 {
			last = <-clock.waits
		}
		if len(broker.read) > 0 || last == nil {
			t.Fatalf("%d chunks are read, and the broker delivers them; it waits: %v", len(broker.read), last != nil)
		}
		return last
	}
	var delivered sync.WaitGroup
	for i := range n - 1 { // the last chunk came to an earlier process
		over := wait()
		delivered.Go(func() { c.Take(channel.Part{Epoch: 1, Payload: broker.Chunks[i]}) })
		<-opening
		over <- time.Time{}
		over = wait() // the opening takes so long that the quiet time is over twice
		over <- time.Time{}
		wait()
		opened <- struct{}{}
		delivered.Wait()
	}
	over := wait()
	broker.has.Store(true)
	over <- time.Time{}
	<-opening
	opened <- struct{}{}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if got := <-broker.read; got != n-1 || len(broker.read) != 0 || c.Taken() != n*each {
		t.Errorf("chunk %d was read, and %d more; %d messages are taken in", got, len(broker.read), c.Taken())
	}
}

// Package chunks is what the analyzer's sides of all channels share whose releases are permuted messages, sent in
// chunks that a manifest names: it receives the chunks of a round, each once, reads those again that came to an earlier
// process, has them opened by this process or by workers, and compares them with announcement and manifest. What a
// message holds is the channel's.
//
// # Memory
//
// Nothing of a message stays in memory. The digests by which the manifest's root and repeated messages are found are
// in a spill.Store; of a chunk there is what was found in it, which the channel keeps short.
//
// # Workers
//
// A worker gets the name of a chunk, reads the chunk by itself, and answers with the digest of what it read and what it
// found. This process digests every chunk too, when it comes, and uses an answer only if it is about the same bytes: so
// each chunk's content counts once, whatever was done twice, and an answer about anything else counts nowhere. A chunk
// that no worker could open is opened here.
package chunks

import (
	"cmp"
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"github.com/riffle-dp/riffle/internal/bus"
	"github.com/riffle-dp/riffle/internal/channel"
	"github.com/riffle-dp/riffle/internal/channel/spill"
	"github.com/riffle-dp/riffle/internal/role"
	"github.com/riffle-dp/riffle/internal/role/outcome"
	"github.com/riffle-dp/riffle/internal/worker"
)

// Why a message is not counted in every such channel.
const (
	Undecryptable outcome.Reason = "undecryptable" // does not open under the round's announcement
	Rejected      outcome.Reason = "rejected"      // announcement, manifest and messages do not fit together
	BadChunk      outcome.Reason = "bad_chunk"     // its chunk is unreadable, or another round's
)

// Reader reads one chunk of a round that is not counted yet. *bus.MixedStream is one, and documents the method.
type Reader interface {
	ReadChunk(ctx context.Context, epoch uint64, round, index uint32) ([]byte, error)
}

// Store is what the broker keeps of rounds that are not counted yet. *bus.MixedStream is one, and documents the
// methods.
type Store interface {
	Reader
	PurgeMixed(ctx context.Context, epoch uint64, round uint32) error
}

// Receiver receives the chunks of one round after the other. T is what a channel finds in a chunk. Its methods are
// those of channel.Counting, but for Begin.
type Receiver[T any] struct {
	Store Store
	Spill *spill.Store
	Pool  worker.Pool // opens chunks; nil: this process does
	Held  int         // bytes of chunks that may be with the pool at a time, if more than one is; 0: DefaultHeld
	Clock role.Clock
	Log   zerolog.Logger

	current atomic.Pointer[Round[T]] // nil between rounds
}

// Opening is how the chunks of a round are opened.
type Opening[T any] struct {
	Size  int    // of a message, in bytes
	Noise uint64 // messages that are the shuffler's
	// Open finds in this process what is in the messages of a chunk. It may be called for several chunks at a time.
	Open func(messages []byte) T
	// Kind of task that a worker opens a chunk by (Handler). Empty: none, and chunks are opened here.
	Kind string
	// Parse reads what a Handler of that kind answered about this many messages.
	Parse func(found []byte, messages int) (T, error)
}

// Begin starts a round, until the context ends or end is called, which returns when nothing of it goes on any more.
func (c *Receiver[T]) Begin(ctx context.Context, of *channel.Round, how Opening[T]) (r *Round[T], end func()) {
	expected := uint64(of.Cohort.Size)*uint64(of.ReportMessages()) + how.Noise
	ctx, cancel := context.WithCancel(ctx)
	r = &Round[T]{
		Round: of, how: how, log: c.Log, ctx: ctx, arrived: make(chan struct{}, 1), back: make(chan struct{}, 1),
		chunks: map[uint32]*Chunk[T]{}, digests: c.Spill.Sorter(entrySize), room: spare * expected,
		most: cmp.Or(c.Held, DefaultHeld),
	}
	if how.Kind != "" {
		r.pool = c.Pool
	}
	c.current.Store(r)
	return r, func() {
		c.current.Store(nil)
		cancel()
		r.close()
	}
}

// Take takes in a chunk. Without a pool it returns when the chunk was opened, and with one when it was handed out.
func (c *Receiver[T]) Take(p channel.Part) {
	if r := c.current.Load(); r != nil && r.Epoch == p.Epoch && r.Announcement.Round == p.Round {
		c.take(r, p.Payload)
		r.tell()
	}
}

// Taken counts the messages that were opened.
func (c *Receiver[T]) Taken() (messages int) {
	if r := c.current.Load(); r != nil {
		r.mu.Lock()
		defer r.mu.Unlock()
		return r.taken
	}
	return 0
}

// Forget drops the round's chunks from the broker.
func (c *Receiver[T]) Forget(ctx context.Context, epoch uint64, round uint32) error {
	return c.Store.PurgeMixed(ctx, epoch, round)
}

// quietTime is how long no chunk may come before those that are missing are read from the store.
const quietTime = 500 * time.Millisecond

// Complete waits until the first chunks of the round, this many, are opened, and reads those that Take did not bring:
// they came to an earlier process. Each is read by its name, so that none crosses the network a second time because
// another one is missing.
func (c *Receiver[T]) Complete(ctx context.Context, r *Round[T], chunks uint32) error {
	for read := false; ; {
		now, err := r.lacks(chunks)
		switch {
		case err != nil:
			return err
		case !now.lacks, read && !now.busy: // whoever looks for what is missing now finds which chunk it is
			return nil
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-r.arrived: // what is on its way need not be read again
			continue
		case <-c.Clock.After(quietTime):
		}
		// An opening may take longer than the quiet time, and have begun since.
		if after, err := r.lacks(chunks); err != nil || after.busy || after.moved != now.moved {
			continue
		}
		if err := c.readMissing(ctx, r, chunks); err != nil {
			return err
		}
		read = true
	}
}

// readMissing reads those of the first chunks, this many, that did not come, as far as the broker has them.
func (c *Receiver[T]) readMissing(ctx context.Context, r *Round[T], chunks uint32) error {
	for index := range chunks {
		if r.came(index) {
			continue
		}
		payload, err := c.Store.ReadChunk(ctx, r.Epoch, r.Announcement.Round, index)
		if errors.Is(err, bus.ErrGone) {
			continue
		} else if err != nil {
			return err
		}
		c.take(r, payload)
	}
	return nil
}

// take takes in a chunk of a round. A chunk that is refused is logged: if the manifest names it, the round will be
// rejected.
func (c *Receiver[T]) take(r *Round[T], payload []byte) {
	if err := r.Open(payload); err != nil {
		c.Log.Error().Err(err).Str(outcome.Field, string(BadChunk)).Uint64("epoch", r.Epoch).
			Uint32("round", r.Announcement.Round).Msg("chunk not counted")
	}
}

package shuffle

import (
	"bytes"
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"github.com/riffle-dp/riffle/internal/channel"
	"github.com/riffle-dp/riffle/internal/role"
	"github.com/riffle-dp/riffle/internal/role/outcome"
	"github.com/riffle-dp/riffle/pkg/channel/shuffle"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// Why a bit message is not counted. Rejected and Repeated hold for all messages of a round.
const (
	Undecryptable outcome.Reason = "undecryptable"    // does not open under the round's announcement
	OutOfPlan     outcome.Reason = "out_of_plan"      // names a release or coordinate that the round does not have
	Rejected      outcome.Reason = "rejected"         // announcement, manifest and messages do not fit together
	Repeated      outcome.Reason = "repeated_message" // a message stands twice: the shuffler forwards copies
	BadChunk      outcome.Reason = "bad_chunk"        // its chunk is unreadable, or another round's
)

// CountReasons lists why a bit message may not be counted.
func CountReasons() []outcome.Reason {
	return []outcome.Reason{Undecryptable, OutOfPlan, Rejected, Repeated, BadChunk}
}

// Counting is the analyzer's side of the shuffle channel. It opens chunks of bit messages as they arrive, reads those
// that came to an earlier process again, and counts ones. The noise in its counts is the devices' alone.
type Counting struct {
	Chunks   ChunkStore
	Clock    role.Clock
	Log      zerolog.Logger
	Messages *outcome.Outcomes // account of bit messages, made with CountReasons; nil: none is kept

	current atomic.Pointer[round] // the round that Count works on; nil between rounds
}

// ChunkStore is what the broker keeps of rounds that are not counted yet. *bus.Conn is one, and documents the methods.
type ChunkStore interface {
	ReadChunks(ctx context.Context, epoch uint64, round uint32, handler func(index uint32, payload []byte) error) error
	PurgeMixed(ctx context.Context, epoch uint64, round uint32) error
}

// Take opens a chunk. It uses all processors, and returns when the chunk is counted.
func (c *Counting) Take(p channel.Part) {
	if r := c.current.Load(); r != nil && r.Epoch == p.Epoch && r.Announcement.Round == p.Round {
		c.open(r, p.Payload)
		select {
		case r.arrived <- struct{}{}:
		default:
		}
	}
}

// Taken counts the bit messages that were opened.
func (c *Counting) Taken() (messages int) {
	if r := c.current.Load(); r != nil {
		r.mu.Lock()
		defer r.mu.Unlock()
		for _, chunk := range r.chunks {
			messages += chunk.Messages
		}
	}
	return messages
}

// Count waits for all chunks that the manifest names. It refuses the round if they are not what announcement and
// manifest say (Rejected), or if a bit message stands twice (Repeated).
func (c *Counting) Count(
	ctx context.Context, of *channel.Round, manifest channel.Manifest,
) ([]wire.ReleaseCounts, error) {
	r := newRound(of)
	c.current.Store(r)
	defer c.current.Store(nil)
	m, err := manifest(ctx)
	if err != nil {
		return nil, err
	}
	if err := c.complete(ctx, r, m.Chunks); err != nil {
		return nil, err
	}
	copied, err := c.copied(ctx, r, m)
	if err != nil {
		return nil, err
	}
	return c.tally(r, m, copied)
}

// Sums removes the expected noise.
func (*Counting) Sums(a *plan.Announcement, counts *wire.Counts) (sums []channel.Sum, err error) {
	if len(counts.Releases) != len(a.Encodings) {
		return nil, fmt.Errorf("%d releases have counts, the round has %d", len(counts.Releases), len(a.Encodings))
	}
	for i, e := range a.Encodings {
		values, err := e.Decode(counts.Releases[i].Ones, uint64(counts.Reports))
		if err != nil {
			return nil, fmt.Errorf("release %d: %w", i, err)
		}
		sums = append(sums, channel.Sum{Values: values, Variance: e.Variance(uint64(counts.Reports))})
	}
	return sums, nil
}

// Forget drops the round's chunks from the broker.
func (c *Counting) Forget(ctx context.Context, epoch uint64, round uint32) error {
	return c.Chunks.PurgeMixed(ctx, epoch, round)
}

// quietTime is how long no chunk may come before those that are missing are read from the store.
const quietTime = 500 * time.Millisecond

// complete waits for the first chunks of the round, this many, and reads those that Take did not bring: they came to an
// earlier process.
func (c *Counting) complete(ctx context.Context, r *round, chunks uint32) error {
	for r.lacks(chunks) {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-r.arrived: // what is on its way need not be read again
			continue
		case <-c.Clock.After(quietTime):
		}
		if !r.isBusy() {
			return c.Chunks.ReadChunks(ctx, r.Epoch, r.Announcement.Round, func(_ uint32, payload []byte) error {
				c.open(r, payload)
				return nil
			})
		}
	}
	return nil
}

// open counts a chunk of a round. A chunk that cannot be counted is logged: if the manifest names it, the round will be
// rejected.
func (c *Counting) open(r *round, payload []byte) {
	if err := r.open(payload); err != nil {
		c.Log.Error().Err(err).Str(outcome.Field, string(BadChunk)).Uint64("epoch", r.Epoch).
			Uint32("round", r.Announcement.Round).Msg("chunk not counted")
	}
}

// tally checks the round against announcement and manifest, and returns its counts. copied, if not nil, is why the
// round is refused even if its numbers are right. Dishonest devices can make messages that do not open or name the
// wrong coordinate: as many as the plan's dishonest reports can hold are tolerated, and count as zeros. If there are more,
// the round is rejected.
func (c *Counting) tally(r *round, m *wire.Manifest, copied error) ([]wire.ReleaseCounts, error) {
	total, digests := shuffle.NewTally(r.Encodings), make([][32]byte, 0, m.Chunks)
	for i := range m.Chunks {
		chunk := r.counted(i)
		if chunk == nil {
			return nil, fmt.Errorf("%w: chunk %d of %d is not in the stream", Rejected, i, m.Chunks)
		}
		digests = append(digests, chunk.digest)
		total.Add(chunk.Tally)
	}
	c.Messages.Received(total.Messages)
	if err := r.check(m, total.Messages, wire.ChunksDigest(digests)); err != nil {
		c.Messages.Refused(err, total.Messages)
		return nil, err
	}
	if copied != nil {
		c.Messages.Refused(copied, total.Messages)
		return nil, copied
	}
	ones, odd := total.Counts(uint64(m.Reports))
	if most := int(r.Cohort.MaxDishonest) * r.ReportMessages(); odd > most {
		c.Messages.Refused(Rejected, total.Messages)
		return nil, fmt.Errorf("%w: %d messages do not open or exceed their coordinate's number; "+
			"dishonest devices can make at most %d", Rejected, odd, most)
	}
	c.Messages.Refused(Undecryptable, total.Undecryptable)
	c.Messages.Refused(OutOfPlan, total.OutOfPlan)
	c.Messages.Released(total.Messages - total.Undecryptable - total.OutOfPlan)
	counts := make([]wire.ReleaseCounts, len(ones))
	for i := range ones {
		counts[i].Ones = ones[i]
	}
	return counts, nil
}

// check compares a manifest with the round's announcement, and with the chunks that came.
func (r *round) check(m *wire.Manifest, messages int, chunks [32]byte) error {
	rejected := func(format string, v ...any) error { return fmt.Errorf("%w: %s", Rejected, fmt.Sprintf(format, v...)) }
	hold := uint64(m.Reports) * uint64(r.ReportMessages())
	switch {
	case !bytes.Equal(m.Announcement, r.Digest[:]):
		return rejected("the shuffler admitted reports for another announcement, %x", m.Announcement[:8])
	case m.Reports < r.Cohort.Minimum:
		return rejected("the shuffler released %d reports, below the minimum of %d", m.Reports, r.Cohort.Minimum)
	case m.Reports > r.Cohort.Size:
		return rejected("the shuffler released %d reports from a cohort of %d", m.Reports, r.Cohort.Size)
	case !bytes.Equal(m.ChunksDigest, chunks[:]):
		return rejected("the chunks are not those of the manifest")
	case m.Messages != uint64(messages) || m.Messages != hold:
		return rejected("%d messages came, the manifest says %d, %d reports hold %d",
			messages, m.Messages, m.Reports, hold)
	}
	return nil
}

package shuffle

import (
	"context"
	"fmt"
	"hash/maphash"
	"sync"

	"github.com/riffle-dp/riffle/internal/channel"
	"github.com/riffle-dp/riffle/internal/channel/chunks"
	"github.com/riffle-dp/riffle/internal/role/outcome"
	"github.com/riffle-dp/riffle/pkg/channel/shuffle"
	"github.com/riffle-dp/riffle/pkg/seal"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// Why a bit message is not counted, besides the reasons of package chunks. Repeated holds for all messages of a round.
const (
	OutOfPlan outcome.Reason = "out_of_plan"      // names a release or coordinate that the round does not have
	Repeated  outcome.Reason = "repeated_message" // a message stands twice: the shuffler forwards copies
)

// CountReasons lists why a bit message may not be counted.
func CountReasons() []outcome.Reason {
	return []outcome.Reason{chunks.Undecryptable, OutOfPlan, chunks.Rejected, Repeated, chunks.BadChunk}
}

// Counting is the analyzer's side of the shuffle channel. It opens chunks of bit messages as they arrive, on all
// processors, reads those that came to an earlier process again, and counts ones. The noise in its counts is the
// devices' and, where the plan says so, the shuffler's.
type Counting struct {
	chunks.Receiver[*shuffle.Tally]
	Messages *outcome.Outcomes // account of bit messages, made with CountReasons; nil: none is kept
}

// round is the counting of one round.
type round struct {
	*chunks.Round[*shuffle.Tally]

	mu     sync.Mutex
	copies *shuffle.Copies // of the chunks that were opened
}

// begin starts a round.
func (c *Counting) begin(of *channel.Round) (r *round, end func()) {
	noise := shuffle.NoiseMessages(of.Announcement)
	expected := int(of.Cohort.Size)*of.ReportMessages() + int(min(noise, shuffle.MaxNoiseMessages))
	r = &round{copies: shuffle.NewCopies(maphash.MakeSeed(), expected)}
	opener := seal.NewBitOpener(of.Key, of.Digest)
	r.Round, end = c.Begin(of, seal.BitSize, noise, func(messages []byte) *shuffle.Tally {
		tally := open(of, opener, messages)
		r.mu.Lock()
		defer r.mu.Unlock()
		r.copies.Add(messages)
		return tally
	})
	return r, end
}

// Count waits for all chunks that the manifest names. It refuses the round if they are not what announcement and
// manifest say (chunks.Rejected), or if a bit message stands twice (Repeated).
func (c *Counting) Count(
	ctx context.Context, of *channel.Round, manifest channel.Manifest,
) ([]wire.ReleaseCounts, error) {
	r, end := c.begin(of)
	defer end()
	m, err := manifest(ctx)
	if err != nil {
		return nil, err
	}
	if err := c.Complete(ctx, r.Round, m.Chunks); err != nil {
		return nil, err
	}
	copied, err := c.copied(ctx, r, m)
	if err != nil {
		return nil, err
	}
	return c.tally(r, m, copied)
}

// tally checks the round against announcement and manifest, and returns its counts. copied, if not nil, is why the
// round is refused even if its numbers are right. Dishonest devices can make messages that do not open or name the
// wrong coordinate: as many as the plan's dishonest reports can hold are tolerated, and count as zeros. If there are more,
// the round is rejected.
func (c *Counting) tally(r *round, m *wire.Manifest, copied error) ([]wire.ReleaseCounts, error) {
	named, sent, err := r.Named(m)
	if err != nil {
		return nil, err
	}
	total := shuffle.NewTally(r.Encodings)
	for _, chunk := range named {
		total.Add(chunk.Found)
	}
	c.Messages.Received(sent.Messages)
	if err := chunks.Check(r.Round.Round, m, sent, shuffle.NoiseMessages(r.Announcement)); err != nil {
		c.Messages.Refused(err, total.Messages)
		return nil, err
	}
	if copied != nil {
		c.Messages.Refused(copied, total.Messages)
		return nil, copied
	}
	noise := make([]uint64, len(r.Encodings))
	for i, release := range r.Releases() {
		noise[i] = release.ShufflerNoise
	}
	ones, odd := total.Counts(uint64(m.Reports), noise)
	if most := int(r.Cohort.MaxDishonest) * r.ReportMessages(); odd > most {
		c.Messages.Refused(chunks.Rejected, total.Messages)
		return nil, fmt.Errorf("%w: %d messages do not open or exceed their coordinate's number; "+
			"dishonest devices can make at most %d", chunks.Rejected, odd, most)
	}
	c.Messages.Refused(chunks.Undecryptable, total.Undecryptable)
	c.Messages.Refused(OutOfPlan, total.OutOfPlan)
	c.Messages.Released(total.Messages - total.Undecryptable - total.OutOfPlan)
	counts := make([]wire.ReleaseCounts, len(ones))
	for i := range ones {
		counts[i].Ones = ones[i]
	}
	return counts, nil
}

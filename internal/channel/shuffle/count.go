package shuffle

import (
	"context"
	"fmt"

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
	Repeated  outcome.Reason = "repeated_message" // duplicate message: the shuffler forwards copies
)

// CountReasons lists why a bit message may not be counted.
func CountReasons() []outcome.Reason {
	return []outcome.Reason{chunks.Undecryptable, OutOfPlan, chunks.Rejected, Repeated, chunks.BadChunk}
}

// Counting is the analyzer's side of the shuffle channel. It has chunks of bit messages opened as they arrive, on all
// processors or by workers, reads those that came to an earlier process again, and counts ones. The noise in its counts
// is the devices' and, where the plan says so, the shuffler's.
type Counting struct {
	chunks.Receiver[tally]
	Messages *outcome.Outcomes // account of bit messages, made with CountReasons; nil: none is kept
}

// begin starts a round.
func (c *Counting) begin(ctx context.Context, of *channel.Round) (r *chunks.Round[tally], end func()) {
	opener := seal.NewBitOpener(of.Key, of.Digest)
	return c.Begin(ctx, of, chunks.Opening[tally]{
		Size: seal.BitSize, Noise: shuffle.NoiseMessages(of.Announcement), Kind: TaskCount,
		Open: func(messages []byte) tally { return open(of, opener, messages) },
		Parse: func(found []byte, messages int) (tally, error) {
			_, err := shuffle.ParseTally(of.Encodings, messages, found)
			return found, err
		},
	})
}

// Count waits for all chunks that the manifest names. It refuses the round if they are not what announcement and
// manifest say (chunks.Rejected), or if a bit message is duplicate (Repeated).
//
// A round's bit messages are all different: each has an encapsulated key of its own. A shuffler that forwards copies of
// one person's messages multiplies that person's part in the sums, and the copies add no noise: the next policy would
// reveal the record. It is enough to compare bytes, by their digests, because a party that cannot open a message cannot
// make a different one with the same content. A shuffler that replaces all other people's bits by bits that it made
// itself is not detected.
func (c *Counting) Count(
	ctx context.Context, of *channel.Round, manifest channel.Manifest,
) ([]wire.ReleaseCounts, error) {
	r, end := c.begin(ctx, of)
	defer end()
	m, err := manifest(ctx)
	if err != nil {
		return nil, err
	}
	if err := c.Complete(ctx, r, m.Chunks); err != nil {
		return nil, err
	}
	return c.tally(r, m)
}

// tally checks the round against announcement and manifest, and returns its counts. Dishonest devices can make messages
// that do not open: as many as the plan's dishonest reports can hold are tolerated, and count as zeros. If there are
// more, the round is rejected. How many messages there are of each coordinate follows from the number of reports, and a
// round with another number is rejected.
func (c *Counting) tally(r *chunks.Round[tally], m *wire.Manifest) ([]wire.ReleaseCounts, error) {
	named, sent, err := r.Named(m)
	if err != nil {
		return nil, err
	}
	c.Messages.Received(sent.Messages)
	err = chunks.Check(r.Round, m, sent, shuffle.NoiseMessages(r.Announcement))
	if err == nil && sent.Twice != nil {
		err = fmt.Errorf("%w: a message of chunk %d is the same as one of chunk %d: a person's bits were copied",
			Repeated, sent.Twice[0], sent.Twice[1])
	}
	if err != nil {
		c.Messages.Refused(err, sent.Messages)
		return nil, err
	}
	total := shuffle.NewTally(r.Encodings)
	for _, chunk := range named {
		found, err := shuffle.ParseTally(r.Encodings, chunk.Messages, chunk.Found)
		if err != nil {
			return nil, err
		}
		total.Add(found)
	}
	noise := make([]uint64, len(r.Encodings))
	for i, release := range r.Releases() {
		noise[i] = release.ShufflerNoise
	}
	if err := total.Complete(uint64(m.Reports), noise); err != nil {
		c.Messages.Refused(chunks.Rejected, total.Messages)
		return nil, fmt.Errorf("%w: %w: the shuffler lost, added or changed messages", chunks.Rejected, err)
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

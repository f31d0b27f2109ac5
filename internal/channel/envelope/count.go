// Package envelope is the analyzer's side of the channels local and central, in which a report is one envelope that the
// analyzer opens (pkg/channel/envelope). The mixing side of both permutes envelopes and is in internal/channel/shuffle.
//
// # What it guarantees
//
// A device is counted once in a round, in one epoch, and only with the registrar's credential, so that the shuffler
// cannot multiply a person. In the channel central the entries of a person, and the sums of a cohort without noise, are
// in memory only, and sealed in what counting workers of the analyzer answer: on disk, in logs, statements and errors
// there are only sums with the noise that the plan promises, which is drawn once. It is stored before anyone can see
// it, and stays there: a retry comes to the same, also where the broker's data was set back to before the counts.
//
// # What it does not guarantee
//
// In the channel central this process reads what every person reports, and people must trust it. In the channel local
// it reads entries that carry each device's own noise, which is all that protects a person; of pairs (plan.Plan.Pairs)
// it gives out those of every device that is counted.
package envelope

import (
	"context"
	"errors"
	"fmt"

	"github.com/riffle-dp/riffle/internal/bus"
	"github.com/riffle-dp/riffle/internal/channel"
	"github.com/riffle-dp/riffle/internal/channel/chunks"
	"github.com/riffle-dp/riffle/internal/role/outcome"
	devices "github.com/riffle-dp/riffle/pkg/channel"
	"github.com/riffle-dp/riffle/pkg/channel/envelope"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/protocol"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// Why an envelope is not counted, besides the reasons of package chunks.
const (
	OutOfRange   outcome.Reason = "out_of_range"    // an entry is larger than its coordinate allows
	NoCredential outcome.Reason = "no_credential"   // the proof of participation is not that of a device
	Repeated     outcome.Reason = "repeated_device" // another envelope of the device was counted in the round
	Earlier      outcome.Reason = "counted_before"  // the device was counted in another epoch
	Newcomer     outcome.Reason = "newcomer"        // the device was not counted in the first round of the epoch
	SponsorShare outcome.Reason = "sponsor_share"   // as many devices of the sponsor are counted as one may have
	IssuerFull   outcome.Reason = "issuer_full"     // as many installations of the issuer as its certificate says
	NotDrawn     outcome.Reason = "not_drawn"       // the device cannot be in the epoch's panel
)

// CountReasons lists why an envelope may not be counted.
func CountReasons() []outcome.Reason {
	return []outcome.Reason{
		chunks.Undecryptable, OutOfRange, NoCredential, Repeated, Earlier, Newcomer, SponsorShare, IssuerFull, NotDrawn,
		chunks.Rejected, chunks.BadChunk,
	}
}

// Counting is the analyzer's side of the channels local and central.
//
// In a round of sums, an envelope that is refused counts as the envelope of a device that has nothing to report
// (envelope.Absent): so the number of reports in the counts stays that of the manifest, which fixes the mean of the
// noise, and the sums stay without bias, whoever sends malformed envelopes. As many are tolerated as the plan counts
// dishonest reports; with more the round is rejected.
type Counting struct {
	chunks.Receiver[*Found]
	Verifier     *devices.Verifier // of proofs of participation
	SponsorShare float64           // largest share of a cohort that one sponsor's devices may be; 0: 1, all of it
	// Participants remembers who was counted. In the channel local it may be nil: then a device may be counted in
	// several epochs, which multiplies what it says, not what is known about it.
	Participants *channel.Participants
	Disk         channel.Disk      // of noised sums; only central needs it
	Source       protocol.Source   // of the noise of central: a CSPRNG
	Messages     *outcome.Outcomes // account of envelopes, made with CountReasons; nil: none is kept
}

// Count waits for all chunks that the manifest names, opens the envelopes and adds up what is in them.
func (c *Counting) Count(
	ctx context.Context, of *channel.Round, manifest channel.Manifest,
) ([]wire.ReleaseCounts, error) {
	opener, err := envelope.NewOpener(of.Announcement, of.Digest, of.Key, c.Verifier)
	if err != nil {
		return nil, err
	}
	size := envelope.Size(of.Encodings)
	how := chunks.Opening[*Found]{
		Size: size, Kind: TaskCount,
		Open:  func(envelopes []byte) *Found { return open(opener, envelopes, size).sumUp() },
		Parse: func(found []byte, envelopes int) (*Found, error) { return parseFound(of.Encodings, envelopes, found) },
	}
	// In any other channel they would not come out here, whatever was announced.
	pairs := of.Plan.Channel == plan.Local && of.Plan.Pairs()
	if pairs { // no worker opens them: counts hold no more than this process opens in minutes
		how = chunks.Opening[*Found]{
			Size: size, Open: func(envelopes []byte) *Found { return open(opener, envelopes, size) },
		}
	}
	r, end := c.Begin(ctx, of, how)
	defer end()
	m, err := manifest(ctx)
	if err != nil {
		return nil, err
	}
	central := of.Plan.Channel == plan.Central
	if central {
		if known, err := c.readNoised(of, m); err != nil || known != nil {
			return known, err
		}
	}
	if err := c.Complete(ctx, r, m.Chunks); err != nil {
		return nil, err
	}
	count := c.sum
	if pairs {
		count = c.each
	}
	sums, who, err := count(ctx, r, m, opener)
	if err != nil {
		return nil, err
	}
	if err := c.remember(of, who); err != nil {
		return nil, err
	}
	if central {
		return c.addNoise(of, m, sums)
	}
	return sums, nil
}

// remember makes durable who is counted in a round.
func (c *Counting) remember(of *channel.Round, who []devices.Present) error {
	if c.Participants == nil {
		return nil
	}
	err := c.Participants.Add(of.Epoch, of.Announcement.Round, who)
	if errors.Is(err, channel.ErrSecondSet) {
		return fmt.Errorf("%w: %w", chunks.Rejected, err)
	}
	return err
}

// each lists the entries of a round's envelopes of pairs. Those that are refused are left out: nothing is summed.
func (c *Counting) each(_ context.Context, r *chunks.Round[*Found], m *wire.Manifest, opener *envelope.Opener) (
	listed []wire.ReleaseCounts, who []devices.Present, err error,
) {
	var reports [][]uint32
	who, err = c.examine(r, m, func(_ uint32, chunk *chunks.Chunk[*Found], counted []bool) error {
		n := opener.Entries()
		for i, in := range counted {
			if in {
				reports = append(reports, chunk.Found.entries[i*n:(i+1)*n])
			}
		}
		return nil
	})
	if err != nil {
		return nil, nil, err
	}
	return []wire.ReleaseCounts{{Entries: envelope.Each(reports)}}, who, nil
}

// sum adds up the envelopes of a round: those that are refused as absent ones.
func (c *Counting) sum(ctx context.Context, r *chunks.Round[*Found], m *wire.Manifest, opener *envelope.Opener) (
	sums []wire.ReleaseCounts, who []devices.Present, err error,
) {
	absent := envelope.Absent(nil, r.Encodings)
	all := make([]uint64, len(absent))
	who, err = c.examine(r, m, func(index uint32, chunk *chunks.Chunk[*Found], counted []bool) error {
		for i, n := range chunk.Found.sum {
			all[i] += n
		}
		clear(chunk.Found.sum)
		var out []int // envelopes whose entries are in the chunk's sum, and are not counted
		for envelope, in := range counted {
			if in {
				continue
			}
			for i, entry := range absent {
				all[i] += uint64(entry)
			}
			if chunk.Found.refused[envelope] == 0 {
				out = append(out, envelope)
			}
		}
		return c.takeOut(ctx, r, opener, index, chunk, out, all)
	})
	if err != nil {
		return nil, nil, err
	}
	for _, e := range r.Encodings {
		sums = append(sums, wire.ReleaseCounts{Ones: all[:len(e.Coordinates):len(e.Coordinates)]})
		all = all[len(e.Coordinates):]
	}
	return sums, who, nil
}

// takeOut takes the entries of some envelopes of a chunk out of the sums again: who may be counted shows only when all
// envelopes before are known. No entries of single people were kept, so the chunk is read and the envelopes are opened
// once more. The error wraps chunks.Rejected where the chunk is not there any more.
func (c *Counting) takeOut(ctx context.Context, r *chunks.Round[*Found], opener *envelope.Opener, index uint32,
	chunk *chunks.Chunk[*Found], envelopes []int, sums []uint64,
) error {
	if len(envelopes) == 0 {
		return nil
	}
	payload, err := c.Store.ReadChunk(ctx, r.Epoch, r.Announcement.Round, index)
	if errors.Is(err, bus.ErrGone) || err == nil && wire.ChunkDigest(payload) != chunk.Digest {
		return fmt.Errorf("%w: chunk %d could not be read again to leave out envelopes", chunks.Rejected, index)
	} else if err != nil {
		return err
	}
	parsed, err := wire.ParseChunk(payload)
	if err != nil {
		return err
	}
	size := envelope.Size(r.Encodings)
	for _, i := range envelopes {
		entries, _, err := opener.Open(nil, parsed.Payload[i*size:(i+1)*size])
		if err != nil {
			return fmt.Errorf("%w: envelope %d of chunk %d opened and does not open again", chunks.Rejected, i, index)
		}
		for j, entry := range entries {
			sums[j] -= uint64(entry)
		}
		clear(entries)
	}
	return nil
}

// examine checks the round against announcement and manifest, and gives out its chunks in their order, with which of
// their envelopes are counted, so that every process comes to the same result and the same devices. What it gave out
// counts only if there is no error.
func (c *Counting) examine(r *chunks.Round[*Found], m *wire.Manifest,
	judged func(index uint32, chunk *chunks.Chunk[*Found], counted []bool) error,
) (who []devices.Present, err error) {
	named, sent, err := r.Named(m)
	if err != nil {
		return nil, err
	}
	envelopes := sent.Messages
	c.Messages.Received(envelopes)
	rejected := func(err error) ([]devices.Present, error) {
		c.Messages.Refused(err, envelopes)
		return nil, err
	}
	if err := chunks.Check(r.Round, m, sent, 0); err != nil {
		return rejected(err)
	}
	admission := c.admission(r.Round, envelopes)
	for index, chunk := range named {
		counted := make([]bool, chunk.Messages)
		for i, by := range chunk.Found.by {
			counted[i] = admission.admits(by, chunk.Found.reason(i))
		}
		if err := judged(uint32(index), chunk, counted); errors.Is(err, chunks.Rejected) {
			return rejected(err)
		} else if err != nil {
			return nil, err
		}
	}
	if most := int(r.Cohort.MaxDishonest); admission.bad > most || admission.bad == envelopes {
		return rejected(fmt.Errorf("%w: %d envelopes are refused (%s); dishonest devices can make at most %d",
			chunks.Rejected, admission.bad, admission.reasons(), most))
	}
	for why, n := range admission.refused {
		c.Messages.Refused(why, n)
	}
	c.Messages.Released(envelopes - admission.bad)
	if admission.bad > 0 {
		c.Log.Warn().Uint64("epoch", r.Epoch).Uint32("round", r.Announcement.Round).Int("envelopes", admission.bad).
			Str("reasons", admission.reasons()).
			Msg("envelopes are refused: their hosts, or the shuffler, do not follow the protocol")
	}
	return admission.who, nil
}

// Package box is the analyzer's side of the channels local and central, in which a report is one box that the analyzer
// opens (pkg/channel/box). The mixing side of both permutes boxes and is in internal/channel/shuffle.
//
// # What it guarantees
//
// A device is counted once in a round, in one epoch, and only with the registrar's credential, so that the shuffler
// cannot multiply a person. In the channel central the entries of a person, and the sums of a cohort without noise,
// are in memory only: on disk, in logs, statements and errors stand only sums with the noise that the plan promises,
// which is drawn once. It is stored before anyone can see it, and stays there: a retry comes to the same, also where
// the broker's data was set back to before the counts.
//
// # What it does not guarantee
//
// In the channel central this process reads what every person reports, and people must trust it. In the channel local
// it reads entries that carry each device's own noise, which is all that protects a person.
package box

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"

	"github.com/riffle-dp/riffle/internal/channel"
	"github.com/riffle-dp/riffle/internal/channel/chunks"
	"github.com/riffle-dp/riffle/internal/role/outcome"
	devices "github.com/riffle-dp/riffle/pkg/channel"
	"github.com/riffle-dp/riffle/pkg/channel/box"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/protocol"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// Why a box is not counted, besides the reasons of package chunks.
const (
	OutOfRange   outcome.Reason = "out_of_range"    // an entry is larger than its coordinate allows
	NoCredential outcome.Reason = "no_credential"   // the proof of participation is not that of a device
	Repeated     outcome.Reason = "repeated_device" // another box of the device was counted in the round
	Earlier      outcome.Reason = "counted_before"  // the device was counted in another epoch
	Newcomer     outcome.Reason = "newcomer"        // the device was not counted in the first round of the epoch
	HostShare    outcome.Reason = "host_share"      // as many devices of the host are counted as one host may have
	NotDrawn     outcome.Reason = "not_drawn"       // the device cannot be in the epoch's panel
)

// CountReasons lists why a box may not be counted.
func CountReasons() []outcome.Reason {
	return []outcome.Reason{
		chunks.Undecryptable, OutOfRange, NoCredential, Repeated, Earlier, Newcomer, HostShare, NotDrawn,
		chunks.Rejected, chunks.BadChunk,
	}
}

// Counting is the analyzer's side of the channels local and central.
//
// A box that is refused counts as the box of a device that has nothing to report (box.Absent): so the number of reports
// in the counts stays that of the manifest, which fixes the mean of the noise, and the sums stay without bias, whoever
// sends malformed boxes. As many are tolerated as the plan counts dishonest reports; with more the round is rejected.
type Counting struct {
	chunks.Receiver[*Found]
	Verifier  *devices.Verifier // of proofs of participation
	HostShare float64           // largest share of a cohort that one host's devices may be; 0: 1, all of it
	// Participants remembers who was counted. In the channel local it may be nil: then a device may be counted in
	// several epochs, which multiplies what it says, not what is known about it.
	Participants *channel.Participants
	Disk         channel.Disk      // of noised sums; only central needs it
	Source       protocol.Source   // of the noise of central: a CSPRNG
	Messages     *outcome.Outcomes // account of boxes, made with CountReasons; nil: none is kept
}

// Found is what was in the boxes of one chunk, in their order.
type Found struct {
	boxes   []byte   // as they came; only where they are kept (Curating)
	entries []uint32 // of all boxes, one after another; zeros for a box that is refused
	by      []devices.Participant
	refused []outcome.Reason // empty for a box that is not refused
}

// Count waits for all chunks that the manifest names, opens the boxes and adds up what is in them.
func (c *Counting) Count(
	ctx context.Context, of *channel.Round, manifest channel.Manifest,
) ([]wire.ReleaseCounts, error) {
	opener, err := box.NewOpener(of.Announcement, of.Digest, of.Key, c.Verifier)
	if err != nil {
		return nil, err
	}
	size := box.Size(of.Encodings)
	r, end := c.Begin(of, size, 0, func(boxes []byte) *Found { return open(opener, boxes, size) })
	defer end()
	m, err := manifest(ctx)
	if err != nil {
		return nil, err
	}
	central := of.Plan.Channel == plan.Central
	if central {
		if known, err := c.noised(of, m); err != nil || known != nil {
			return known, err
		}
	}
	if err := c.Complete(ctx, r, m.Chunks); err != nil {
		return nil, err
	}
	sums, who, err := c.sum(r, m)
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
func (c *Counting) remember(of *channel.Round, who []devices.Participant) error {
	if c.Participants == nil {
		return nil
	}
	err := c.Participants.Add(of.Epoch, of.Announcement.Round, who)
	if errors.Is(err, channel.ErrSecondSet) {
		return fmt.Errorf("%w: %w", chunks.Rejected, err)
	}
	return err
}

// open opens boxes on all processors.
func open(opener *box.Opener, boxes []byte, size int) *Found {
	n, parts, each := len(boxes)/size, runtime.GOMAXPROCS(0), opener.Entries()
	f := &Found{
		entries: make([]uint32, n*each), by: make([]devices.Participant, n), refused: make([]outcome.Reason, n),
	}
	var opening sync.WaitGroup
	for p := range parts {
		opening.Go(func() {
			for i := p * n / parts; i < (p+1)*n/parts; i++ {
				_, by, err := opener.Open(f.entries[i*each:i*each:(i+1)*each], boxes[i*size:(i+1)*size])
				f.by[i], f.refused[i] = by, reason(err)
			}
		})
	}
	opening.Wait()
	return f
}

// reason is why a box is refused that did not open with this error.
func reason(err error) outcome.Reason {
	switch {
	case err == nil:
		return ""
	case errors.Is(err, box.ErrRange):
		return OutOfRange
	}
	switch wire.Reason(err) {
	case wire.RefusalUndecryptable, wire.RefusalWrongSize:
		return chunks.Undecryptable
	}
	return NoCredential
}

// sum adds up the boxes of a round: those that are refused as absent ones.
func (c *Counting) sum(r *chunks.Round[*Found], m *wire.Manifest) (
	sums []wire.ReleaseCounts, who []devices.Participant, err error,
) {
	absent := box.Absent(nil, r.Encodings)
	all := make([]uint64, len(absent))
	add := func(entries []uint32) {
		for i, entry := range entries {
			all[i] += uint64(entry)
		}
	}
	who, err = c.examine(r, m, len(all), func(entries []uint32, _ []byte) { add(entries) }, func() { add(absent) })
	if err != nil {
		return nil, nil, err
	}
	for _, e := range r.Encodings {
		sums = append(sums, wire.ReleaseCounts{Ones: all[:len(e.Coordinates):len(e.Coordinates)]})
		all = all[len(e.Coordinates):]
	}
	return sums, who, nil
}

// examine checks the round against announcement and manifest, and gives out its boxes in their order, so that every
// process comes to the same result and the same devices: the entries, each this many, and where they are kept the bytes
// of each box that is counted, and a call for each that is refused. What it gave out counts only if there is no error.
func (c *Counting) examine(
	r *chunks.Round[*Found], m *wire.Manifest, each int, counted func(entries []uint32, box []byte), refused func(),
) (who []devices.Participant, err error) {
	named, sent, err := r.Named(m)
	if err != nil {
		return nil, err
	}
	boxes := sent.Messages
	c.Messages.Received(boxes)
	rejected := func(err error) ([]devices.Participant, error) {
		c.Messages.Refused(err, boxes)
		return nil, err
	}
	if err := chunks.Check(r.Round, m, sent, 0); err != nil {
		return rejected(err)
	}
	admission := c.admission(r.Round, boxes)
	for _, chunk := range named {
		size := len(chunk.Found.boxes) / max(1, len(chunk.Found.by))
		for i, by := range chunk.Found.by {
			if admission.admits(by, chunk.Found.refused[i]) {
				counted(chunk.Found.entries[i*each:(i+1)*each], chunk.Found.boxes[i*size:(i+1)*size])
			} else {
				refused()
			}
		}
		clear(chunk.Found.entries)
	}
	if most := int(r.Cohort.MaxDishonest); admission.bad > most || admission.bad == boxes {
		return rejected(fmt.Errorf("%w: %d boxes are refused (%s); dishonest devices can make at most %d",
			chunks.Rejected, admission.bad, admission.reasons(), most))
	}
	for why, n := range admission.refused {
		c.Messages.Refused(why, n)
	}
	c.Messages.Released(boxes - admission.bad)
	if admission.bad > 0 {
		c.Log.Warn().Uint64("epoch", r.Epoch).Uint32("round", r.Announcement.Round).Int("boxes", admission.bad).
			Str("reasons", admission.reasons()).
			Msg("boxes are refused: their hosts, or the shuffler, do not follow the protocol")
	}
	return admission.who, nil
}

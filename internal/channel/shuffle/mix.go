// Package shuffle is the servers' two sides of the shuffle channel: a report's payload is bit messages, each sealed to
// the analyzer on its own. The mixing side (Mixing) permutes those of a whole cohort, so that the analyzer's view of a
// release is a function of its number of ones for each coordinate. Package channel states what each side guarantees.
// The guarantee to people rests on a mixing side that follows the protocol, and on the two servers not working
// together.
//
// The mixing side also serves channels in which a report is one sealed envelope (local, central): it permutes and sends
// them in the same way, so that the analyzer sees neither when an envelope came nor from which of the broker's clients.
package shuffle

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"

	"github.com/riffle-dp/riffle/internal/bus"
	"github.com/riffle-dp/riffle/internal/channel"
	"github.com/riffle-dp/riffle/internal/channel/spill"
	"github.com/riffle-dp/riffle/pkg/channel/registry"
	"github.com/riffle-dp/riffle/pkg/channel/shuffle"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/protocol"
	"github.com/riffle-dp/riffle/pkg/transparency"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// Item is what accounts and metrics call what the shuffler passes on and the analyzer counts, in every channel.
const Item = "bit_message"

// chunkMessages is how many bit messages travel together to the analyzer unless Mixing says otherwise: under a
// megabyte. Longer messages travel in chunks of no more bytes.
const chunkMessages = 16384

// Mixing is the mixing side of the shuffle channel, and of those with envelopes. It refuses reports that repeat a
// message, adds the noise that the plan wants of the shuffler, as messages that nobody can tell from those of devices,
// puts all messages of a release into one uniformly random order, keeps them in that order on disk (the spool) until
// the manifest is out, and sends them in chunks. It cannot open a message, and it never stores the permutation, or
// which messages are its own, where anyone but this process can read it. Its memory is that of its store and a part as
// large again, whatever the cohort; of each member it has a byte.
type Mixing struct {
	Channel plan.Channel    // whose reports are mixed; empty: plan.Shuffle
	Reports channel.Reports // called from many goroutines at a time
	Chunks  Publisher
	Disk    channel.Disk
	Store   *spill.Store    // of messages on their way into the spool; several Mixings may share one
	Source  protocol.Source // of the permutation and of noise: a CSPRNG
	Chunk   int             // messages of one chunk, at most wire.MaxChunkMessages; 0: the default
	Retain  *Retention      // of what leaves; nil: nothing is retained
	// Exchange has several processes mix; nil: this one alone does.
	Exchange *Exchange

	bucket    int        // messages of a bucket; 0: as many as an eighth of the store's memory holds
	taken     taken      // reports as they were admitted
	scattered *scattered // the release under way; nil: not yet, or no more
}

// Publisher sends chunks to the analyzer. *bus.MixedStream is one.
type Publisher interface {
	// PublishChunk returns once the broker has stored the chunk. A repetition of the same bytes is stored once; other
	// bytes under the same index are bus.ErrExists.
	PublishChunk(ctx context.Context, epoch uint64, round, index uint32, payload []byte) error
}

// Layout counts the bit messages of one report; in the other channels a report is one message.
func (m *Mixing) Layout(a *plan.Announcement) (channel.Layout, error) {
	switch c := cmp.Or(m.Channel, plan.Shuffle); {
	case a.Plan.Channel != c:
		return channel.Layout{}, fmt.Errorf("a round of the channel %s, mixed is the channel %s", a.Plan.Channel, c)
	case m.Retain != nil && !Retainable(c):
		return channel.Layout{}, fmt.Errorf("nothing of the channel %s may be retained", c)
	case m.Retain != nil && bytes.Equal(m.Retain.Auditor, a.AnalyzerKey):
		return channel.Layout{}, errors.New("the auditor's key, to which messages are retained, is the analyzer's: " +
			"one key would open all of it")
	case shuffle.NoiseMessages(a) > shuffle.MaxNoiseMessages:
		return channel.Layout{}, shuffle.ErrNoise
	case c == plan.Shuffle:
		return channel.Layout{Messages: a.ReportMessages(), Labels: shuffle.LabelsOf(a.Encodings)}, nil
	default:
		return channel.Layout{Messages: 1, Channel: c, Payload: registry.PayloadSize(c, a.Encodings)}, nil
	}
}

// Commitment says nothing.
func (*Mixing) Commitment([32]byte) []byte { return nil }

// Parse is wire.ParseReport: a payload is as long as its layout says. In the channel shuffle it must have the layout's
// labels: each device has exactly its share of the bits of every coordinate. Otherwise the error is wire.ErrLabels.
func (*Mixing) Parse(report []byte, l channel.Layout) (*wire.Report, [32]byte, error) {
	r, digest, err := wire.ParseReport(report, l.Size())
	if err == nil && l.Of() == plan.Shuffle {
		err = shuffle.CheckLabels(r.Payload, l.Labels)
	}
	if err != nil {
		return nil, [32]byte{}, err
	}
	return r, digest, nil
}

// Take keeps the payload of a report.
func (m *Mixing) Take(epoch uint64, round uint32, member channel.Member, payload []byte) error {
	if m.Exchange != nil { // whoever gathers reads it
		return nil
	}
	return m.taken.add(m.Store, roundID{epoch, round}, member, payload)
}

// Repeated returns the slots of the members that repeat a message, within their own report or of another one. If there
// are none, the messages are in their buckets, for Release.
func (m *Mixing) Repeated(ctx context.Context, r *channel.Release) ([]uint32, error) {
	if m.Exchange != nil {
		return m.Exchange.findRepeated(ctx, m, r)
	}
	if err := checkAnnounced(r); err != nil {
		return nil, err
	}
	if m.scattered.of(r) {
		return nil, nil
	}
	m.drop()
	s, slots, err := m.scatter(ctx, r)
	m.scattered = s
	return slots, err
}

// Release permutes the messages unless that was done before, and sends them.
func (m *Mixing) Release(ctx context.Context, r *channel.Release, manifest *wire.Manifest) ([]channel.Rejected, error) {
	err := m.release(ctx, r, manifest)
	if errors.Is(err, channel.ErrImpossible) && !errors.Is(err, channel.ErrLeft) && m.hasLeft(r) {
		err = fmt.Errorf("%w: %w", channel.ErrLeft, err)
	}
	return nil, err
}

func (m *Mixing) release(ctx context.Context, r *channel.Release, manifest *wire.Manifest) error {
	if err := checkAnnounced(r); err != nil {
		return err
	}
	spool := m.spool(r)
	mixed, err := spool.exists()
	if err != nil {
		return err
	}
	if !mixed && m.Exchange != nil {
		return m.Exchange.release(ctx, m, r, manifest)
	}
	if begun, err := m.readBarrier(r); begun != nil || err != nil {
		return cmp.Or(err, errWorkers)
	}
	if !mixed { // so nothing has left: the spool is the only way out, and it was never whole
		if err := m.mix(ctx, r, spool); err != nil {
			return err
		}
	}
	return m.send(ctx, r, spool, manifest)
}

// hasLeft reports whether something of the release may have left: what is durable before the first message leaves is
// there, or it cannot be known.
func (m *Mixing) hasLeft(r *channel.Release) bool {
	mixed, err := m.spool(r).exists()
	if err != nil || mixed {
		return true
	}
	barrier, err := channel.ReadFile(m.Disk, barrierName(r.Epoch, r.Round))
	return err != nil || barrier != nil
}

// checkAnnounced makes sure that the announcement is known: without it the plan's noise would be left out.
func checkAnnounced(r *channel.Release) error {
	if r.Announced == nil {
		return fmt.Errorf("the announcement of round %d of epoch %d is not known", r.Round, r.Epoch)
	}
	return nil
}

// Forget removes the spool, what several processes have of the release, and the reports of this round and of those
// before it.
func (m *Mixing) Forget(epoch uint64, round uint32) error {
	m.drop()
	m.taken.forget(roundID{epoch, round})
	if m.Exchange != nil {
		m.Exchange.forget()
	}
	return cmp.Or(m.Disk.Remove(barrierName(epoch, round)), m.Disk.Remove(spoolName(epoch, round)))
}

// drop gives back what the release under way takes.
func (m *Mixing) drop() {
	if m.scattered != nil {
		_ = m.scattered.buckets.Close() // never fails
		m.scattered = nil
	}
}

// mix spools the messages of the release's members, and the noise that the shuffler adds, in a uniformly random order.
// What was drawn before the spool was whole has been seen by no one: after an error all is drawn anew.
func (m *Mixing) mix(ctx context.Context, r *channel.Release, spool spool) error {
	defer m.drop()
	if !m.scattered.of(r) { // this process did not commit it, or the disk was full
		m.drop()
		s, slots, err := m.scatter(ctx, r)
		if err != nil {
			return err
		}
		if len(slots) > 0 {
			return fmt.Errorf("%w: %d reports repeat a message, which was not so when they were committed",
				channel.ErrImpossible, len(slots))
		}
		m.scattered = s
	}
	return spool.write(m.scattered.buckets, permuter{
		store: m.Store, src: m.Source, size: spool.size, most: 2 * m.inBucket(spool.size), fan: divided,
	})
}

// send sends the spooled messages and completes the manifest with what was sent. While the broker stores one chunk, the
// next one is digested.
func (m *Mixing) send(ctx context.Context, r *channel.Release, spool spool, manifest *wire.Manifest) error {
	var digests [][32]byte
	sent := m.Store.Sorter(sha256.Size)
	defer sent.Close()
	var batch []byte // digests of a chunk's messages
	var last chan error
	stored := func() (err error) { // the last chunk
		if last != nil {
			err, last = <-last, nil
		}
		return err
	}
	size := m.chunkOf(spool.size)
	messages, err := spool.chunks(size, func(index uint32, part []byte) error {
		chunk, err := wire.BuildChunk(wire.Chunk{Epoch: r.Epoch, Round: r.Round, Index: index, Payload: part})
		if err != nil {
			return err
		}
		digests = append(digests, wire.ChunkDigest(chunk))
		batch = wire.AppendMessageDigests(batch[:0], part, spool.size)
		if err := cmp.Or(sent.Append(batch), stored()); err != nil {
			return err
		}
		done := make(chan error, 1)
		last = done
		go func() { done <- m.publish(ctx, r, index, chunk) }()
		return nil
	})
	if err = cmp.Or(err, stored()); err != nil {
		return err
	}
	noise := shuffle.NoiseMessages(r.Announced)
	if want := uint64(r.Messages()) + noise; messages != want {
		return fmt.Errorf("spool: %d messages, want %d of %d reports and %d of noise",
			messages, want-noise, len(r.Members), noise)
	}
	root, err := sortedRoot(sent)
	if err != nil {
		return err
	}
	all := wire.ChunksDigest(digests)
	manifest.NoiseMessages, manifest.MessagesRoot = noise, root[:]
	manifest.Messages, manifest.Chunks, manifest.ChunksDigest = messages, uint32(len(digests)), all[:]
	return nil
}

// publish sends one chunk, and has it retained.
func (m *Mixing) publish(ctx context.Context, r *channel.Release, index uint32, chunk []byte) error {
	err := m.Chunks.PublishChunk(ctx, r.Epoch, r.Round, index, chunk)
	if index == 0 && errors.Is(err, bus.ErrExists) {
		// One release has one membership and one order. Messages of this round left before, permuted otherwise or with
		// other members, so nothing of this one may follow.
		return fmt.Errorf("%w: other messages of this round left before: the state folder is older than what this "+
			"shuffler has sent; restored from a backup?", channel.ErrImpossible)
	}
	if err == nil && m.Retain != nil { // before the manifest, which names what is forwarded
		err = m.Retain.keep(ctx, r, index, chunk)
	}
	return err
}

// sortedRoot is transparency.SortedRoot over digests in a sorter.
func sortedRoot(digests *spill.Sorter) (transparency.Hash, error) {
	var tree transparency.SortedTree
	err := digests.Sorted(func(entries []byte) error {
		for digest := range slices.Chunk(entries, sha256.Size) {
			if err := tree.Append([sha256.Size]byte(digest)); err != nil {
				return err
			}
		}
		return nil
	})
	return tree.Root(), err
}

// messageSize is the length in bytes of each message of a report.
func messageSize(l channel.Layout) int { return l.Size() / l.Messages }

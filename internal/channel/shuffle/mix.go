// Package shuffle is the servers' two sides of the shuffle channel: a report's payload is bit messages, each sealed to
// the analyzer on its own. The mixing side (Mixing) permutes those of a whole cohort, so that the analyzer's view of a
// release is a function of its number of ones for each coordinate. Package channel states what each side guarantees.
// The guarantee to people rests on a mixing side that follows the protocol, and on the two servers not working
// together.
package shuffle

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/riffle-dp/riffle/internal/bus"
	"github.com/riffle-dp/riffle/internal/channel"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/protocol"
	"github.com/riffle-dp/riffle/pkg/seal"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// Item is what accounts and metrics call this channel's message.
const Item = "bit_message"

// chunkMessages is how many bit messages travel together to the analyzer unless Mixing says otherwise: under a
// megabyte.
const chunkMessages = 16384

// Mixing is the mixing side of the shuffle channel. It refuses reports that repeat a bit message, puts all bit messages
// of a release into one uniformly random order, keeps them in that order on disk (the spool) until the manifest is out,
// and sends them in chunks. It cannot open a bit message, and it never stores the permutation.
type Mixing struct {
	Reports channel.Reports
	Chunks  Publisher
	Disk    channel.Disk
	Source  protocol.Source // of the permutation: a CSPRNG
	Chunk   int             // bit messages of one chunk, at most wire.MaxChunkMessages; 0: the default

	gathered *gathered // of the release under way
}

// Publisher sends chunks to the analyzer. *bus.Conn is one.
type Publisher interface {
	// PublishChunk returns once the broker has stored the chunk. A repetition of the same bytes is stored once; other
	// bytes under the same index are bus.ErrExists.
	PublishChunk(ctx context.Context, epoch uint64, round, index uint32, payload []byte) error
}

// Layout counts the bit messages of one report.
func (*Mixing) Layout(a *plan.Announcement) channel.Layout {
	return channel.Layout{Messages: a.ReportMessages()}
}

// EnvelopeSize is wire.EnvelopeSize.
func (*Mixing) EnvelopeSize(l channel.Layout) int { return wire.EnvelopeSize(l.Messages) }

// Parse is wire.ParseReport: a payload is as many bit messages as its layout says.
func (*Mixing) Parse(report []byte, l channel.Layout) (*wire.Report, [32]byte, error) {
	return wire.ParseReport(report, l.Messages)
}

// Repeated returns the slots of the members that repeat a bit message, within their own report or of another one.
func (m *Mixing) Repeated(ctx context.Context, r *channel.Release) ([]uint32, error) {
	g, err := m.gather(ctx, r, m.gathered)
	if err != nil {
		m.gathered = nil
		return nil, err
	}
	slots := g.repeated()
	if m.gathered = g; len(slots) > 0 {
		m.gathered = nil
	}
	return slots, nil
}

// Release permutes the bit messages unless that was done before, and sends them.
func (m *Mixing) Release(ctx context.Context, r *channel.Release, manifest *wire.Manifest) error {
	spool := m.spool(r.Epoch, r.Round)
	mixed, err := spool.exists()
	if err != nil {
		return err
	}
	if !mixed { // so nothing has left: the spool is the only way out, and it was never whole
		if err := m.mix(ctx, r, spool); err != nil {
			return err
		}
	}
	return m.send(ctx, r, spool, manifest)
}

// Forget removes the spool.
func (m *Mixing) Forget(epoch uint64, round uint32) error {
	m.gathered = nil
	return m.spool(epoch, round).remove()
}

// mix spools the bit messages of the release's members in a uniformly random order.
func (m *Mixing) mix(ctx context.Context, r *channel.Release, spool spool) (err error) {
	g := m.gathered
	m.gathered = nil
	if !g.of(r) { // this process did not commit it
		if g, err = m.gather(ctx, r, nil); err != nil {
			return err
		}
		if slots := g.repeated(); len(slots) > 0 {
			return fmt.Errorf("%w: %d reports repeat a bit message, which was not so when they were committed",
				channel.ErrImpossible, len(slots))
		}
	}
	return spool.write(g.bits, m.Source)
}

// send sends the spooled bit messages and completes the manifest with what was sent.
func (m *Mixing) send(ctx context.Context, r *channel.Release, spool spool, manifest *wire.Manifest) error {
	var digests [][32]byte
	messages, err := spool.chunks(cmp.Or(m.Chunk, chunkMessages), func(index uint32, bits []byte) error {
		chunk, err := wire.BuildChunk(wire.Chunk{Epoch: r.Epoch, Round: r.Round, Index: index, Bits: bits})
		if err != nil {
			return err
		}
		digests = append(digests, wire.ChunkDigest(chunk))
		err = m.Chunks.PublishChunk(ctx, r.Epoch, r.Round, index, chunk)
		if index == 0 && errors.Is(err, bus.ErrExists) {
			// One release has one membership and one order. Messages of this round left before, permuted otherwise or
			// with other members, so nothing of this one may follow.
			return fmt.Errorf("%w: other messages of this round left before: "+
				"the state folder is older than what this shuffler has sent; restored from a backup?",
				channel.ErrImpossible)
		}
		return err
	})
	if err != nil {
		return err
	}
	all := wire.ChunksDigest(digests)
	manifest.Messages, manifest.Chunks, manifest.ChunksDigest = messages, uint32(len(digests)), all[:]
	return nil
}

// gathered are the bit messages of a release's members, in memory between the question whether any is repeated and the
// spool.
type gathered struct {
	release *channel.Release
	bits    [][seal.BitSize]byte // member by member
}

// of tells whether these are the bit messages of that release.
func (g *gathered) of(r *channel.Release) bool {
	return g != nil && g.release.Epoch == r.Epoch && g.release.Round == r.Round &&
		slices.Equal(g.release.Members, r.Members)
}

// gather reads the bit messages of the release's members. Those in known, which may be nil, are not read again.
func (m *Mixing) gather(ctx context.Context, r *channel.Release, known *gathered) (*gathered, error) {
	each := r.Layout.Messages
	g := &gathered{release: r, bits: make([][seal.BitSize]byte, 0, r.Messages())}
	at := map[channel.Member]int{}
	if known != nil && known.release.Epoch == r.Epoch && known.release.Round == r.Round {
		for i, member := range known.release.Members {
			at[member] = i * each
		}
	}
	for _, member := range r.Members {
		if i, ok := at[member]; ok {
			g.bits = append(g.bits, known.bits[i:i+each]...)
			continue
		}
		report, err := m.Reports(ctx, r, member)
		if err != nil {
			return nil, err
		}
		for at := 0; at < len(report.Bits); at += seal.BitSize {
			g.bits = append(g.bits, [seal.BitSize]byte(report.Bits[at:]))
		}
	}
	return g, nil
}

// repeated returns the slots of the members of whose bit messages one stands in the release twice: within their report,
// or in another one.
//
// A copy would shift a count without adding the noise that an honest message brings, so the analyzer refuses a release
// that has one; and a device that could make it refuse could destroy every cohort. So no such report may get that far,
// and only those that take part in the repetition are refused. They are all refused, the first as well as the rest:
// each bit message is made with a key pair of its own, drawn from the system's generator, and until the release is out
// only its device's host and this shuffler see it. So a host that holds the same message does not follow the protocol
// or conspires with one that does not, and no honest person's report can be among them.
//
// Messages are compared by their public keys: two that share one are never both honest, whether or not the rest is
// equal. So this finds all that the analyzer could object to. It works on the messages that are about to be mixed,
// which are in memory already, and takes four further bytes for each of them (one has 52) while it runs.
func (g *gathered) repeated() (slots []uint32) {
	order := make([]uint32, len(g.bits))
	for i := range order {
		order[i] = uint32(i)
	}
	key := func(i uint32) []byte { return g.bits[i][:seal.EncapsulatedSize] }
	slices.SortFunc(order, func(a, b uint32) int { return bytes.Compare(key(a), key(b)) })
	for i := 1; i < len(order); i++ {
		if a, b := order[i-1], order[i]; bytes.Equal(key(a), key(b)) {
			slots = append(slots, g.slot(a), g.slot(b))
		}
	}
	slices.Sort(slots)
	return slices.Compact(slots)
}

// slot is the slot whose report holds the bit message with this index.
func (g *gathered) slot(message uint32) uint32 {
	return g.release.Members[int(message)/g.release.Layout.Messages].Slot
}

// Package shuffle is the servers' two sides of the shuffle channel: a report's payload is bit messages, each sealed to
// the analyzer on its own. The mixing side (Mixing) permutes those of a whole cohort, so that the analyzer's view of a
// release is a function of its number of ones for each coordinate. Package channel states what each side guarantees.
// The guarantee to people rests on a mixing side that follows the protocol, and on the two servers not working
// together.
//
// The mixing side also serves channels in which a report is one sealed box (local, central): it permutes and sends them
// in the same way, so that the analyzer sees neither when a box came nor from which of the broker's clients.
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
	"github.com/riffle-dp/riffle/pkg/channel/registry"
	"github.com/riffle-dp/riffle/pkg/channel/shuffle"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/protocol"
	"github.com/riffle-dp/riffle/pkg/seal"
	"github.com/riffle-dp/riffle/pkg/transparency"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// Item is what accounts and metrics call what the shuffler passes on and the analyzer counts, in every channel.
const Item = "bit_message"

// chunkMessages is how many bit messages travel together to the analyzer unless Mixing says otherwise: under a
// megabyte. Longer messages travel in chunks of no more bytes.
const chunkMessages = 16384

// Mixing is the mixing side of the shuffle channel, and of those with boxes. It refuses reports that repeat a message,
// adds the noise that the plan wants of the shuffler, as messages that nobody can tell from those of devices, puts all
// messages of a release into one uniformly random order, keeps them in that order on disk (the spool) until the manifest
// is out, and sends them in chunks. It cannot open a message, and it never stores the permutation, or which messages
// are its own.
type Mixing struct {
	Channel plan.Channel // whose reports are mixed; empty: plan.Shuffle
	Reports channel.Reports
	Chunks  Publisher
	Disk    channel.Disk
	Source  protocol.Source // of the permutation and of noise: a CSPRNG
	Chunk   int             // messages of one chunk, at most wire.MaxChunkMessages; 0: the default
	Retain  *Retention      // of what leaves; nil: nothing is retained

	gathered *gathered // of the release under way
}

// Publisher sends chunks to the analyzer. *bus.Conn is one.
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
		return channel.Layout{Messages: a.ReportMessages()}, nil
	default:
		return channel.Layout{Messages: 1, Channel: c, Payload: registry.PayloadSize(c, a.Encodings)}, nil
	}
}

// Commitment says nothing.
func (*Mixing) Commitment([32]byte) []byte { return nil }

// Parse is wire.ParseReport: a payload is as long as its layout says.
func (*Mixing) Parse(report []byte, l channel.Layout) (*wire.Report, [32]byte, error) {
	return wire.ParseReport(report, l.Size())
}

// Repeated returns the slots of the members that repeat a message, within their own report or of another one.
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

// Release permutes the messages unless that was done before, and sends them.
func (m *Mixing) Release(ctx context.Context, r *channel.Release, manifest *wire.Manifest) ([]channel.Rejected, error) {
	if r.Announced == nil { // the plan's noise would be left out
		return nil, fmt.Errorf("the announcement of round %d of epoch %d is not known", r.Round, r.Epoch)
	}
	spool := m.spool(r)
	mixed, err := spool.exists()
	if err != nil {
		return nil, err
	}
	if !mixed { // so nothing has left: the spool is the only way out, and it was never whole
		if err := m.mix(ctx, r, spool); err != nil {
			return nil, err
		}
	}
	return nil, m.send(ctx, r, spool, manifest)
}

// Forget removes the spool.
func (m *Mixing) Forget(epoch uint64, round uint32) error {
	m.gathered = nil
	return m.Disk.Remove(spoolName(epoch, round))
}

// mix spools the messages of the release's members, and the noise that the shuffler adds, in a uniformly random order.
// Noise that was drawn before the spool was whole has been seen by no one, and another one takes its place.
func (m *Mixing) mix(ctx context.Context, r *channel.Release, spool spool) (err error) {
	g := m.gathered
	m.gathered = nil
	if !g.of(r) { // this process did not commit it
		if g, err = m.gather(ctx, r, nil); err != nil {
			return err
		}
		if slots := g.repeated(); len(slots) > 0 {
			return fmt.Errorf("%w: %d reports repeat a message, which was not so when they were committed",
				channel.ErrImpossible, len(slots))
		}
	}
	messages, err := shuffle.AppendNoise(ctx, g.messages, r.Announced, r.Announcement, m.Source)
	if err != nil {
		return err
	}
	return spool.write(messages, m.Source)
}

// send sends the spooled messages and completes the manifest with what was sent. For the messages' root it has 32 bytes
// of each message in memory until it returns.
func (m *Mixing) send(ctx context.Context, r *channel.Release, spool spool, manifest *wire.Manifest) error {
	var digests [][32]byte
	sent := make([][32]byte, 0, uint64(r.Messages())+shuffle.NoiseMessages(r.Announced))
	size := cmp.Or(m.Chunk, max(1, chunkMessages*seal.BitSize/spool.size))
	messages, err := spool.chunks(size, func(index uint32, part []byte) error {
		chunk, err := wire.BuildChunk(wire.Chunk{Epoch: r.Epoch, Round: r.Round, Index: index, Payload: part})
		if err != nil {
			return err
		}
		digests = append(digests, wire.ChunkDigest(chunk))
		sent = wire.AppendMessageDigests(sent, part, spool.size)
		err = m.Chunks.PublishChunk(ctx, r.Epoch, r.Round, index, chunk)
		if index == 0 && errors.Is(err, bus.ErrExists) {
			// One release has one membership and one order. Messages of this round left before, permuted otherwise or
			// with other members, so nothing of this one may follow.
			return fmt.Errorf("%w: other messages of this round left before: "+
				"the state folder is older than what this shuffler has sent; restored from a backup?",
				channel.ErrImpossible)
		}
		if err == nil && m.Retain != nil { // before the manifest, which names what is forwarded
			err = m.Retain.keep(ctx, r, index, chunk)
		}
		return err
	})
	if err != nil {
		return err
	}
	noise := shuffle.NoiseMessages(r.Announced)
	if want := uint64(r.Messages()) + noise; messages != want {
		return fmt.Errorf("spool: %d messages, want %d of %d reports and %d of noise",
			messages, want-noise, len(r.Members), noise)
	}
	all, root := wire.ChunksDigest(digests), transparency.SortedRoot(sent)
	manifest.NoiseMessages, manifest.MessagesRoot = noise, root[:]
	manifest.Messages, manifest.Chunks, manifest.ChunksDigest = messages, uint32(len(digests)), all[:]
	return nil
}

// gathered are the messages of a release's members, in memory between the question whether any is repeated and the
// spool.
type gathered struct {
	release  *channel.Release
	size     int    // of a message, in bytes
	messages []byte // one after another, member by member
}

// messageSize is the length in bytes of each message of a report.
func messageSize(l channel.Layout) int { return l.Size() / l.Messages }

// of tells whether these are the messages of that release.
func (g *gathered) of(r *channel.Release) bool {
	return g != nil && g.release.Epoch == r.Epoch && g.release.Round == r.Round &&
		slices.Equal(g.release.Members, r.Members)
}

// gather reads the messages of the release's members. Those in known, which may be nil, are not read again.
func (m *Mixing) gather(ctx context.Context, r *channel.Release, known *gathered) (*gathered, error) {
	each, noise := r.Layout.Size(), 0
	if r.Announced != nil {
		noise = int(shuffle.NoiseMessages(r.Announced)) * messageSize(r.Layout)
	}
	g := &gathered{release: r, size: messageSize(r.Layout), messages: make([]byte, 0, each*len(r.Members)+noise)}
	at := map[channel.Member]int{}
	if known != nil && known.release.Epoch == r.Epoch && known.release.Round == r.Round {
		for i, member := range known.release.Members {
			at[member] = i * each
		}
	}
	for _, member := range r.Members {
		if i, ok := at[member]; ok {
			g.messages = append(g.messages, known.messages[i:i+each]...)
			continue
		}
		report, err := m.Reports(ctx, r, member)
		if err != nil {
			return nil, err
		}
		if len(report.Payload) != each { // it was so when it was admitted
			return nil, fmt.Errorf("%w: a report of %d bytes, admitted were %d",
				channel.ErrImpossible, len(report.Payload), each)
		}
		g.messages = append(g.messages, report.Payload...)
	}
	return g, nil
}

// repeated returns the slots of the members of whose messages one stands in the release twice: within their report, or
// in another one.
//
// A copy of a bit message would shift a count without adding the noise that an honest message brings, so the analyzer
// refuses a release that has one; and a device that could make it refuse could destroy every cohort. So no such report
// may get that far, and only those that take part in the repetition are refused. They are all refused, the first as
// well as the rest: each message is made with a key pair of its own, drawn from the system's generator, and until the
// release is out only its device's host and this shuffler see it. So a host that holds the same message does not follow
// the protocol or conspires with one that does not, and no honest person's report can be among them.
//
// Messages are compared by their public keys: two that share one are never both honest, whether or not the rest is
// equal. So this finds all that the analyzer could object to. It works on the messages that are about to be mixed,
// which are in memory already, and takes four further bytes for each of them (a bit message has 52) while it runs.
func (g *gathered) repeated() (slots []uint32) {
	order := make([]uint32, len(g.messages)/g.size)
	for i := range order {
		order[i] = uint32(i)
	}
	key := func(i uint32) []byte { return g.messages[int(i)*g.size:][:seal.EncapsulatedSize] }
	slices.SortFunc(order, func(a, b uint32) int { return bytes.Compare(key(a), key(b)) })
	for i := 1; i < len(order); i++ {
		if a, b := order[i-1], order[i]; bytes.Equal(key(a), key(b)) {
			slots = append(slots, g.slot(a), g.slot(b))
		}
	}
	slices.Sort(slots)
	return slices.Compact(slots)
}

// slot is the slot whose report holds the message with this index.
func (g *gathered) slot(message uint32) uint32 {
	return g.release.Members[int(message)/g.release.Layout.Messages].Slot
}

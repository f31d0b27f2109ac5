package analyzer

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/riffle-dp/riffle/internal/bus"
	"github.com/riffle-dp/riffle/internal/role/outcome"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/protocol"
	"github.com/riffle-dp/riffle/pkg/seal"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// Why a bit message is not counted.
const (
	Undecryptable outcome.Reason = "undecryptable"    // does not open under the round's announcement
	OutOfPlan     outcome.Reason = "out_of_plan"      // names a release or coordinate that the round does not have
	Rejected      outcome.Reason = "rejected"         // belongs to a round that was rejected as a whole
	Repeated      outcome.Reason = "repeated_message" // belongs to a round in which a message stands twice: the shuffler forwards copies
	BadChunk      outcome.Reason = "bad_chunk"        // came in a chunk that cannot be read, or is another round's; its round will be rejected
	Destroyed     outcome.Reason = "destroyed"        // of a cohort that the shuffler destroyed, or that was rejected: it never counts
)

// Reasons lists why a bit message may not be counted.
func Reasons() []outcome.Reason {
	return []outcome.Reason{Undecryptable, OutOfPlan, Rejected, Repeated, BadChunk, Destroyed}
}

// counter turns a round's mixed messages into counts. Chunks are opened as they arrive; what arrived before a restart is read again.
type counter struct {
	c Config

	mu      sync.Mutex
	work    *roundWork // of the round under way
	arrived chan struct{}
}

// roundWork is the counting of one round.
type roundWork struct {
	at        place
	encodings []protocol.Encoding
	opener    *seal.BitOpener
	opening   sync.Mutex // a chunk is opened once, whoever brings it, and on all processors at once
	copies    *copies    // of the chunks that were opened; belongs to whoever holds opening
	chunks    map[uint32]*chunkCount
	busy      bool // a chunk is being opened
	manifest  []byte
}

// chunkCount is what one chunk holds.
type chunkCount struct {
	digest   [32]byte
	messages int
	tallies  [][]uint64 // ones by release and coordinate
	seen     [][]uint64 // messages by release and coordinate
	bad      map[outcome.Reason]int
}

func newCounter(c Config) *counter { return &counter{c: c, arrived: make(chan struct{}, 1)} }

// receive takes chunks and manifests from the stream. An acknowledged chunk stays in the stream until its round is counted.
func (n *counter) receive(ctx context.Context) error {
	return n.c.Bus.Mixed(ctx, func(m *bus.Mixed) {
		n.mu.Lock()
		work := n.work
		n.mu.Unlock()
		if work != nil && work.at == (place{m.Epoch, m.Round}) {
			if m.Manifest {
				n.mu.Lock()
				work.manifest = m.Payload
				n.mu.Unlock()
			} else if err := n.open(work, m.Payload); err != nil {
				n.c.Log.Error().Err(err).Str(outcome.Field, string(BadChunk)).Uint64("epoch", m.Epoch).Uint32("round", m.Round).Msg("chunk not counted")
			}
			select {
			case n.arrived <- struct{}{}:
			default:
			}
		}
		if err := m.Ack(); err != nil {
			n.c.Log.Debug().Err(err).Msg("acknowledgement lost")
		}
	})
}

// count waits for the round's manifest and returns its counts: destroyed where the shuffler says so, and where what came is not what
// the announcement and the manifest promise.
func (n *counter) count(ctx context.Context, a *plan.Announcement, digest [32]byte) (*wire.Counts, error) {
	encodings := a.Encodings
	expected := int(a.Cohort.Size) * perReport(encodings)
	work := &roundWork{at: place{a.Epoch, a.Round}, encodings: encodings, copies: newCopies(expected, filterBits), chunks: map[uint32]*chunkCount{}}
	for _, k := range n.c.Keys {
		if bytes.Equal(k.Public(), a.AnalyzerKey) {
			work.opener = seal.NewBitOpener(k, digest)
		}
	}
	if work.opener == nil {
		return nil, fmt.Errorf("analyzer: no private key for epoch %d", a.Epoch)
	}
	n.mu.Lock()
	n.work = work
	n.mu.Unlock()
	defer func() {
		n.mu.Lock()
		n.work = nil
		n.mu.Unlock()
	}()
	manifest, manifestDigest, err := n.manifest(ctx, work)
	if err != nil {
		return nil, err
	}
	counts := &wire.Counts{
		Deployment: n.c.Deployment, Epoch: a.Epoch, Round: a.Round, Announcement: digest[:], Manifest: manifestDigest[:], Reports: manifest.Reports,
	}
	if manifest.Outcome == wire.Destroyed {
		counts.Destroyed = true
		return counts, nil
	}
	if err := n.complete(ctx, work, manifest); err != nil {
		return nil, err
	}
	finding, err := n.copied(ctx, work, manifest)
	if err != nil {
		return nil, err
	}
	if err := n.tally(a, digest, work, manifest, counts, finding); err != nil {
		why := Rejected
		errors.As(err, &why)
		n.c.Log.Error().Err(err).Str(outcome.Field, string(why)).Uint64("epoch", a.Epoch).Uint32("round", a.Round).Msg("round rejected")
		counts.Destroyed, counts.Releases = true, nil
	}
	return counts, nil
}

// quietTime is how long no chunk may come before those that are missing are read from the stream.
const quietTime = 500 * time.Millisecond

// poll is how often the stream is asked for a manifest whose arrival may have been missed.
const poll = 2 * time.Second

// manifest waits for the shuffler's word about the round, and until it stands in the audit log: the analyzer acts on nothing that
// nobody could hold the shuffler to.
func (n *counter) manifest(ctx context.Context, work *roundWork) (*wire.Manifest, [32]byte, error) {
	from := wire.Party{Deployment: n.c.Deployment, Key: n.c.Shuffler}
	ticker := time.NewTicker(poll)
	defer ticker.Stop()
	for waiting := false; ; {
		n.mu.Lock()
		payload := work.manifest
		n.mu.Unlock()
		if payload == nil {
			var err error
			payload, err = n.c.Bus.ReadManifest(ctx, work.at.epoch, work.at.round)
			if err != nil && !errors.Is(err, bus.ErrGone) {
				return nil, [32]byte{}, err
			}
		}
		if payload != nil {
			m, digest, err := wire.Open[wire.Manifest](payload, from)
			if err == nil && (m.Epoch != work.at.epoch || m.Round != work.at.round) {
				err = fmt.Errorf("it is about round %d of epoch %d", m.Round, m.Epoch)
			}
			if err != nil { // stored once and for all: nothing better will come
				return nil, digest, fmt.Errorf("analyzer: manifest of round %d of epoch %d: %w", work.at.round, work.at.epoch, err)
			}
			logged, err := n.c.Bus.Audited(ctx, bus.Shuffler, "manifest", payload)
			if err != nil {
				return nil, digest, err
			}
			if logged {
				n.c.notice(manifestCondition, nil)
				return m, digest, nil
			}
			n.c.notice(manifestCondition, fmt.Errorf("the shuffler published the manifest of round %d of epoch %d and has not put it into the audit log: nothing is counted until it is there", work.at.round, work.at.epoch))
			if !waiting {
				waiting = true
				n.c.Log.Warn().Uint64("epoch", work.at.epoch).Uint32("round", work.at.round).Msg("the shuffler published the round's manifest and has not put it into the audit log: nothing is counted until it is there")
			}
		}
	wait:
		for {
			select {
			case <-ctx.Done():
				return nil, [32]byte{}, context.Cause(ctx)
			case <-ticker.C:
				break wait
			case <-n.arrived:
				n.mu.Lock()
				there := work.manifest != nil
				n.mu.Unlock()
				if there && payload == nil {
					break wait
				}
			}
		}
	}
}

// complete reads the chunks that did not come through the consumer: those from before a restart.
func (n *counter) complete(ctx context.Context, work *roundWork, m *wire.Manifest) error {
	for coming := true; coming; {
		n.mu.Lock()
		missing := work.lacks(m.Chunks)
		n.mu.Unlock()
		if !missing {
			return nil
		}
		quiet := time.NewTimer(quietTime)
		select {
		case <-ctx.Done():
			quiet.Stop()
			return context.Cause(ctx)
		case <-n.arrived: // what is on its way need not be read again
		case <-quiet.C:
			n.mu.Lock()
			coming = work.busy
			n.mu.Unlock()
		}
		quiet.Stop()
	}
	return n.c.Bus.ReadChunks(ctx, work.at.epoch, work.at.round, func(_ uint32, payload []byte) error {
		if err := n.open(work, payload); err != nil {
			n.c.Log.Error().Err(err).Str(outcome.Field, string(BadChunk)).Uint64("epoch", work.at.epoch).Uint32("round", work.at.round).Msg("chunk not counted")
		}
		return nil
	})
}

// lacks tells whether one of the first so many chunks was not counted yet. There may be others: a shuffler can send more than it names.
// The counter's lock is held.
func (w *roundWork) lacks(chunks uint32) bool {
	if len(w.chunks) < int(chunks) {
		return true
	}
	for i := range chunks {
		if w.chunks[i] == nil {
			return true
		}
	}
	return false
}

// open decrypts and counts one chunk, on all processors. A chunk that was counted is skipped.
func (n *counter) open(work *roundWork, payload []byte) error {
	chunk, err := wire.ParseChunk(payload)
	if err != nil {
		return err
	}
	if (place{chunk.Epoch, chunk.Round}) != work.at {
		return fmt.Errorf("analyzer: chunk of round %d of epoch %d in the stream of round %d of epoch %d", chunk.Round, chunk.Epoch, work.at.round, work.at.epoch)
	}
	work.opening.Lock()
	defer work.opening.Unlock()
	n.mu.Lock()
	_, known := work.chunks[chunk.Index]
	work.busy = !known
	n.mu.Unlock()
	if known {
		return nil
	}
	defer func() {
		n.mu.Lock()
		work.busy = false
		n.mu.Unlock()
	}()
	messages := len(chunk.Bits) / seal.BitSize
	parts := runtime.GOMAXPROCS(0)
	counts := make([]*chunkCount, parts)
	var g errgroup.Group
	for p := range parts {
		g.Go(func() error {
			counts[p] = work.count(chunk.Bits[p*messages/parts*seal.BitSize : (p+1)*messages/parts*seal.BitSize])
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}
	total := counts[0]
	for _, c := range counts[1:] {
		total.add(c)
	}
	work.copies.add(chunk.Bits)
	total.digest = wire.ChunkDigest(payload)
	n.mu.Lock()
	work.chunks[chunk.Index] = total
	n.mu.Unlock()
	return nil
}

func (w *roundWork) count(bits []byte) *chunkCount {
	c := &chunkCount{messages: len(bits) / seal.BitSize, bad: map[outcome.Reason]int{}}
	for _, e := range w.encodings {
		c.tallies = append(c.tallies, make([]uint64, len(e.Coordinates)))
		c.seen = append(c.seen, make([]uint64, len(e.Coordinates)))
	}
	for at := 0; at < len(bits); at += seal.BitSize {
		release, coordinate, one, err := w.opener.Open(bits[at : at+seal.BitSize])
		switch {
		case err != nil:
			c.bad[Undecryptable]++
		case int(release) >= len(c.tallies) || int(coordinate) >= len(c.tallies[release]):
			c.bad[OutOfPlan]++
		default:
			c.seen[release][coordinate]++
			if one {
				c.tallies[release][coordinate]++
			}
		}
	}
	return c
}

func (c *chunkCount) add(other *chunkCount) {
	c.messages += other.messages
	for i := range c.tallies {
		for j := range c.tallies[i] {
			c.tallies[i][j] += other.tallies[i][j]
			c.seen[i][j] += other.seen[i][j]
		}
	}
	for r, k := range other.bad {
		c.bad[r] += k
	}
}

// perReport is how many bit messages a report of the round holds.
func perReport(encodings []protocol.Encoding) int {
	n := 0
	for _, e := range encodings {
		n += e.Messages()
	}
	return n
}

// tally checks the round against announcement and manifest, and fills in the counts. finding, if not nil, is why the round is refused
// although its numbers are right. Dishonest devices can make messages that do not open or name the wrong coordinate; as many as the plan's
// dishonest reports can hold are borne (they count as zeros), more are not.
func (n *counter) tally(a *plan.Announcement, digest [32]byte, work *roundWork, m *wire.Manifest, counts *wire.Counts, finding error) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	total := &chunkCount{bad: map[outcome.Reason]int{}}
	for _, e := range work.encodings {
		total.tallies = append(total.tallies, make([]uint64, len(e.Coordinates)))
		total.seen = append(total.seen, make([]uint64, len(e.Coordinates)))
	}
	digests := make([][32]byte, 0, len(work.chunks))
	for i := range m.Chunks {
		c := work.chunks[i]
		if c == nil {
			return fmt.Errorf("chunk %d of %d is not in the stream", i, m.Chunks)
		}
		digests = append(digests, c.digest)
		total.add(c)
	}
	perReport := perReport(work.encodings)
	n.c.Messages.Received(total.messages)
	reject := func(format string, v ...any) error {
		n.c.Messages.Refused(Rejected, total.messages)
		return fmt.Errorf("%w: %s", Rejected, fmt.Sprintf(format, v...))
	}
	all := wire.ChunksDigest(digests)
	switch {
	case !bytes.Equal(m.Announcement, digest[:]):
		return reject("the shuffler admitted reports for another announcement, %x", m.Announcement[:8])
	case m.Reports < a.Cohort.Minimum:
		return reject("the shuffler released %d reports, below the minimum of %d", m.Reports, a.Cohort.Minimum)
	case m.Reports > a.Cohort.Size:
		return reject("the shuffler released %d reports from a cohort of %d", m.Reports, a.Cohort.Size)
	case !bytes.Equal(m.ChunksDigest, all[:]):
		return reject("the chunks are not those of the manifest")
	case m.Messages != uint64(total.messages) || m.Messages != uint64(m.Reports)*uint64(perReport):
		return reject("%d messages came, the manifest says %d, %d reports hold %d", total.messages, m.Messages, m.Reports, uint64(m.Reports)*uint64(perReport))
	}
	if finding != nil {
		n.c.Messages.Refused(finding, total.messages)
		return finding
	}
	odd := total.bad[Undecryptable] + total.bad[OutOfPlan]
	for i, e := range work.encodings {
		for j := range e.Coordinates {
			if want := uint64(m.Reports) * uint64(e.MessagesAt(j)); total.seen[i][j] > want {
				odd += int(total.seen[i][j] - want)
				total.tallies[i][j] = min(total.tallies[i][j], want)
			}
		}
	}
	if limit := int(a.Cohort.MaxDishonest) * perReport; odd > limit {
		return reject("%d messages do not open or exceed their coordinate's number, at most %d can be the dishonest devices'", odd, limit)
	}
	for r, k := range total.bad {
		n.c.Messages.Refused(r, k)
	}
	n.c.Messages.Released(total.messages - total.bad[Undecryptable] - total.bad[OutOfPlan])
	for _, ones := range total.tallies {
		counts.Releases = append(counts.Releases, wire.ReleaseCounts{Ones: ones})
	}
	return nil
}

package shuffle

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/riffle-dp/riffle/internal/channel"
	"github.com/riffle-dp/riffle/internal/worker"
	"github.com/riffle-dp/riffle/pkg/channel/shuffle"
	"github.com/riffle-dp/riffle/pkg/seal"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// Exchange has several processes of the shuffler mix a release together. It is the lead's side; Mixer does the tasks.
//
// A release goes in three steps. First its messages are gathered: each task reads a part of the reports, puts each
// message into a uniformly random bucket, and stores what it put into each bucket as a sealed segment at the broker.
// Then the lead makes the list of the segments durable (the barrier): from then on it is fixed for ever which messages
// are in a bucket. Then each bucket is put into a uniformly random order and sent, which together gives a uniformly
// random order of all (protocol.Buckets). Before the barrier nothing has left, so whatever was drawn may be drawn anew.
// After it every repetition of a task goes on from what has left (Mixer.mix says why the order stays uniform).
//
// How many messages a bucket has in all shows in the chunks, as the last one of each bucket is shorter. These numbers
// are drawn independently of every message and every person.
type Exchange struct {
	Pool     worker.Pool
	Segments interface {
		// PurgeSegments drops all segments, of every round. One release is under way at a time, so what is there
		// when another one begins was left behind: by a release that was destroyed, by an earlier process, or by a
		// worker that was late.
		PurgeSegments(ctx context.Context) error
	}
	// Chunks reads again what was sent, to compute the messages' root.
	Chunks interface {
		ReadChunks(ctx context.Context, epoch uint64, round uint32, handler func(index uint32,
			payload []byte) error) error
	}

	Keys [][]byte // the shuffler's private HPKE keys, newest first

	Buckets uint32 // 0: by the size of the release
	Members int    // of a part; 0: by the size of the release

	parts *parts   // of the release under way, before its barrier
	clean [32]byte // wire.ReportsDigest of the members that are known to repeat nothing
	mixed *mixed   // of the release under way, behind its barrier
}

// barrier is what the lead keeps of a release from before its first message leaves until its manifest is out. It says
// which task put how many messages into which bucket. The segments can be opened with the secret in it, and so one
// could tell which messages came of which part of the reports: it is sealed, with a key that opens the reports as well,
// so that the file says nothing to who has no such key. Once all has left, only what the manifest says is kept of it,
// and the segments go.
type barrier struct {
	Announcement []byte `json:"announcement"`
	Members      []byte `json:"members"`          // wire.ReportsDigest
	Sealed       []byte `json:"sealed,omitempty"` // the release's secret
	Buckets      uint32 `json:"buckets,omitempty"`
	Chunk        int    `json:"chunk,omitempty"`
	Names        []byte `json:"names,omitempty"`  // of the executions
	Counts       []byte `json:"counts,omitempty"` // of each execution, 4 bytes for each bucket
	// Of what left, once all of it has: in place of the others from then on.
	Sent *sent `json:"sent,omitempty"`

	secret secret
	counts []uint32 // Counts as numbers
}

// sent is what the manifest says of what left.
type sent struct {
	Messages uint64 `json:"messages"`
	Noise    uint64 `json:"noise"`
	Chunks   uint32 `json:"chunks"`
	Digest   []byte `json:"digest"`
	Root     []byte `json:"root"`
}

func barrierName(epoch uint64, round uint32) string {
	return fmt.Sprintf("exchange-%d-%d", epoch, round)
}

// mixed are the buckets of a release that were mixed.
type mixed struct {
	release *channel.Release
	barrier *barrier

	mu     sync.Mutex
	chunks map[uint32][][32]byte // digests by bucket
}

// errWorkers says that a release was begun by several processes.
var errWorkers = errors.New("shuffle: this release was begun with workers, and part of it may have left: start this " +
	"shuffler with its setting workers as it was until the release's manifest is out")

// readBarrier reads what is durable of a release behind its barrier; nil if it is not there yet.
func (m *Mixing) readBarrier(r *channel.Release) (*barrier, error) {
	file, err := channel.ReadFile(m.Disk, barrierName(r.Epoch, r.Round))
	if file == nil || err != nil {
		return nil, err
	}
	b := new(barrier)
	if err := json.Unmarshal(file, b); err != nil {
		return nil, fmt.Errorf("shuffle: %s: %w", barrierName(r.Epoch, r.Round), err)
	}
	if members := membersDigest(r); !bytes.Equal(b.Members, members[:]) ||
		!bytes.Equal(b.Announcement, r.Announcement[:]) {
		return nil, fmt.Errorf("%w: other members of this round may have left before: "+
			"the state folder is older than what this shuffler has sent; restored from a backup?",
			channel.ErrImpossible)
	}
	if b.Sent == nil {
		executions := len(b.Names) / len(execution{})
		if b.Buckets < 1 || b.Buckets > maxBuckets || b.Chunk < 1 || executions < 1 ||
			len(b.Names)%len(execution{}) != 0 ||
			len(b.Counts) != 4*executions*int(b.Buckets) {
			return nil, fmt.Errorf("shuffle: %s is damaged: restore the state folder", barrierName(r.Epoch, r.Round))
		}
		if b.counts, err = countsOf(b.Counts); err != nil {
			return nil, err
		}
	}
	return b, nil
}

func membersDigest(r *channel.Release) [32]byte {
	digests := make([][32]byte, len(r.Members))
	for i, m := range r.Members {
		digests[i] = m.Digest
	}
	return wire.ReportsDigest(digests)
}

// gather has all messages of the release gathered that are not yet.
func (x *Exchange) gather(ctx context.Context, m *Mixing, r *channel.Release) error {
	messages := uint64(r.Messages())
	if r.Announced != nil {
		messages += shuffle.NoiseMessages(r.Announced)
	}
	buckets := cmp.Or(x.Buckets, bucketsFor(messages, messageSize(r.Layout), x.Pool.Workers()))
	if !x.parts.of(r) || buckets > 2*x.parts.buckets {
		// Nobody can open anything any more of what is there.
		if err := x.Segments.PurgeSegments(ctx); err != nil {
			return err
		}
		x.parts.close()
		bare := *r
		bare.Members = nil
		x.parts = &parts{
			release: &bare, secret: draw(make([]byte, secretSize), m.Source), buckets: buckets, members: x.Members,
		}
	}
	return x.parts.gather(ctx, x.Pool, m.Store, r)
}

// findRepeated is Mixing.Repeated.
func (x *Exchange) findRepeated(ctx context.Context, m *Mixing, r *channel.Release) ([]uint32, error) {
	if err := x.gather(ctx, m, r); err != nil {
		return nil, err
	}
	slots, err := x.parts.findRepeated(ctx, m.Store, r, m.Reports)
	if err == nil && len(slots) == 0 {
		x.clean = membersDigest(r)
	}
	return slots, err
}

// release is Mixing.Release.
func (x *Exchange) release(ctx context.Context, m *Mixing, r *channel.Release, manifest *wire.Manifest) error {
	b, err := m.readBarrier(r)
	if err != nil {
		return err
	}
	if b != nil && b.Sent == nil {
		if b.secret, err = unwrap(b.Sealed, b.Members, x.Keys); err != nil {
			return err
		}
	}
	if b == nil {
		if b, err = x.fix(ctx, m, r); err != nil {
			return err
		}
	}
	if b.Sent == nil {
		if x.mixed == nil || x.mixed.release.Epoch != r.Epoch || x.mixed.release.Round != r.Round {
			x.mixed = &mixed{release: r, barrier: b, chunks: map[uint32][][32]byte{}}
		}
		digests, err := x.mixed.all(ctx, x.Pool, m.Retain)
		if err != nil {
			return err
		}
		sent, err := x.readSent(ctx, m, r, digests)
		if err != nil {
			x.mixed = nil // what is missing is sent again
			return err
		}
		b = &barrier{Announcement: b.Announcement, Members: b.Members, Sent: sent}
		if err := channel.StoreFile(m.Disk, barrierName(r.Epoch, r.Round), encodeTask(b)); err != nil {
			return err
		}
		x.mixed = nil
	}
	manifest.NoiseMessages, manifest.MessagesRoot = b.Sent.Noise, b.Sent.Root
	manifest.Messages, manifest.Chunks, manifest.ChunksDigest = b.Sent.Messages, b.Sent.Chunks, b.Sent.Digest
	return x.Segments.PurgeSegments(ctx)
}

// fix gathers a committed release and makes durable what is in its buckets.
func (x *Exchange) fix(ctx context.Context, m *Mixing, r *channel.Release) (*barrier, error) {
	members := membersDigest(r)
	if err := x.gather(ctx, m, r); err != nil {
		return nil, err
	}
	if x.clean != members { // this process did not commit it
		slots, err := x.parts.findRepeated(ctx, m.Store, r, m.Reports)
		if err != nil {
			return nil, err
		}
		if len(slots) > 0 {
			return nil, fmt.Errorf("%w: %d reports repeat a message, which was not so when they were committed",
				channel.ErrImpossible, len(slots))
		}
	}
	// One release has one membership and one draw. What is there was not sent by this one.
	err := x.Chunks.ReadChunks(ctx, r.Epoch, r.Round, func(uint32, []byte) error {
		return fmt.Errorf("%w: other messages of this round left before: the state folder is older than what this "+
			"shuffler has sent; restored from a backup?", channel.ErrLeft)
	})
	if err != nil {
		return nil, err
	}
	b := &barrier{
		Announcement: r.Announcement[:], Members: members[:], Buckets: x.parts.buckets,
		Chunk: m.chunkOf(messageSize(r.Layout)), secret: x.parts.secret,
	}
	if b.Sealed, err = b.secret.wrap(b.Members, x.Keys, m.Source); err != nil {
		return nil, err
	}
	for _, one := range x.parts.all {
		b.Names = append(b.Names, one.name[:]...)
		b.counts = append(b.counts, one.counts...)
	}
	b.Counts = appendCounts(nil, b.counts)
	if err := channel.StoreFile(m.Disk, barrierName(r.Epoch, r.Round), encodeTask(b)); err != nil {
		return nil, err
	}
	x.parts.close()
	x.parts = nil
	return b, nil
}

// tasks are the tasks that mix the buckets.
func (d *mixed) tasks(retain *Retention) (tasks []mixTask) {
	b := d.barrier
	executions := len(b.Names) / len(execution{})
	first := uint32(0)
	for bucket := range b.Buckets {
		t := mixTask{mixingTask: taskOf(d.release, b.secret), Bucket: bucket, First: first, Chunk: b.Chunk,
			Names: b.Names}
		total := uint64(0)
		for i := range executions {
			n := b.counts[i*int(b.Buckets)+int(bucket)]
			t.Counts = appendCounts(t.Counts, []uint32{n})
			total += uint64(n)
		}
		if retain != nil {
			t.Auditor, t.Retained = retain.Auditor, retain.Window
		}
		first += uint32((total + uint64(b.Chunk) - 1) / uint64(b.Chunk))
		tasks = append(tasks, t)
	}
	return tasks
}

// all has every bucket mixed that is not yet, and returns the digests of all chunks, by index.
func (d *mixed) all(ctx context.Context, pool worker.Pool, retain *Retention) (digests [][32]byte, err error) {
	tasks := d.tasks(retain)
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(2 * tasksEach * pool.Workers())
	for i, t := range tasks {
		d.mu.Lock()
		_, known := d.chunks[t.Bucket]
		d.mu.Unlock()
		if known {
			continue
		}
		chunks := 0
		if i+1 < len(tasks) {
			chunks = int(tasks[i+1].First - t.First)
		} else {
			counts, err := countsOf(t.Counts)
			if err != nil {
				return nil, err
			}
			total := 0
			for _, n := range counts {
				total += int(n)
			}
			chunks = (total + t.Chunk - 1) / t.Chunk
		}
		g.Go(func() error {
			result, err := pool.Do(ctx, worker.Task{Kind: MixTask, Body: encodeTask(t)})
			if err != nil {
				return err
			}
			if result, err = decodeResult(result, 32*chunks); err != nil {
				return err
			}
			mine := make([][32]byte, chunks)
			for i := range mine {
				copy(mine[i][:], result[32*i:])
			}
			d.mu.Lock()
			defer d.mu.Unlock()
			d.chunks[t.Bucket] = mine
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	for bucket := range d.barrier.Buckets {
		digests = append(digests, d.chunks[bucket]...)
	}
	return digests, nil
}

// readSent reads the chunks again, which must be those that the workers sent, for what the manifest says of them.
func (x *Exchange) readSent(
	ctx context.Context, m *Mixing, r *channel.Release, digests [][32]byte,
) (*sent, error) {
	noise, size := shuffle.NoiseMessages(r.Announced), messageSize(r.Layout)
	want := uint64(r.Messages()) + noise
	messages := m.Store.Sorter(sha256.Size)
	defer messages.Close()
	var batch []byte // digests of a chunk's messages
	read := make([]bool, len(digests))
	err := x.Chunks.ReadChunks(ctx, r.Epoch, r.Round, func(index uint32, payload []byte) error {
		chunk, err := wire.ParseChunk(payload)
		if err != nil || int(index) >= len(digests) || read[index] || wire.ChunkDigest(payload) != digests[index] {
			return fmt.Errorf("shuffle: chunk %d at the broker is not the one that was sent", index)
		}
		read[index] = true
		batch = wire.AppendMessageDigests(batch[:0], chunk.Payload, size)
		return messages.Append(batch)
	})
	if err != nil {
		return nil, err
	}
	if uint64(messages.Size()) != want {
		return nil, fmt.Errorf("shuffle: %d messages are at the broker, want %d of %d reports and %d of noise",
			messages.Size(), want-noise, len(r.Members), noise)
	}
	root, err := sortedRoot(messages)
	if err != nil {
		return nil, err
	}
	all := wire.ChunksDigest(digests)
	return &sent{want, noise, uint32(len(digests)), all[:], root[:]}, nil
}

// forget gives back what the release takes here. Its segments go before the next release is gathered, if they are
// still there, also by another process.
func (x *Exchange) forget() {
	x.parts.close()
	x.parts, x.mixed, x.clean = nil, nil, [32]byte{}
}

// chunkOf is how many messages of this size a chunk has.
func (m *Mixing) chunkOf(size int) int {
	return cmp.Or(m.Chunk, max(1, chunkMessages*seal.BitSize/size))
}

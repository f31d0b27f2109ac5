package shuffle

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/riffle-dp/riffle/internal/bus"
	"github.com/riffle-dp/riffle/internal/channel"
	"github.com/riffle-dp/riffle/pkg/protocol"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// mix forwards the messages of one bucket in a uniformly random order, and returns the digest of each chunk.
//
// The bucket's messages were fixed before its first chunk left, but its order is stored nowhere before. The order
// becomes durable chunk by chunk, as each is stored at the broker, once for ever under its index. Whoever finds that a
// chunk is there already (another worker died, or does the same task) goes on from that one: it checks that the chunk's
// messages are among those that are left of the bucket, takes them out, and draws the order of the rest anew.
//
// The order is uniform. Let S be what is left of the bucket after the chunks 0 to i-1 that are stored. A worker that
// publishes chunk i has drawn a uniform order of S after it learned of those chunks: either it drew an order of S anew,
// or it published chunk i-1 itself, and the rest of a uniform order, given its beginning, is uniform. So every chunk i
// that anybody offers is a uniform ordered sample of S, and offers of different workers are independent. Which of them
// is stored depends on times, which depend on nothing that is in it, as all offers have one length. By induction over
// the chunks, the bucket's order is uniform.
//
// Whoever picks the offer that is stored (a broker could) does not learn more: all offers together are a function of
// the set of the bucket's messages and of random words, as the messages are sorted before they are permuted. Exchange
// two people's reports, and the same words offer the same chunks. For the same reason a chunk that was dropped at the
// broker can be offered again.
func (x *Mixer) mix(ctx context.Context, t *mixTask) ([]byte, error) {
	r, src := t.release(), x.Source()
	b, err := x.bucket(ctx, r, t)
	if err != nil {
		return nil, err
	}
	b.permute(src)
	var digests []byte
	adopted := false // the last chunk was there already, so the next one may
	for index := t.First; len(b.left) > 0; index++ {
		var chunk []byte
		err := error(bus.ErrGone)
		if adopted { // to look costs less than to send in vain
			chunk, err = x.Chunks.ReadChunk(ctx, r.Epoch, r.Round, index)
		}
		if adopted = err == nil; errors.Is(err, bus.ErrGone) {
			chunk, adopted, err = x.offer(ctx, r, index, b.first(t.Chunk))
		}
		if err != nil {
			return nil, err
		}
		if adopted {
			if err := b.remove(chunk, r, index, t.Chunk); err != nil {
				return nil, err
			}
			b.permute(src)
		} else {
			b.left = b.left[min(t.Chunk, len(b.left)):]
		}
		if t.Retained > 0 { // before the manifest, which names what is forwarded
			keep := &Retention{Deployment: x.Deployment, Auditor: t.Auditor, Window: t.Retained, Store: x.Retained}
			if err := keep.keep(ctx, r, index, chunk); err != nil {
				return nil, err
			}
		}
		digest := wire.ChunkDigest(chunk)
		digests = append(digests, digest[:]...)
	}
	return digests, nil
}

// offer publishes a chunk with these messages. Where one is stored under the index already, it returns that one.
func (x *Mixer) offer(
	ctx context.Context, r *channel.Release, index uint32, messages []byte,
) (chunk []byte, adopted bool, err error) {
	chunk, err = wire.BuildChunk(wire.Chunk{Epoch: r.Epoch, Round: r.Round, Index: index, Payload: messages})
	if err != nil {
		return nil, false, err
	}
	var exists *bus.ExistsError
	if err = x.Chunks.PublishChunk(ctx, r.Epoch, r.Round, index, chunk); errors.As(err, &exists) {
		return exists.Stored, true, nil
	}
	return chunk, false, err
}

// bucketed are the messages of one bucket.
type bucketed struct {
	size     int
	messages []byte   // sorted
	left     []uint32 // which of them have not left, in the order in which they will
	buffer   []byte
}

// bucket reads the segments of a bucket, also those that hold nothing: the broker sees which are read, and would learn
// where the messages of the others are. What is missing cannot come back.
func (x *Mixer) bucket(ctx context.Context, r *channel.Release, t *mixTask) (*bucketed, error) {
	counts, err := t.check()
	if err != nil {
		return nil, err
	}
	b := &bucketed{size: messageSize(t.Layout)}
	begin := make([]int, len(counts))
	total := 0
	for i, n := range counts {
		begin[i] = total
		total += int(n) * b.size
	}
	b.messages = make([]byte, total)
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(atOnce)
	for i, count := range counts {
		n := execution(t.Names[i*len(execution{}):])
		g.Go(func() error {
			sealed, err := x.Segments.ReadSegment(ctx, t.Epoch, t.Round, n.String(), t.Bucket)
			if errors.Is(err, bus.ErrGone) {
				return fmt.Errorf("%w: the broker no longer has a segment of bucket %d: its data was lost, set back, "+
					"or purged by another client", channel.ErrImpossible, t.Bucket)
			}
			if err != nil {
				return err
			}
			sealer, err := t.Secret.sealer(x.Deployment, r, n)
			if err != nil {
				return err
			}
			plain, err := sealer.open(sealed, t.Bucket)
			if err != nil {
				return fmt.Errorf("%w: %w", channel.ErrImpossible, err)
			}
			if len(plain) < int(count)*b.size {
				return errResult
			}
			copy(b.messages[begin[i]:], plain[:int(count)*b.size])
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	b.sort()
	return b, nil
}

// at is one of the sorted messages.
func (b *bucketed) at(i uint32) []byte { return b.messages[int(i)*b.size:][:b.size] }

// sort puts the messages into ascending order, so that whatever follows is a function of their set.
func (b *bucketed) sort() {
	type entry struct {
		key uint64 // the message's first bytes
		at  uint32
	}
	order := make([]entry, len(b.messages)/b.size)
	for i := range order {
		order[i] = entry{binary.BigEndian.Uint64(b.at(uint32(i))), uint32(i)}
	}
	slices.SortFunc(order, func(x, y entry) int {
		if c := cmp.Compare(x.key, y.key); c != 0 {
			return c
		}
		return bytes.Compare(b.at(x.at), b.at(y.at))
	})
	sorted := make([]byte, 0, len(b.messages))
	b.left = make([]uint32, len(order))
	for i, o := range order {
		sorted = append(sorted, b.at(o.at)...)
		b.left[i] = uint32(i)
	}
	b.messages = sorted
}

// permute puts what is left into a uniformly random order.
func (b *bucketed) permute(src protocol.Source) {
	slices.Sort(b.left)
	protocol.Permute(b.left, src)
}

// first are the next messages to leave. They are valid until the next call.
func (b *bucketed) first(most int) []byte {
	b.buffer = b.buffer[:0]
	for _, i := range b.left[:min(most, len(b.left))] {
		b.buffer = append(b.buffer, b.at(i)...)
	}
	return b.buffer
}

// remove takes the messages of a chunk that is at the broker out of what is left. Every one must be there, and they
// must be as many as the chunk should have. Otherwise the chunk is not of this release, or of another draw of it.
func (b *bucketed) remove(stored []byte, r *channel.Release, index uint32, most int) error {
	no := fmt.Errorf("%w: chunk %d that is at the broker is not one of this release: the state folder is older "+
		"than what this shuffler has sent; restored from a backup?", channel.ErrImpossible, index)
	chunk, err := wire.ParseChunk(stored)
	want := min(most, len(b.left)) * b.size
	if err != nil || chunk.Epoch != r.Epoch || chunk.Round != r.Round || chunk.Index != index ||
		len(chunk.Payload) != want {
		return no
	}
	total := len(b.messages) / b.size
	there := make([]bool, total)
	for _, i := range b.left {
		there[i] = true
	}
	for m := chunk.Payload; len(m) > 0; m = m[b.size:] {
		i := uint32(b.search(m[:b.size]))
		for int(i) < total && !there[i] && bytes.Equal(b.at(i), m[:b.size]) {
			i++ // an equal one left before
		}
		if int(i) == total || !there[i] || !bytes.Equal(b.at(i), m[:b.size]) {
			return no
		}
		there[i] = false
	}
	b.left = slices.DeleteFunc(b.left, func(i uint32) bool { return !there[i] })
	return nil
}

// search is the place of the first message that is not smaller.
func (b *bucketed) search(m []byte) int {
	low, high := 0, len(b.messages)/b.size
	for low < high {
		if middle := (low + high) / 2; bytes.Compare(b.at(uint32(middle)), m) < 0 {
			low = middle + 1
		} else {
			high = middle
		}
	}
	return low
}

package shuffle

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/riffle-dp/riffle/internal/worker"
	"github.com/riffle-dp/riffle/pkg/seal"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// reader is a broker that notes which segments were read.
type reader struct {
	*exchange
	reads map[string]int
}

func (b *reader) ReadSegment(ctx context.Context, e uint64, r uint32, name string, bucket uint32) ([]byte, error) {
	b.exchange.mu.Lock()
	b.reads[fmt.Sprintf("%s.%d", name, bucket)]++
	b.exchange.mu.Unlock()
	return b.exchange.ReadSegment(ctx, e, r, name, bucket)
}

// A broker that works together with the analyzer learns nothing of a scatter from what is read again: it knows which
// reports an execution has, and the analyzer knows which chunks a bucket has. A task that passed over the segments that
// hold nothing would tell in which bucket the messages of a small part are: of a part of one message, exactly where.
func TestReadsTellNothingOfTheScatter(t *testing.T) {
	t.Parallel()
	x := newExchange(t, 9, 1, 1)
	x.begin(4, 4) // parts of four reports, of four, and of the last one
	b := &reader{exchange: x, reads: map[string]int{}}
	mixer := x.mixer()
	mixer.Segments = b
	x.Exchange.Pool = worker.Inside(1, mixer.Handlers())
	_, err := x.Repeated(t.Context(), x.release)
	x.must(err)
	stored := map[string]bool{}
	for name := range x.segments {
		stored[name] = true
	}
	m, err := x.leave()
	x.must(err)
	x.whole(m)
	if len(stored) != 3*4 {
		t.Fatalf("%d segments", len(stored))
	}
	for name := range stored {
		if b.reads[name] != 1 {
			t.Errorf("of bucket %s the segment of execution %s was read %d times", name[33:], name[:4], b.reads[name])
		}
	}
}

// Every offer of a bucket, also one that is not stored, is a function of the set of its messages and of the source's
// words: the same messages in other people's hands, gathered by other tasks, are offered in the same order. So a broker
// that picks which offer is stored picks nothing about people.
func TestOffersFollowFromTheSetAlone(t *testing.T) {
	t.Parallel()
	offered := func(who []int) (all []byte) {
		x := newExchange(t, len(who), 1, 1)
		for slot, message := range who {
			x.payload[uint32(slot)] = numberedMessage(message)
		}
		x.seed.Store(100)
		x.begin(1, 5)
		x.fails = func(_ int, what string) error {
			if what == "barrier" && len(x.chunks) == 0 {
				x.chunks[0] = x.chunk(0, 4, 3, 2, 1, 0) // so the first offer is lost
			}
			return nil
		}
		m, err := x.leave()
		x.must(err)
		x.whole(m)
		all = append(all, x.lost...)
		for index := range uint32(len(x.chunks)) {
			all = append(all, x.chunks[index]...)
		}
		return all
	}
	first := offered(rand.New(rand.NewPCG(1, 1)).Perm(20))
	for seed := range uint64(3) {
		if !bytes.Equal(offered(rand.New(rand.NewPCG(seed, 2)).Perm(20)), first) {
			t.Fatal("who sent what moves what is offered")
		}
	}
}

// How long a segment is follows from how many messages its part has and from the number of buckets, never from where
// the messages go: executions of parts of one size have segments of one length.
func TestTheLengthOfASegmentTellsNothing(t *testing.T) {
	t.Parallel()
	x := newExchange(t, 40, 3, 1) // 13 parts of three reports, and one of one
	_, err := x.Repeated(t.Context(), x.release)
	x.must(err)
	lengths := map[int]int{}
	for _, b := range x.segments {
		lengths[len(b)]++
	}
	full, last := capacity(9, 4)*seal.BitSize+sealOverhead, capacity(3, 4)*seal.BitSize+sealOverhead
	if len(x.segments) != 14*4 || lengths[full] != 13*4 || lengths[last] != 4 {
		t.Errorf("lengths %v, want %d and %d", lengths, full, last)
	}
}

// crooked is a broker that shows the lead other chunks than workers sent.
type crooked struct {
	*exchange
	shows func(index uint32, payload []byte) (indices []uint32, shown []byte)
}

func (b crooked) ReadChunks(ctx context.Context, e uint64, r uint32, f func(uint32, []byte) error) error {
	return b.exchange.ReadChunks(ctx, e, r, func(index uint32, payload []byte) error {
		indices, payload := b.shows(index, payload)
		for _, i := range indices {
			if err := f(i, payload); err != nil {
				return err
			}
		}
		return nil
	})
}

// The lead signs nothing of chunks that are not those that its workers sent, each once and all of them.
func TestTheLeadSaysNothingOfOtherChunks(t *testing.T) {
	t.Parallel()
	for what, shows := range map[string]func(uint32, []byte) ([]uint32, []byte){
		"an altered one": func(index uint32, payload []byte) ([]uint32, []byte) {
			chunk, err := wire.ParseChunk(payload)
			if err == nil && index == 0 {
				chunk.Payload = bytes.Clone(chunk.Payload) // it shares the stored chunk's memory
				chunk.Payload[7] ^= 1
				payload, err = wire.BuildChunk(*chunk)
			}
			if err != nil {
				t.Error(err)
			}
			return []uint32{index}, payload
		},
		"one too few": func(index uint32, payload []byte) ([]uint32, []byte) {
			return []uint32{index}[:min(index, 1)], payload
		},
		"one twice and another not": func(index uint32, payload []byte) ([]uint32, []byte) {
			return []uint32{index, index}[:2*(1-min(index, 1))], payload
		},
	} {
		x := newExchange(t, 10, 1, 1)
		x.begin(1, 10) // two chunks of five
		x.Exchange.Chunks = crooked{x, shows}
		m, err := x.leave()
		if err == nil || m.MessagesRoot != nil {
			t.Errorf("%s: %v", what, err)
		}
		x.Exchange.Chunks = x
		_, err = x.Release(t.Context(), x.release, m)
		x.must(err)
		x.whole(m)
	}
}

// miscounting is a pool in which every part that is gathered has a message more than it should.
type miscounting struct{ worker.Pool }

func (p miscounting) Do(ctx context.Context, task worker.Task) ([]byte, error) {
	result, err := p.Pool.Do(ctx, task)
	if err == nil && task.Kind == GatherTask {
		result[1+len(execution{})+3]++ // in the first bucket
	}
	return result, err
}

// A worker that says of more messages than its part has is not believed: they would leave as messages of nobody.
func TestAMiscountedPartIsRefused(t *testing.T) {
	t.Parallel()
	x := newExchange(t, 10, 1, 1)
	x.Exchange.Pool = miscounting{x.Exchange.Pool}
	if _, err := x.leave(); !errors.Is(err, errResult) || len(x.chunks) > 0 {
		t.Errorf("%d chunks left, %v", len(x.chunks), err)
	}
}

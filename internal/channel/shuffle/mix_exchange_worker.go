package shuffle

import (
	"context"
	"encoding/json"
	"fmt"

	"golang.org/x/sync/errgroup"

	"github.com/riffle-dp/riffle/internal/channel"
	"github.com/riffle-dp/riffle/internal/worker"
	"github.com/riffle-dp/riffle/pkg/protocol"
	"github.com/riffle-dp/riffle/pkg/seal"
)

// Mixer does the tasks of mixing, in a process of the shuffler's trust domain: it gathers reports, whose messages it
// scatters to buckets, and mixes buckets. It keeps nothing between two tasks.
type Mixer struct {
	Deployment string
	// Reports reads the reports of members again, opens them and calls take with the payload of each, by its place in
	// members; the payload is take's. It calls take from any number of goroutines, once for each member.
	//
	// Errors: channel.ErrImpossible where a report is gone or another one is in its place; those of the broker.
	Reports func(
		ctx context.Context, r *channel.Release, members []channel.Member, take func(i int, payload []byte),
	) error
	Segments SegmentStore
	Chunks   ChunkStore
	Retained RetainedStore          // nil where nothing may be retained
	Source   func() protocol.Source // a CSPRNG for each task
}

// SegmentStore keeps segments, which one task seals and another one opens. *bus.SegmentStream is one.
type SegmentStore interface {
	// PublishSegment returns once the broker has stored the segment.
	PublishSegment(ctx context.Context, epoch uint64, round uint32, name string, bucket uint32, payload []byte) error
	// ReadSegment reads it again; its error is bus.ErrGone where there is none.
	ReadSegment(ctx context.Context, epoch uint64, round uint32, name string, bucket uint32) ([]byte, error)
}

// ChunkStore keeps the chunks that are sent to the analyzer, each once. *bus.MixedStream is one.
type ChunkStore interface {
	Publisher
	// ReadChunk reads a chunk again; its error is bus.ErrGone where there is none.
	ReadChunk(ctx context.Context, epoch uint64, round, index uint32) ([]byte, error)
}

// atOnce is how many segments a task sends or fetches at the same time.
const atOnce = 4

// Handlers are the tasks that the mixer does.
func (x *Mixer) Handlers() worker.Handlers {
	return worker.Handlers{
		GatherTask: func(ctx context.Context, body []byte) ([]byte, error) {
			var t gatherTask
			if err := json.Unmarshal(body, &t); err != nil {
				return nil, fmt.Errorf("shuffle: a task %s: %w", GatherTask, err)
			}
			return encodeResult(x.gather(ctx, &t))
		},
		MixTask: func(ctx context.Context, body []byte) ([]byte, error) {
			var t mixTask
			if err := json.Unmarshal(body, &t); err != nil {
				return nil, fmt.Errorf("shuffle: a task %s: %w", MixTask, err)
			}
			return encodeResult(x.mix(ctx, &t))
		},
	}
}

// gather scatters the messages of a part of the release to the buckets, each message to a uniformly random one, and
// stores one sealed segment for each bucket. All segments of an execution have the same length, so that the broker does
// not learn how many of the part's messages are in which bucket. Together with the analyzer, who knows which chunks
// came of which bucket, it would otherwise learn something of where the part's people are.
//
// The length is that of the mean and eight standard deviations more. Where one bucket gets more than that, all segments
// of this execution are longer: the scatter is never drawn again, because then not every order would be possible any
// more. The probability of it is below 1e-13 for each bucket (Chernoff's bound), and it depends on the draw alone.
//
// The result is the execution's name, the number of messages in each bucket, and of members the digests of their
// messages, member by member.
func (x *Mixer) gather(ctx context.Context, t *gatherTask) ([]byte, error) {
	members, err := t.check()
	if err != nil {
		return nil, err
	}
	r, src, size := t.release(), x.Source(), messageSize(t.Layout)
	messages, err := x.messages(ctx, r, t, members, src)
	if err != nil {
		return nil, err
	}
	var n execution
	draw(n[:], src)
	sealer, err := t.Secret.sealer(x.Deployment, r, n)
	if err != nil {
		return nil, err
	}
	order, counts := scatter(len(messages)/size, int(t.Buckets), src)
	room := capacity(len(order), int(t.Buckets))
	for _, count := range counts {
		for int(count) > room {
			room = min(2*room, len(order))
		}
	}
	g, sending := errgroup.WithContext(ctx)
	g.SetLimit(atOnce)
	for bucket, count := range counts {
		mine := order[:count]
		order = order[count:]
		g.Go(func() error {
			segment := make([]byte, 0, room*size+sealOverhead)
			for _, i := range mine {
				segment = append(segment, messages[int(i)*size:][:size]...)
			}
			sealed := sealer.seal(segment[:room*size], uint32(bucket))
			return x.Segments.PublishSegment(sending, t.Epoch, t.Round, n.String(), uint32(bucket), sealed)
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	result := appendCounts(n[:], counts)
	if t.Noise != nil {
		return result, nil
	}
	digester, err := t.Secret.digester()
	if err != nil {
		return nil, err
	}
	return digester.digests(result, messages, size), nil
}

// scatter draws a bucket for each of n messages. order are the messages' numbers, bucket by bucket, and counts is how
// many each bucket has.
func scatter(n, buckets int, src protocol.Source) (order, counts []uint32) {
	to := make([]uint32, n)
	protocol.Buckets(to, buckets, src)
	counts = make([]uint32, buckets)
	for _, b := range to {
		counts[b]++
	}
	next := make([]uint32, buckets) // where the bucket's next message goes
	for b := 1; b < buckets; b++ {
		next[b] = next[b-1] + counts[b-1]
	}
	order = make([]uint32, n)
	for i, b := range to {
		order[next[b]] = uint32(i)
		next[b]++
	}
	return order, counts
}

// sealOverhead is how many bytes longer than its messages a sealed segment is.
const sealOverhead = 16

// messages are those of a part, one after another.
func (x *Mixer) messages(
	ctx context.Context, r *channel.Release, t *gatherTask, members []channel.Member, src protocol.Source,
) ([]byte, error) {
	if t.Noise != nil {
		return t.Noise.Append(ctx, make([]byte, 0, (t.Noise.To-t.Noise.From)*seal.BitSize), src)
	}
	each := r.Layout.Size()
	messages := make([]byte, each*len(members))
	odd := make([]bool, len(members)) // of another length than admitted ones
	err := x.Reports(ctx, r, members, func(i int, payload []byte) {
		odd[i] = copy(messages[i*each:][:each], payload) != len(payload) || len(payload) != each
	})
	if err != nil {
		return nil, err
	}
	for i, is := range odd {
		if is {
			return nil, fmt.Errorf("%w: slot %d: its report has another length than it had when it was admitted",
				channel.ErrImpossible, members[i].Slot)
		}
	}
	return messages, nil
}

package chunks

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/riffle-dp/riffle/internal/channel"
	"github.com/riffle-dp/riffle/internal/worker"
	"github.com/riffle-dp/riffle/pkg/seal"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// task asks a worker to open one chunk. The chunk does not travel in it: the worker reads it by its name.
type task struct {
	channel.Outline
	Index uint32 `json:"index"`
}

// Handler opens chunks of rounds whose analyzer's key is among keys: size is the length of the messages of a round, and
// open returns what is in a run of them. The result is the chunk's digest and what was found.
func Handler(from Reader, keys []*seal.HPKEKey, size func(*channel.Round) int,
	open func(of *channel.Round, messages []byte) ([]byte, error),
) worker.Handler {
	return func(ctx context.Context, body []byte) ([]byte, error) {
		var t task
		if err := json.Unmarshal(body, &t); err != nil {
			return nil, fmt.Errorf("chunks: %w", cmp.Or(err, channel.ErrOutline))
		}
		of, err := t.Open(keys)
		if err != nil {
			return nil, err
		}
		payload, err := from.ReadChunk(ctx, t.Epoch, t.Round, t.Index)
		if err != nil {
			return nil, err
		}
		c, err := wire.ParseChunk(payload)
		if err != nil {
			return nil, err
		}
		if c.Epoch != t.Epoch || c.Round != t.Round || c.Index != t.Index {
			return nil, fmt.Errorf("chunks: under the name of chunk %d is chunk %d", t.Index, c.Index)
		}
		if each := size(of); len(c.Payload)%each != 0 {
			return nil, fmt.Errorf("chunks: a chunk of %d bytes, which are not whole messages of %d", len(c.Payload),
				each)
		}
		found, err := open(of, c.Payload)
		if err != nil {
			return nil, err
		}
		digest := wire.ChunkDigest(payload)
		return append(digest[:], found...), nil
	}
}

// perWorker is how many chunks each process that opens chunks has to do, so that none waits for the next one.
const perWorker = 4

// DefaultHeld is how many bytes of chunks are with the pool at a time: they are kept until they are opened.
const DefaultHeld = 64 << 20

// place waits until one more chunk of this many bytes may be handed out. It is false where the round ended first.
func (r *Round[T]) place(size int) bool {
	for {
		r.mu.Lock()
		// One is this chunk, which is not handed out yet.
		free := r.busy == 1 || r.busy <= perWorker*r.pool.Workers() && r.held+size <= r.most
		if free {
			r.held += size
		}
		r.mu.Unlock()
		if free {
			return true
		}
		select {
		case <-r.ctx.Done():
			return false
		case <-r.back:
		}
	}
}

// hand has a chunk opened by the pool.
func (r *Round[T]) hand(chunk *Chunk[T], messages []byte) {
	body, err := json.Marshal(task{channel.NewOutline(r.Announcement, r.Digest), chunk.index})
	if err != nil {
		r.fail(err)
		return
	}
	if !r.place(len(messages)) {
		return
	}
	r.out.Go(func() {
		defer func() {
			r.mu.Lock()
			r.held -= len(messages)
			r.mu.Unlock()
			select {
			case r.back <- struct{}{}:
			default:
			}
		}()
		found, err := r.ask(body, chunk)
		if r.ctx.Err() != nil {
			return
		}
		if err != nil {
			r.log.Warn().Err(err).Uint64("epoch", r.Epoch).Uint32("round", r.Announcement.Round).
				Uint32("chunk", chunk.index).Msg("a worker did not count a chunk; it is counted here")
			found = r.how.Open(messages)
		}
		r.note(chunk, found)
	})
}

// Why what a worker answered is not used.
var (
	ErrOtherChunk = errors.New("chunks: the worker read another chunk than the one that came")
	ErrAnswer     = errors.New("chunks: the worker's answer is malformed: run lead and workers of one version")
)

// ask returns what a worker found in a chunk. Errors: those of worker.Pool, ErrOtherChunk, ErrAnswer.
func (r *Round[T]) ask(body []byte, chunk *Chunk[T]) (found T, err error) {
	result, err := r.pool.Do(r.ctx, worker.Task{Kind: r.how.Kind, Body: body})
	if err != nil {
		return found, err
	}
	if len(result) < len(chunk.Digest) {
		return found, fmt.Errorf("%w: %d bytes", ErrAnswer, len(result))
	}
	if [32]byte(result) != chunk.Digest {
		return found, ErrOtherChunk
	}
	if found, err = r.how.Parse(result[len(chunk.Digest):], chunk.Messages); err != nil {
		return found, fmt.Errorf("%w: %w", ErrAnswer, err)
	}
	return found, nil
}

package bus

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"
)

// chunksAhead is how many chunks are asked for ahead. Opening one takes a second of a processor: those that wait for many
// others would be delivered again while they wait.
const chunksAhead = 4

// Mixed is one chunk of a round's permuted bit messages, or its manifest.
type Mixed struct {
	Delivery
	Manifest bool
	Index    uint32 // of the chunk
}

// PublishChunk forwards one chunk and returns once the broker stored it. A round's chunk is stored once, for ever:
// after a crash the same chunk may be published again at any time.
//
// Errors: ErrExists (an ExistsError with what is stored) where another chunk has this index, and it stays;
// ErrForbidden, ErrTooLarge, ErrFull: not stored; ErrUnknown: maybe stored, repeat with the same bytes. After
// PurgeMixed a repetition would be stored again.
func (c *Conn) PublishChunk(ctx context.Context, epoch uint64, round, index uint32, payload []byte) error {
	return c.create(ctx, StreamMixed, subjectChunk(epoch, round, index), payload)
}

// PublishManifest forwards a round's manifest. Stored once, like a chunk, with the same errors.
func (c *Conn) PublishManifest(ctx context.Context, epoch uint64, round uint32, payload []byte) error {
	return c.create(ctx, StreamMixed, subjectRound(SubjectManifest, epoch, round), payload)
}

// Mixed hands arriving chunks and manifests to the handler, one after another on the caller's goroutine, until the
// context ends, in the order in which the shuffler published them, apart from redeliveries. A message that is not
// acknowledged is delivered again.
//
// It always returns an error: the context's cause, ErrForbidden or ErrClosed.
func (c *Conn) Mixed(ctx context.Context, handler func(*Mixed)) error {
	return c.consume(ctx, StreamMixed, ConsumerMixed, chunksAhead, func(m jetstream.Msg) {
		mixed, ok := c.mixed(m)
		if ok {
			handler(mixed)
		}
	})
}

func (c *Conn) mixed(m jetstream.Msg) (*Mixed, bool) {
	if len(m.Subject()) > len(SubjectManifest) && m.Subject()[:len(SubjectManifest)+1] == SubjectManifest+"." {
		d, _, ok := c.delivery(m, SubjectManifest, false)
		if !ok {
			return nil, false
		}
		return &Mixed{Delivery: *d, Manifest: true}, true
	}
	d, index, ok := c.delivery(m, SubjectMixed, true)
	if !ok {
		return nil, false
	}
	return &Mixed{Delivery: *d, Index: index}, true
}

// ReadChunks reads the stored chunks of a round in the order in which they were published, each index once,
// acknowledged or not. Nothing that was stored before the call is missed. It may be repeated until PurgeMixed.
//
// Errors: the handler's own; ErrForbidden; ErrUnknown where the context ended first. Reading changes nothing.
func (c *Conn) ReadChunks(ctx context.Context, epoch uint64, round uint32,
	handler func(index uint32, payload []byte) error) error {
	_, err := c.scan(ctx, StreamMixed, subjectRound(SubjectMixed, epoch, round)+".*", 1, func(r record) error {
		_, _, index, err := parseRound(r.Subject, SubjectMixed, true)
		if err != nil {
			c.log.Warn().Str("subject", r.Subject).Msg("chunk under a malformed name skipped")
			return nil
		}
		return handler(index, r.Data)
	})
	return err
}

// ReadChunk reads one stored chunk, from any replica that has it. ErrGone where there is none.
func (c *Conn) ReadChunk(ctx context.Context, epoch uint64, round, index uint32) ([]byte, error) {
	r, err := c.lastAnywhere(ctx, StreamMixed, subjectChunk(epoch, round, index))
	if err != nil {
		return nil, fmt.Errorf("chunk %d of epoch %d, round %d: %w", index, epoch, round, err)
	}
	return r.Data, nil
}

// ReadManifest reads a round's manifest. ErrGone where there is none.
func (c *Conn) ReadManifest(ctx context.Context, epoch uint64, round uint32) ([]byte, error) {
	r, err := c.last(ctx, StreamMixed, subjectRound(SubjectManifest, epoch, round))
	if err != nil {
		return nil, fmt.Errorf("manifest of epoch %d, round %d: %w", epoch, round, err)
	}
	return r.Data, nil
}

// PurgeMixed drops a round's chunks once they are counted. Its manifest stays.
//
// Errors: ErrForbidden: still there; ErrUnknown: maybe there, repeat.
func (c *Conn) PurgeMixed(ctx context.Context, epoch uint64, round uint32) error {
	return c.purge(ctx, StreamMixed, subjectRound(SubjectMixed, epoch, round)+".*")
}

func (c *Conn) purge(ctx context.Context, stream, filter string) error {
	return c.call(ctx, "STREAM.PURGE."+stream, struct {
		Filter string `json:"filter"`
	}{filter})
}

// call makes a JetStream API call whose answer is only success or failure.
func (c *Conn) call(ctx context.Context, name string, request any) error {
	subject := APILocal + "." + name
	body, err := json.Marshal(request)
	if err != nil {
		return fmt.Errorf("bus: %w", err)
	}
	err = c.do(ctx, subject, func(ctx context.Context) error {
		reply, err := c.nc.RequestWithContext(ctx, subject, body)
		if err != nil {
			return err
		}
		var answer struct {
			Error *jetstream.APIError `json:"error"`
		}
		if err := json.Unmarshal(reply.Data, &answer); err != nil {
			return fmt.Errorf("%w: %w", errOddAnswer, err)
		}
		if answer.Error == nil {
			return nil
		}
		return answer.Error
	})
	if err != nil {
		return fmt.Errorf("bus: %s: %w", name, err)
	}
	return nil
}

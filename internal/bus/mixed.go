package bus

import (
	"context"
	"fmt"
	"strings"
)

// chunksAhead is how many chunks are asked for ahead. Opening one takes a second of a processor: those that wait for
// many others would be delivered again while they wait.
const chunksAhead = 4

// MixedStream is the handle of what the shuffler releases: the chunks of a round, in an order that says nothing of who
// sent them, and the round's manifest. The shuffler writes, each chunk and manifest once; the analyzer reads, and
// purges a round's chunks when they are counted. Manifests stay.
type MixedStream struct{ stream }

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
func (s *MixedStream) PublishChunk(ctx context.Context, epoch uint64, round, index uint32, payload []byte) error {
	return s.create(ctx, subjectChunk(epoch, round, index), payload)
}

// PublishManifest forwards a round's manifest. Stored once, like a chunk, with the same errors.
func (s *MixedStream) PublishManifest(ctx context.Context, epoch uint64, round uint32, payload []byte) error {
	return s.create(ctx, subjectRound(SubjectManifest, epoch, round), payload)
}

// ReceiveMixed hands arriving chunks and manifests to the handler, one after another on the caller's goroutine, until
// the context ends, in the order in which the shuffler published them, apart from redeliveries. A message that is not
// acknowledged is delivered again.
//
// It always returns an error: the context's cause, ErrForbidden or ErrClosed.
func (s *MixedStream) ReceiveMixed(ctx context.Context, handler func(*Mixed)) error {
	return s.t.Consume(ctx, s.name, ConsumerMixed, chunksAhead, func(a Arrival) bool {
		m, err := newMixed(a)
		if err != nil { // not stored by this package
			s.t.Log().Warn().Str("subject", a.Subject).Msg("message under a malformed name skipped")
			return false
		}
		handler(m)
		return true
	})
}

// newMixed reads what a delivery is by its name.
func newMixed(a Arrival) (*Mixed, error) {
	if strings.HasPrefix(a.Subject, SubjectManifest+".") {
		epoch, round, _, err := parseRound(a.Subject, SubjectManifest, false)
		return &Mixed{Delivery: *delivery(a, epoch, round), Manifest: true}, err
	}
	epoch, round, index, err := parseRound(a.Subject, SubjectMixed, true)
	return &Mixed{Delivery: *delivery(a, epoch, round), Index: index}, err
}

// ReadChunks reads the stored chunks of a round in the order in which they were published, each index once,
// acknowledged or not. Nothing that was stored before the call is missed. It may be repeated until PurgeMixed.
//
// Errors: the handler's own; ErrForbidden; ErrUnknown where the context ended first. Reading changes nothing.
func (s *MixedStream) ReadChunks(ctx context.Context, epoch uint64, round uint32,
	handler func(index uint32, payload []byte) error) error {
	_, err := s.scan(ctx, subjectRound(SubjectMixed, epoch, round)+".*", 1, func(r Record) error {
		_, _, index, err := parseRound(r.Subject, SubjectMixed, true)
		if err != nil {
			s.t.Log().Warn().Str("subject", r.Subject).Msg("chunk under a malformed name skipped")
			return nil
		}
		return handler(index, r.Data)
	})
	return err
}

// ReadChunk reads one stored chunk, from any replica that has it. ErrGone where there is none.
func (s *MixedStream) ReadChunk(ctx context.Context, epoch uint64, round, index uint32) ([]byte, error) {
	r, err := s.anywhere(ctx, Query{Last: subjectChunk(epoch, round, index)})
	if err != nil {
		return nil, fmt.Errorf("chunk %d of epoch %d, round %d: %w", index, epoch, round, err)
	}
	return r.Data, nil
}

// ReadManifest reads a round's manifest. ErrGone where there is none.
func (s *MixedStream) ReadManifest(ctx context.Context, epoch uint64, round uint32) ([]byte, error) {
	r, err := s.last(ctx, subjectRound(SubjectManifest, epoch, round))
	if err != nil {
		return nil, fmt.Errorf("manifest of epoch %d, round %d: %w", epoch, round, err)
	}
	return r.Data, nil
}

// PurgeMixed drops a round's chunks once they are counted. Its manifest stays.
//
// Errors: ErrForbidden: still there; ErrUnknown: maybe there, repeat.
func (s *MixedStream) PurgeMixed(ctx context.Context, epoch uint64, round uint32) error {
	return s.t.Purge(ctx, s.name, subjectRound(SubjectMixed, epoch, round)+".*", 0)
}

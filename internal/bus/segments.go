package bus

import (
	"context"
	"fmt"
)

// SegmentStream is the handle of what the mixing processes of one shuffler hand each other, sealed. Only the shuffler's
// processes write and read it. A segment is stored once and kept until the lead purges all of them.
type SegmentStream struct{ stream }

// PublishSegment stores what one mixing process hands to whichever process mixes a bucket, sealed, and returns once the
// broker has it. The name (letters, digits, - and _, at most 64 bytes) is the task's that made it. A segment is stored
// once, like a chunk, with the errors of PublishChunk and ErrBadName.
func (s *SegmentStream) PublishSegment(ctx context.Context, epoch uint64, round uint32, name string, bucket uint32,
	payload []byte) error {
	if err := checkToken("name of a segment", name, maxSegmentName); err != nil {
		return err
	}
	return s.create(ctx, subjectSegment(epoch, round, name, bucket), payload)
}

// ReadSegment reads a segment, from any replica that has it.
//
// Errors: ErrGone where there is none; ErrForbidden; ErrUnknown where the context ended first.
func (s *SegmentStream) ReadSegment(ctx context.Context, epoch uint64, round uint32, name string,
	bucket uint32) ([]byte,
	error) {
	r, err := s.anywhere(ctx, Query{Last: subjectSegment(epoch, round, name, bucket)})
	if err != nil {
		return nil, fmt.Errorf("segment %s, bucket %d of epoch %d, round %d: %w", name, bucket, epoch, round, err)
	}
	return r.Data, nil
}

// PurgeSegments drops all segments, whatever made them, of every round.
//
// Errors: ErrForbidden: still there; ErrUnknown: maybe there, repeat.
func (s *SegmentStream) PurgeSegments(ctx context.Context) error {
	return s.t.Purge(ctx, s.name, SubjectMixing+".>", 0)
}

const maxSegmentName = 64

func subjectSegment(epoch uint64, round uint32, name string, bucket uint32) string {
	return fmt.Sprintf("%s.%s.%d", subjectRound(SubjectMixing, epoch, round), name, bucket)
}

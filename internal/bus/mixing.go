package bus

import (
	"context"
	"errors"
	"fmt"
)

// PublishSegment stores what one mixing process hands to whichever process mixes a bucket, sealed, and returns once the
// broker has it. The name (letters, digits, - and _, at most 64 bytes) is the task's that made it. A segment is stored
// once, like a chunk, with the errors of PublishChunk and ErrBadName.
func (c *Conn) PublishSegment(ctx context.Context, epoch uint64, round uint32, name string, bucket uint32,
	payload []byte) error {
	if err := checkToken("name of a segment", name, maxSegmentName); err != nil {
		return err
	}
	return c.create(ctx, StreamMixing, subjectSegment(epoch, round, name, bucket), payload)
}

// ReadSegment reads a segment, from any replica that has it.
//
// Errors: ErrGone where there is none; ErrForbidden; ErrUnknown where the context ended first.
func (c *Conn) ReadSegment(ctx context.Context, epoch uint64, round uint32, name string, bucket uint32) ([]byte,
	error) {
	r, err := c.lastAnywhere(ctx, StreamMixing, subjectSegment(epoch, round, name, bucket))
	if err != nil {
		return nil, fmt.Errorf("segment %s, bucket %d of epoch %d, round %d: %w", name, bucket, epoch, round, err)
	}
	return r.Data, nil
}

// PurgeSegments drops all segments, whatever made them, of every round.
//
// Errors: ErrForbidden: still there; ErrUnknown: maybe there, repeat.
func (c *Conn) PurgeSegments(ctx context.Context) error {
	return c.purge(ctx, StreamMixing, SubjectMixing+".>")
}

const maxSegmentName = 64

func subjectSegment(epoch uint64, round uint32, name string, bucket uint32) string {
	return fmt.Sprintf("%s.%s.%d", subjectRound(SubjectMixing, epoch, round), name, bucket)
}

// lastAnywhere reads the only message of a subject from any replica, and from the leader where that one has none.
func (c *Conn) lastAnywhere(ctx context.Context, stream, subject string) (record, error) {
	got, err := c.direct(ctx, stream, query{Last: subject})
	if errors.Is(err, ErrGone) || errors.Is(err, errNoReplica) {
		return c.last(ctx, stream, subject)
	}
	return got, err
}

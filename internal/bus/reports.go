package bus

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go"
)

// reportsAhead is how many reports are asked for ahead.
const reportsAhead = 1024

// ReportStream is the handle of the sealed reports. Randomizers write them, each host so many as it may have waiting; the
// shuffler reads them, and purges them when they are released or refused. A report that was acknowledged to its
// randomizer survives the broker's restart.
type ReportStream struct{ stream }

// PublishReport hands in a sealed report under the name of this connection's user and returns once the broker stored
// it: on disk, and synced where the server syncs always. A repetition with the same message id (letters, digits, -
// and _, at most 128 bytes), round and payload within the dedup window is stored once. The broker sees a digest of
// all three: an id alone could be used up by another host, whose junk would then stand for this report.
//
// Errors: ErrBadName, ErrForbidden, ErrTooLarge: not stored; ErrFull: not stored, because this host has as many
// reports waiting as one host may, or because all hosts together have: repeat once there is room; ErrUnknown: maybe
// stored, repeat with the same id and payload.
func (s *ReportStream) PublishReport(ctx context.Context, epoch uint64, round uint32, msgID string, payload []byte) error {
	if err := checkToken("message id", msgID, maxMsgID); err != nil {
		return err
	}
	place := roundName(epoch, round)
	digest := sha256.New()
	digest.Write([]byte(msgID))
	digest.Write([]byte{0})
	digest.Write([]byte(place))
	digest.Write([]byte{0})
	digest.Write(payload)
	id := base64.RawURLEncoding.EncodeToString(digest.Sum(nil)[:18])
	_, err := s.t.Publish(ctx, subjectReport(s.t.User()), nats.Header{headerMsgID: {id}, headerRound: {place}}, payload)
	if errors.Is(err, ErrTaken) { // here a subject holds many, and no more fit
		return fmt.Errorf("%w: this host has as many reports waiting as one host may (%v)", ErrFull, err)
	}
	return err
}

// Reports hands arriving reports to the handler, one after another on the caller's goroutine, until the context ends.
// The handler, or the code that it passes the Delivery to, calls Ack once the admission (or refusal) is durable.
// Several shuffler workers share the reports. A report that names no round (PublishReport makes none) arrives as one
// of epoch 0, which no announcement has.
//
// It always returns an error: the context's cause, ErrForbidden or ErrClosed. What was not acknowledged is delivered
// again.
func (s *ReportStream) Reports(ctx context.Context, handler func(*Delivery)) error {
	return s.t.Consume(ctx, s.name, ConsumerReports, reportsAhead, func(a Arrival) bool {
		epoch, round, _, err := parseRoundName(a.Header.Get(headerRound), false)
		if err != nil {
			epoch, round = 0, 0
		}
		handler(delivery(a, epoch, round))
		return true
	})
}

// GetReport reads a report again by its sequence.
//
// Errors: ErrGone: deleted, purged or never stored; ErrForbidden; ErrUnknown where the context ended first. Reading
// changes nothing.
func (s *ReportStream) GetReport(ctx context.Context, sequence uint64) ([]byte, error) {
	if sequence == 0 {
		return nil, fmt.Errorf("report 0: %w", ErrGone)
	}
	r, err := s.anywhere(ctx, Query{Sequence: sequence})
	if err != nil {
		return nil, fmt.Errorf("report %d: %w", sequence, err)
	}
	return r.Data, nil
}

// PurgeReports removes every report up to a sequence, acknowledged or not; 0 removes none. Deliveries that are under
// way may still arrive afterwards; GetReport will not find them.
//
// Errors: ErrForbidden: still there; ErrUnknown: maybe there, repeat.
func (s *ReportStream) PurgeReports(ctx context.Context, upTo uint64) error {
	if upTo == 0 {
		return nil // to the broker, a purge without a limit is one of everything
	}
	return s.t.Purge(ctx, s.name, "", upTo+1)
}

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

// ReportStream is the handle of the sealed reports. Randomizers write them, each host so many as it may have waiting;
// the shuffler reads them, and purges them when they are released or refused. A report that was acknowledged to its
// randomizer survives the broker's restart.
type ReportStream struct{ stream }

// PublishReport hands in a sealed report under the name of this connection's user and returns once the broker stored
// it: on disk, and synced where the server syncs always. A repetition with the same message id (letters, digits, -
// and _, at most 128 bytes), round and payload within the dedup window is stored once. The broker sees a digest of
// all three: an id alone could be used up by another host, whose junk would then be taken for this report.
//
// Errors: ErrBadName, ErrForbidden, ErrTooLarge: not stored; ErrFull: not stored, because this host has as many
// reports waiting as one host may, or because all hosts together have: repeat once there is room; ErrUnknown: maybe
// stored, repeat with the same id and payload.
func (s *ReportStream) PublishReport(ctx context.Context, epoch uint64, round uint32, msgID string,
	payload []byte) error {
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

// ReceiveReports hands arriving reports to the handler, one after another on the caller's goroutine, until the context
// ends. The handler, or the code that it passes the Delivery to, calls Ack once the admission (or refusal) is durable.
// Several shuffler workers share the reports. A report that names no round (PublishReport makes none) arrives as one of
// epoch 0, which no announcement has.
//
// It always returns an error: the context's cause, ErrForbidden or ErrClosed. What was not acknowledged is delivered
// again.
func (s *ReportStream) ReceiveReports(ctx context.Context, handler func(*Delivery)) error {
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

// Backlog is what the broker holds for the shuffler's consumer of reports.
type Backlog struct {
	Waiting int    // reports that no shuffler has acknowledged: not delivered yet, or delivered to one that may be gone
	Floor   uint64 // every report of the stream up to this sequence is acknowledged, or gone
	Sent    uint64 // the largest sequence that was delivered, acknowledged or not
}

// Backlog tells what waits for the shuffler.
//
// Errors: ErrForbidden, ErrUnprovisioned; ErrUnknown where the context ended first. Asking changes nothing.
func (s *ReportStream) Backlog(ctx context.Context) (Backlog, error) {
	b, err := s.t.Waiting(ctx, s.name, ConsumerReports)
	if err != nil {
		return Backlog{}, fmt.Errorf("bus: backlog of reports: %w", err)
	}
	return b, nil
}

// LastReport is the sequence of the newest stored report of any round; 0 if none is stored.
//
// Errors: ErrForbidden; ErrUnknown where the context ended first. Reading changes nothing.
func (s *ReportStream) LastReport(ctx context.Context) (uint64, error) {
	r, err := s.last(ctx, SubjectReport+".*")
	if errors.Is(err, ErrGone) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("last report: %w", err)
	}
	return r.Sequence, nil
}

// StoredReports hands the stored reports of a round, acknowledged or not, from a sequence on to the handler, in
// order. Nothing that was stored before the call is missed.
//
// Errors: the handler's own; ErrForbidden; ErrUnknown where the context ended first. Reading changes nothing.
func (s *ReportStream) StoredReports(ctx context.Context, epoch uint64, round uint32, from uint64,
	handler func(sequence uint64, payload []byte) error) error {
	of := roundName(epoch, round)
	_, err := s.scan(ctx, SubjectReport+".*", from, func(r Record) error {
		if r.Header.Get(headerRound) != of {
			return nil
		}
		return handler(r.Sequence, r.Data)
	})
	return err
}

// ReportRoom is how many reports the broker keeps, as riffle broker provision said.
type ReportRoom struct {
	PerHost int64 // reports of one host that may wait; below 1: no limit
	Size    int64 // bytes of one report
	Bytes   int64 // of all reports that wait; below 1: no limit
}

// ReportRoom asks the broker for the limits of the stream of reports. It answers for the shuffler.
//
// Errors: ErrUnprovisioned where there is no such stream; ErrForbidden for another role; ErrUnknown where the context
// ended first.
func (s *ReportStream) ReportRoom(ctx context.Context) (ReportRoom, error) {
	is, err := s.t.Stream(ctx, s.name, true)
	if err != nil {
		return ReportRoom{}, fmt.Errorf("bus: limits of %s: %w", StreamReports, err)
	}
	return ReportRoom{PerHost: is.MaxMsgsPerSubject, Size: int64(is.MaxMsgSize) - ReportHeaders, Bytes: is.MaxBytes},
		nil
}

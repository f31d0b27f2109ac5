package bus

import (
	"context"
	"errors"
	"fmt"
)

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

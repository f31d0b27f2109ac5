package bus

import (
	"context"
	"errors"
	"fmt"
)

// ReportRoom is how many reports the broker keeps, as riffle broker provision said.
type ReportRoom struct {
	PerHost int64 // reports of one host that may wait; below 1: no limit
	Size    int64 // bytes of one report
	Bytes   int64 // of all reports that wait; below 1: no limit
}

// ReportRoom asks the broker for the limits of the stream of reports. It answers for the shuffler.
//
// Errors: ErrUnprovisioned where there is no such stream; ErrForbidden where the broker's configuration gives the
// shuffler no right to ask; ErrUnknown where the context ended first. Each says what to do.
func (s *ReportStream) ReportRoom(ctx context.Context) (ReportRoom, error) {
	is, err := s.t.Stream(ctx, s.name, true)
	if errors.Is(err, ErrForbidden) {
		err = fmt.Errorf("the broker's configuration is of an earlier version: write it again (riffle broker config), and "+
			"have the broker read it: %w", err)
	}
	if err != nil {
		return ReportRoom{}, fmt.Errorf("bus: limits of %s: %w", StreamReports, err)
	}
	return ReportRoom{PerHost: is.MaxMsgsPerSubject, Size: int64(is.MaxMsgSize) - ReportHeaders, Bytes: is.MaxBytes}, nil
}

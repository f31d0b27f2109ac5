package bus

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"
)

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
func (c *Conn) ReportRoom(ctx context.Context) (room ReportRoom, err error) {
	subject := streamInfo(StreamReports)
	err = c.do(ctx, subject, func(ctx context.Context) error {
		var is struct {
			MaxMsgsPerSubject int64 `json:"max_msgs_per_subject"`
			MaxMsgSize        int64 `json:"max_msg_size"`
			MaxBytes          int64 `json:"max_bytes"`
		}
		if err := c.streamConfig(ctx, subject, &is); err != nil {
			return err
		}
		room = ReportRoom{PerHost: is.MaxMsgsPerSubject, Size: is.MaxMsgSize - ReportHeaders, Bytes: is.MaxBytes}
		return nil
	})
	if err != nil {
		return ReportRoom{}, fmt.Errorf("bus: limits of %s: %w", StreamReports, err)
	}
	return room, nil
}

// streamInfo is the subject under which the shuffler asks for a stream's description.
func streamInfo(stream string) string { return APILocal + ".STREAM.INFO." + stream }

// streamConfig asks once for a stream's configuration, of which into takes what it names. The broker's refusal is a
// *jetstream.APIError.
func (c *Conn) streamConfig(ctx context.Context, subject string, into any) error {
	reply, err := c.nc.RequestWithContext(ctx, subject, nil)
	if err != nil {
		return err
	}
	answer := struct {
		Error  *jetstream.APIError `json:"error"`
		Config any                 `json:"config"`
	}{Config: into}
	if err := json.Unmarshal(reply.Data, &answer); err != nil {
		return fmt.Errorf("%w: %w", errOddAnswer, err)
	}
	if answer.Error != nil {
		return answer.Error
	}
	return nil
}

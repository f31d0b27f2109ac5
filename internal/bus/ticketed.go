package bus

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"sync"

	"github.com/nats-io/nats.go"
)

// MaxBatch is how many reports PublishTicketed stores with one sync.
const MaxBatch = 256

// Ticketed is a sealed report that was handed in with a ticket.
type Ticketed struct {
	Epoch   uint64
	Round   uint32
	Ticket  []byte // of which the broker stores one report in each round
	Payload []byte
}

// once is the message id of a ticket's reports of a round. Whoever does not know the ticket cannot use it up.
func (r Ticketed) once() string {
	digest := sha256.New()
	digest.Write([]byte("ticket"))
	digest.Write([]byte{0})
	digest.Write([]byte(roundName(r.Epoch, r.Round)))
	digest.Write([]byte{0})
	digest.Write(r.Ticket)
	return base64.RawURLEncoding.EncodeToString(digest.Sum(nil)[:18])
}

// PublishTicketed hands in sealed reports, at most MaxBatch of different tickets, under the name of this connection's
// user, and returns once the broker stored them as PublishReport does, together where it can. There is an error for
// each report, nil where the broker has one of its ticket and round: this one, or one that it got within the dedup
// window.
//
// Errors: ErrForbidden, ErrTooLarge, ErrFull, ErrRefused: not stored; ErrUnknown: maybe stored, repeat with the same
// ticket.
func (s *ReportStream) PublishTicketed(ctx context.Context, reports []Ticketed) []error {
	errs := make([]error, len(reports))
	messages := make([]Stored, len(reports))
	for i, r := range reports {
		header := nats.Header{headerMsgID: {r.once()}, headerRound: {roundName(r.Epoch, r.Round)}}
		messages[i] = Stored{header, r.Payload}
	}
	err := ErrApart
	if len(reports) > 1 {
		err = s.t.PublishTogether(ctx, subjectReport(s.t.User()), messages)
	}
	// Where there is no room for all there may be for some, and where the broker has one it may lack the others.
	if !errors.Is(err, ErrApart) && !errors.Is(err, ErrTaken) && !errors.Is(err, ErrFull) {
		for i := range errs {
			errs[i] = err
		}
		return errs
	}
	var wg sync.WaitGroup
	for i, m := range messages {
		wg.Go(func() {
			_, err := s.t.Publish(ctx, subjectReport(s.t.User()), m.Header, m.Payload)
			if errors.Is(err, ErrTaken) {
				err = fmt.Errorf("%w: this user has as many reports waiting as one may (%v)", ErrFull, err)
			}
			errs[i] = err
		})
	}
	wg.Wait()
	return errs
}

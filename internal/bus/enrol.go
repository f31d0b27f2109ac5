package bus

import (
	"context"
	"time"
)

// enrolBacklog is how many enrolment requests wait for a worker before the broker's own buffers fill. Clients repeat
// the requests that are lost.
const enrolBacklog = 4096

// enrolTime is how long an asker waits before it repeats its request. A shuffler under load commits many enrolments
// with one sync.
const enrolTime = 2 * time.Second

// Enrolment is the handle of enrolment. Randomizers ask, and a shuffler answers. The broker keeps neither.
type Enrolment struct{ t Transport }

// Enrol asks the shuffler to enrol a device and returns its reply. The same bytes are sent again until a reply comes
// or the context ends, so the shuffler must answer a repeated request as it answered the first.
//
// Errors: ErrForbidden, ErrTooLarge: not enrolled. ErrUnknown: the shuffler may have enrolled the device; ask again
// with the same bytes.
func (e *Enrolment) Enrol(ctx context.Context, payload []byte) ([]byte, error) {
	return e.t.Ask(ctx, Question{Subject: SubjectEnrol, Payload: payload, Wait: enrolTime, Repeat: true,
		Nobody: ErrNoShuffler})
}

// EnrolOnce is Enrol with a single try, for askers that must know how often a shuffler may have heard them.
//
// Errors: ErrForbidden, ErrTooLarge, ErrNoShuffler: no shuffler was asked. ErrUnknown: one may have been, once.
func (e *Enrolment) EnrolOnce(ctx context.Context, payload []byte) (reply []byte, err error) {
	return e.t.Ask(ctx, Question{Subject: SubjectEnrol, Payload: payload, Wait: attemptTime, Nobody: ErrNoShuffler})
}

// ServeEnrol answers enrolment requests until the context ends; several shufflers share them. The handler runs on
// this number of workers at once and returns the reply; an error of the handler sends none, and the asker repeats its
// request.
//
// It always returns an error: the context's cause, ErrForbidden or ErrClosed. Requests that a worker has begun are
// answered first.
func (e *Enrolment) ServeEnrol(ctx context.Context, workers int,
	handler func(ctx context.Context, payload []byte) ([]byte, error)) error {
	service := Service{Subject: SubjectEnrol, Queue: QueueEnrol, Backlog: enrolBacklog, Parallel: workers}
	return e.t.Serve(ctx, service, func(ctx context.Context, payload []byte) []byte {
		reply, err := handler(ctx, payload)
		if err != nil {
			e.t.Log().Warn().Err(err).Msg("enrolment request not answered; the asker will repeat it")
			return nil
		}
		if reply == nil {
			return []byte{}
		}
		return reply
	})
}

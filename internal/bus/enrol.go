package bus

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
)

// enrolBacklog is how many enrolment requests wait for a worker before the broker's own buffers fill. Clients repeat
// the requests that are lost.
const enrolBacklog = 4096

// enrolTime is how long an asker waits before it repeats its request. A shuffler under load commits many enrolments
// with one sync.
const enrolTime = 2 * time.Second

// Enrol asks the shuffler to enrol a device and returns its reply. The same bytes are sent again until a reply comes
// or the context ends, so the shuffler must answer a repeated request as it answered the first.
//
// Errors: ErrForbidden, ErrTooLarge: not enrolled. ErrUnknown: the shuffler may have enrolled the device; ask again
// with the same bytes.
func (c *Conn) Enrol(ctx context.Context, payload []byte) ([]byte, error) {
	if len(payload) > MaxMessage {
		return nil, fmt.Errorf("%w: %d bytes, at most %d", ErrTooLarge, len(payload), MaxMessage)
	}
	var reply []byte
	err := c.do(ctx, SubjectEnrol, func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, enrolTime)
		defer cancel()
		var err error
		reply, err = c.requestEnrolment(ctx, payload)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("bus: enrol: %w", err)
	}
	return reply, nil
}

// EnrolOnce is Enrol with a single try, for askers that must know how often a shuffler may have heard them.
//
// Errors: ErrForbidden, ErrTooLarge, ErrNoShuffler: no shuffler was asked. ErrUnknown: one may have been, once.
func (c *Conn) EnrolOnce(ctx context.Context, payload []byte) (reply []byte, err error) {
	if len(payload) > MaxMessage {
		return nil, fmt.Errorf("%w: %d bytes, at most %d", ErrTooLarge, len(payload), MaxMessage)
	}
	asked := false
	err = c.try(ctx, SubjectEnrol, attemptTime, func(ctx context.Context) (err error) {
		asked = true
		reply, err = c.requestEnrolment(ctx, payload)
		return err
	})
	switch {
	case err == nil:
		return reply, nil
	case !asked && errors.Is(err, nats.ErrDisconnected):
		return nil, fmt.Errorf("bus: enrol: %w (%w)", ErrNoShuffler, err)
	case errors.Is(err, ErrForbidden), errors.Is(err, ErrNoShuffler):
		return nil, fmt.Errorf("bus: enrol: %w", err)
	}
	return nil, fmt.Errorf("bus: enrol: %w (%w)", ErrUnknown, err)
}

// requestEnrolment sends a request and waits for its reply. The client sends it once: what was written to a
// connection is never written again, and nothing is kept for a connection to come.
func (c *Conn) requestEnrolment(ctx context.Context, payload []byte) ([]byte, error) {
	m, err := c.nc.RequestWithContext(ctx, SubjectEnrol, payload)
	if errors.Is(err, nats.ErrNoResponders) || errors.Is(err, nats.ErrReconnectBufExceeded) {
		return nil, fmt.Errorf("%w (%v)", ErrNoShuffler, err)
	}
	if err != nil {
		return nil, err
	}
	return m.Data, nil
}

// ServeEnrol answers enrolment requests until the context ends; several shufflers share them. The handler runs on
// this number of workers at once and returns the reply; an error of the handler sends none, and the asker repeats its
// request.
//
// It always returns an error: the context's cause, ErrForbidden or ErrClosed. Requests that a worker has begun are
// answered first.
func (c *Conn) ServeEnrol(ctx context.Context, workers int,
	handler func(ctx context.Context, payload []byte) ([]byte, error)) error {
	guarded, release := c.guard(ctx, SubjectEnrol)
	defer release()
	return c.serve(guarded, SubjectEnrol, QueueEnrol, enrolBacklog, workers, func(m *nats.Msg) {
		c.answer(guarded, m, handler)
	})
}

func (c *Conn) answer(ctx context.Context, m *nats.Msg, handler func(context.Context, []byte) ([]byte, error)) {
	reply, err := handler(ctx, m.Data)
	if err == nil {
		err = m.Respond(reply)
	}
	if err != nil {
		c.log.Warn().Err(err).Msg("enrolment request not answered; the asker will repeat it")
	}
}

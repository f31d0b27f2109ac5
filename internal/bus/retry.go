package bus

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Codes of the broker's refusals that this package tells apart. nats.go names only the first three.
const (
	codeWrongLast        = jetstream.JSErrCodeStreamWrongLastSequence
	codeWrongLastReplica = jetstream.JSErrCodeStreamWrongLastSequenceConstant
	codeTooLarge         = jetstream.JSErrCodeStreamMessageExceedsMaximum
	codeStoreFailed      = 10077 // the stream's limits refuse it; the description says which
	codeNoResources      = 10023
	codeNoStorage        = 10047
	codeNoSuchSequence   = 10043
)

// errTaken: a message is stored under the subject already.
var errTaken = errors.New("bus: subject taken")

// do tries fn until it succeeds, fails for good, or the context ends. Subject is where fn sends to: the broker's refusal of it ends the
// try at once. Each try gets a context of its own.
func (c *Conn) do(ctx context.Context, subject string, fn func(context.Context) error) error {
	pause := firstPause
	for {
		err := c.try(ctx, subject, fn)
		if err == nil {
			return nil
		}
		err, final := classify(err)
		if final {
			return err
		}
		if c.nc.IsClosed() {
			return fmt.Errorf("%w (%w)", ErrClosed, err)
		}
		if ctx.Err() != nil || !sleep(ctx, &pause) {
			return fmt.Errorf("%w: %w (%w)", ErrUnknown, context.Cause(ctx), err)
		}
		c.repeats.Add(1)
		c.log.Debug().Err(err).Str("subject", subject).Msg("broker request repeated")
	}
}

func (c *Conn) try(ctx context.Context, subject string, fn func(context.Context) error) error {
	guarded, release := c.guard(ctx, subject)
	defer release()
	c.mu.Lock()
	session := c.session
	c.mu.Unlock()
	asked, lose := context.WithCancelCause(guarded)
	defer lose(nil)
	defer context.AfterFunc(session, func() { lose(context.Cause(session)) })()
	limited, cancel := context.WithTimeout(asked, attemptTime)
	defer cancel()
	err := fn(limited)
	if cause := context.Cause(asked); err != nil && (errors.Is(cause, ErrForbidden) || errors.Is(cause, errLost)) {
		return cause
	}
	return err
}

// retry is do for calls whose subject does not matter, because the role may make them anyway.
func (c *Conn) retry(ctx context.Context, fn func(context.Context) error) error {
	return c.do(ctx, "", fn)
}

// classify translates an error and says whether repeating is pointless.
func classify(err error) (error, bool) {
	var api *jetstream.APIError
	switch {
	case errors.Is(err, ErrForbidden), errors.Is(err, ErrGone), errors.Is(err, ErrTooLarge), errors.Is(err, errTaken):
		return err, true
	case errors.Is(err, nats.ErrMaxPayload):
		return fmt.Errorf("%w (%v)", ErrTooLarge, err), true
	case errors.Is(err, nats.ErrConnectionClosed):
		return fmt.Errorf("%w (%v)", ErrClosed, err), true
	case errors.Is(err, jetstream.ErrNoStreamResponse), errors.Is(err, nats.ErrNoResponders),
		errors.Is(err, jetstream.ErrStreamNotFound), errors.Is(err, jetstream.ErrConsumerNotFound):
		// Nobody stores this subject now. A broker that is starting says so as well, and provisioning may be about to happen.
		return fmt.Errorf("%w (%v)", ErrUnprovisioned, err), false
	case errors.As(err, &api):
		switch api.ErrorCode {
		case codeWrongLast, codeWrongLastReplica:
			return errTaken, true
		case codeTooLarge:
			return fmt.Errorf("%w (%v)", ErrTooLarge, err), true
		case codeNoResources, codeNoStorage:
			return fmt.Errorf("%w (%v)", ErrFull, err), true
		case codeStoreFailed:
			if strings.Contains(api.Description, "per subject") {
				return errTaken, true
			}
			return fmt.Errorf("%w (%v)", ErrFull, err), true
		}
		// Conflicts and what the server calls its own fault pass; bad requests do not.
		return err, api.Code < 500 && api.Code != 409
	}
	return err, false
}

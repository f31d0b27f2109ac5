package bus

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
)

// oddTries is how often an answer that is not known here is asked for again: with the pauses between tries about five
// seconds, which covers what a server says while it starts, moves a leader or stops.
const oddTries = 8

// do tries fn until it succeeds, fails for good, or the context ends. Subject is where fn sends to: the broker's
// refusal of it ends the try at once. Each try gets a context of its own, and more time than one that was too short.
//
// A call is repeated for as long as its context lives while there is no answer, or one that is known to pass. An
// answer that is not known here ends the call as ErrRefused after oddTries tries: it may never change.
func (c *link) do(ctx context.Context, subject string, fn func(context.Context) error) error {
	pause, odd, limit := firstPause, 0, attemptTime
	waiting := c.await(subject)
	defer waiting.done()
	for {
		connected := c.sessionNow()
		err := c.try(ctx, subject, limit, fn)
		if err == nil {
			return nil
		}
		means, err := interpret(err)
		if means == unknown && connected.Err() == nil { // what a dying connection says is no answer
			if odd++; odd >= oddTries {
				return refused(err)
			}
		}
		if means == settled {
			return err
		}
		if c.closed.Load() {
			return fmt.Errorf("%w (%w)", ErrClosed, err)
		}
		if errors.Is(err, context.DeadlineExceeded) && connected.Err() == nil {
			limit = min(2*limit, longestTry)
		}
		waiting.failed(err)
		if ctx.Err() != nil || !sleep(ctx, &pause) {
			return fmt.Errorf("%w: %w (%w)", ErrUnknown, context.Cause(ctx), err)
		}
		c.repeats.Add(1)
		c.log.Debug().Err(err).Str("subject", subject).Msg("broker request repeated")
	}
}

// sessionNow ends when the connection that there is now is lost.
func (c *link) sessionNow() context.Context {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.session
}

func (c *link) try(ctx context.Context, subject string, limit time.Duration, fn func(context.Context) error) error {
	if !c.connected.Load() && !c.closed.Load() {
		// at once: nats.go would have the call wait while it dials, whatever its context says
		return nats.ErrDisconnected
	}
	guarded, release := c.guard(ctx, subject)
	defer release()
	session := c.sessionNow()
	asked, lose := context.WithCancelCause(guarded)
	defer lose(nil)
	defer context.AfterFunc(session, func() { lose(context.Cause(session)) })()
	limited, cancel := context.WithTimeout(asked, limit)
	defer cancel()
	err := fn(limited)
	if cause := context.Cause(asked); err != nil && (errors.Is(cause, ErrForbidden) || errors.Is(cause, errLost)) {
		return cause
	}
	return err
}

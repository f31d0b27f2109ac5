package bus

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
)

// backlogBytes is how many bytes of requests wait at most, of whatever size: honest requests for enrolment have some
// kB, and an unknown host's 8 MB would fill the memory long before they are as many as may wait.
const backlogBytes = 64 << 20

// Ask implements Transport.
func (c *link) Ask(ctx context.Context, q Question) ([]byte, error) {
	if len(q.Payload) > MaxMessage {
		return nil, fmt.Errorf("%w: %d bytes, at most %d", ErrTooLarge, len(q.Payload), MaxMessage)
	}
	var reply []byte
	asked := false
	ask := func(ctx context.Context) error {
		asked = true
		ctx, cancel := context.WithTimeout(ctx, q.Wait)
		defer cancel()
		// The client sends it once: what was written to a connection is never written again, and nothing is kept for a
		// connection to come.
		m, err := c.nc.RequestWithContext(ctx, q.Subject, q.Payload)
		if errors.Is(err, nats.ErrNoResponders) || errors.Is(err, nats.ErrReconnectBufExceeded) {
			return fmt.Errorf("%w (%v)", q.Nobody, err)
		}
		if err != nil {
			return err
		}
		reply = m.Data
		return nil
	}
	var err error
	if q.Repeat {
		err = c.do(ctx, q.Subject, ask)
	} else {
		err = c.try(ctx, q.Subject, attemptTime, ask)
		switch {
		case err == nil, errors.Is(err, ErrForbidden), errors.Is(err, q.Nobody):
		case !asked && errors.Is(err, nats.ErrDisconnected):
			err = fmt.Errorf("%w (%w)", q.Nobody, err)
		default:
			err = fmt.Errorf("%w (%w)", ErrUnknown, err)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("bus: ask %s: %w", q.Subject, err)
	}
	return reply, nil
}

// Serve implements Transport.
func (c *link) Serve(ctx context.Context, s Service, handler func(context.Context, []byte) []byte) error {
	ctx, release := c.guard(ctx, s.Subject)
	defer release()
	requests := make(chan *nats.Msg)
	sub, err := c.nc.QueueSubscribe(s.Subject, s.Queue, func(m *nats.Msg) {
		select {
		case requests <- m:
		case <-ctx.Done():
		}
	})
	if err == nil {
		err = sub.SetPendingLimits(s.Backlog, backlogBytes)
	}
	if err != nil {
		return fmt.Errorf("bus: serve %s: %w (%v)", s.Subject, ErrClosed, err)
	}
	answer := func(m *nats.Msg) {
		reply := handler(ctx, m.Data)
		if reply == nil {
			return
		}
		if err := m.Respond(reply); err != nil {
			c.log.Warn().Err(err).Str("subject", s.Subject).Msg("a request was not answered; who asked will repeat it")
		}
	}
	var wg sync.WaitGroup
	for range max(s.Parallel, 1) {
		wg.Go(func() {
			for {
				select {
				case <-ctx.Done():
					return
				case m := <-requests:
					answer(m)
				}
			}
		})
	}
	<-ctx.Done()
	_ = sub.Unsubscribe() // fails only on a closed connection
	wg.Wait()
	return context.Cause(ctx)
}

const pollEvery = 10 * time.Second // how late a lost notice can make a watcher, plus as much at random

// PollAfter implements Transport. The jitter is for the broker's sake; no secret and no noise depends on it.
func (c *link) PollAfter() time.Duration { return pollEvery + rand.N(pollEvery) }

// Listen implements Transport.
func (c *link) Listen(ctx context.Context, subject string) (context.Context, <-chan struct{}, func(), error) {
	news := make(chan struct{}, 1)
	sub, err := c.nc.Subscribe(subject, func(*nats.Msg) { tell(news) })
	if err != nil {
		return nil, nil, nil, fmt.Errorf("%w (%v)", ErrClosed, err)
	}
	heard, release := c.guard(ctx, subject)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.redials[news] = struct{}{}
	return heard, news, func() {
		c.mu.Lock()
		delete(c.redials, news)
		c.mu.Unlock()
		_ = sub.Unsubscribe() // fails only on a closed connection
		release()
	}, nil
}

// tell leaves a token in a channel, if none is there.
func tell(ch chan struct{}) {
	select {
	case ch <- struct{}{}:
	default:
	}
}

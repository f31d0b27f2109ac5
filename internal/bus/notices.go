package bus

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/nats-io/nats.go"
)

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

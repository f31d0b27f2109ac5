package bus

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/nats-io/nats.go"
)

const (
	pollEvery = 10 * time.Second      // how late a lost notice can make a watcher, plus as much at random
	pollPause = 20 * time.Millisecond // at least this between two looks, however many notices come
)

// watch hands every message of a stream from a sequence on to fn, in order and once each, first those that are there,
// then new ones as they come, until the context ends or fn returns an error. Notices, reconnects and a slow clock
// only say when to look; what is handed on is always read from the stream, so a forged or lost notice changes
// nothing.
func (c *Conn) watch(ctx context.Context, stream, filter, notice string, fn func(record) error) error {
	guarded, release := c.guard(ctx, notice)
	defer release()
	news := make(chan struct{}, 1)
	sub, err := c.nc.Subscribe(notice, func(*nats.Msg) {
		select {
		case news <- struct{}{}:
		default:
		}
	})
	if err != nil {
		return fmt.Errorf("bus: watch %s: %w (%v)", stream, ErrClosed, err)
	}
	defer func() { _ = sub.Unsubscribe() }() // fails only on a closed connection
	back, forget := c.reconnects()
	defer forget()

	var from uint64
	for {
		if from, err = c.scan(guarded, stream, filter, from, fn); err != nil {
			return err
		}
		// The jitter is for the broker's sake; no secret and no noise depends on it.
		wait := time.NewTimer(pollEvery + rand.N(pollEvery))
		select {
		case <-guarded.Done():
			wait.Stop()
			return context.Cause(guarded)
		case <-news:
		case <-back:
		case <-wait.C:
		}
		wait.Stop()
		pause := pollPause
		if !sleep(guarded, &pause) {
			return context.Cause(guarded)
		}
	}
}

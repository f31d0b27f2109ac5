package bus

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

const (
	prefetchBytes = 64 << 20 // bytes of messages asked for ahead
	// a request for messages is repeated this often, and outlives a killed client by at most this long
	pullExpiry    = 10 * time.Second
	pullHeartbeat = 2 * time.Second // silence for twice this long: ask again
)

// taskPull is how long one request for a task waits at the broker before it is made again. A request of a client that
// is gone is dropped with its connection.
const taskPull = 5 * time.Second

// Consume implements Transport. It survives reconnects, and waits for a consumer that is not provisioned yet. What was
// fetched but not handed over goes back to the broker at the end.
func (c *link) Consume(ctx context.Context, stream, durable string, ahead int, fn func(Arrival) bool) error {
	next := APILocal + ".CONSUMER.MSG.NEXT." + stream + "." + durable
	guarded, release := c.guard(ctx, next)
	defer release()
	for {
		cons, err := c.consumer(guarded, stream, durable)
		if err != nil {
			if guarded.Err() != nil {
				return context.Cause(guarded)
			}
			return fmt.Errorf("bus: consume %s: %w", stream, err)
		}
		err = c.drain(guarded, cons, ahead, func(m jetstream.Msg) {
			a, err := arrival(cons, m)
			if err != nil {
				c.log.Warn().Err(err).Msg("message without a place in the stream skipped")
			} else if !fn(a) {
				_ = m.Term() // best effort: it would come again and be dropped again
			}
		})
		switch {
		case guarded.Err() != nil:
			return context.Cause(guarded)
		case c.nc.IsClosed():
			return fmt.Errorf("bus: consume %s: %w", stream, ErrClosed)
		}
		c.log.Debug().Err(err).Str("stream", stream).Msg("consumer attached again")
		pause := firstPause
		if !sleep(guarded, &pause) {
			return context.Cause(guarded)
		}
	}
}

// consumer looks up a consumer, again until the broker answers.
func (c *link) consumer(ctx context.Context, stream, durable string) (cons jetstream.Consumer, err error) {
	err = c.do(ctx, APILocal+".CONSUMER.INFO."+stream+"."+durable, func(ctx context.Context) (err error) {
		cons, err = c.js.Consumer(ctx, stream, durable)
		return err
	})
	return cons, err
}

// drain hands over messages until the consumer fails or the context ends.
func (c *link) drain(ctx context.Context, cons jetstream.Consumer, ahead int, fn func(jetstream.Msg)) error {
	it, err := cons.Messages(jetstream.PullMaxMessagesWithBytesLimit(ahead, prefetchBytes),
		jetstream.PullExpiry(pullExpiry), jetstream.PullHeartbeat(pullHeartbeat))
	if err != nil {
		return err
	}
	defer func() {
		it.Drain()
		for {
			m, err := it.Next(jetstream.NextMaxWait(time.Second))
			if err != nil {
				it.Stop()
				return
			}
			_ = m.Nak() // best effort: without it the broker waits for AckWait
		}
	}()
	for {
		m, err := it.Next(jetstream.NextContext(ctx))
		if err != nil {
			return err
		}
		fn(m)
	}
}

// Work implements Transport.
func (c *link) Work(ctx context.Context, stream, durable string, parallel int, fn func(Arrival)) error {
	next := APILocal + ".CONSUMER.MSG.NEXT." + stream + "." + durable
	guarded, release := c.guard(ctx, next)
	defer release()
	cons, err := c.consumer(guarded, stream, durable)
	if err != nil {
		if guarded.Err() != nil {
			return context.Cause(guarded)
		}
		return fmt.Errorf("bus: consume %s: %w", stream, err)
	}
	var wg sync.WaitGroup
	for range max(parallel, 1) {
		wg.Go(func() {
			pause := firstPause
			for guarded.Err() == nil && !c.nc.IsClosed() {
				if a, err := c.next(guarded, cons); a != nil {
					pause = firstPause
					fn(*a)
				} else if err != nil && !sleep(guarded, &pause) {
					return
				}
			}
		})
	}
	wg.Wait()
	if guarded.Err() != nil {
		return context.Cause(guarded)
	}
	return fmt.Errorf("bus: consume %s: %w", stream, ErrClosed)
}

// next waits for a message for a moment. It returns neither a message nor an error where there was none.
func (c *link) next(ctx context.Context, cons jetstream.Consumer) (*Arrival, error) {
	if !c.connected.Load() {
		return nil, nats.ErrDisconnected
	}
	connection := c.connectionNow()
	asked, cancel := context.WithTimeout(ctx, taskPull)
	defer cancel()
	defer context.AfterFunc(connection, cancel)()
	m, err := cons.Next(jetstream.FetchContext(asked))
	switch {
	case err == nil:
	case asked.Err() != nil, errors.Is(err, nats.ErrTimeout):
		return nil, nil
	default:
		c.log.Debug().Err(err).Msg("task asked for again")
		return nil, err
	}
	a, _ := arrival(cons, m) // without its place a task can be done as well
	return &a, nil
}

// arrival reads a message and its place in the stream.
func arrival(cons jetstream.Consumer, m jetstream.Msg) (Arrival, error) {
	a := Arrival{Record: Record{Subject: m.Subject(), Header: m.Headers(), Data: m.Data()}, Settler: m,
		Wait: cons.CachedInfo().Config.AckWait}
	meta, err := m.Metadata()
	if err == nil {
		a.Sequence, a.Time, a.Redelivered = meta.Sequence.Stream, meta.Timestamp, meta.NumDelivered > 1
	}
	return a, err
}

// Waiting implements Transport.
func (c *link) Waiting(ctx context.Context, stream, durable string) (Backlog, error) {
	consumer, err := c.consumer(ctx, stream, durable) // asks for its state
	if err != nil {
		return Backlog{}, err
	}
	state := consumer.CachedInfo()
	return Backlog{Waiting: int(state.NumPending) + state.NumAckPending, Floor: state.AckFloor.Stream,
		Sent: state.Delivered.Stream}, nil
}

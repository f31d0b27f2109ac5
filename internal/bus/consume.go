package bus

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

const (
	reportsAhead  = 1024     // reports asked for ahead
	prefetchBytes = 64 << 20 // and bytes of messages
	// a request for messages is repeated this often, and outlives a killed client by at most this long
	pullExpiry    = 10 * time.Second
	pullHeartbeat = 2 * time.Second // silence for twice this long: ask again
)

// Delivery is one message of a durable consumer. It stays the consumer's until Ack: a Delivery that is neither
// acknowledged nor sent back within the consumer's AckWait is delivered again, here or at another worker.
type Delivery struct {
	Epoch       uint64
	Round       uint32
	Sequence    uint64 // place in the stream; for ever the same message
	Redelivered bool   // delivered before, here or elsewhere
	Payload     []byte
	msg         Settler
}

// Settler tells the broker what became of a message that it delivered. A jetstream.Msg is one.
type Settler interface {
	Ack() error
	NakWithDelay(delay time.Duration) error
	InProgress() error
}

// NewDelivery is d as a broker hands it over that no Conn leads to: its methods are those of s.
func NewDelivery(d Delivery, s Settler) *Delivery {
	d.msg = s
	return &d
}

// Ack tells the broker that the message is dealt with. Call it after what follows from it is durable. An error, or a
// lost Ack, means a redelivery; nothing is lost. It may be called later, from any goroutine, and more than once.
func (d *Delivery) Ack() error { return acked(d.msg.Ack()) }

// Retry sends the message back, to be delivered again after a pause.
func (d *Delivery) Retry(after time.Duration) error { return acked(d.msg.NakWithDelay(after)) }

func acked(err error) error {
	if err == nil || errors.Is(err, jetstream.ErrMsgAlreadyAckd) {
		return nil
	}
	return fmt.Errorf("bus: acknowledge: %w", err)
}

// consume hands the messages of a durable consumer to fn, on the caller's goroutine, until the context ends, and asks
// for so many ahead. It survives reconnects, and waits for a consumer that is not provisioned yet. What was fetched but
// not handed over goes back to the broker at the end.
func (c *Conn) consume(ctx context.Context, stream, durable string, ahead int, fn func(jetstream.Msg)) error {
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
		err = c.drain(guarded, cons, ahead, fn)
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
func (c *Conn) consumer(ctx context.Context, stream, durable string) (cons jetstream.Consumer, err error) {
	err = c.do(ctx, APILocal+".CONSUMER.INFO."+stream+"."+durable, func(ctx context.Context) (err error) {
		cons, err = c.js.Consumer(ctx, stream, durable)
		return err
	})
	return cons, err
}

// drain hands over messages until the consumer fails or the context ends.
func (c *Conn) drain(ctx context.Context, cons jetstream.Consumer, ahead int, fn func(jetstream.Msg)) error {
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

// delivery reads a message's place. A message with a malformed name was not stored by this package: it is
// acknowledged and dropped.
func (c *Conn) delivery(m jetstream.Msg, prefix string, indexed bool) (d *Delivery, index uint32, ok bool) {
	epoch, round, index, err := parseRound(m.Subject(), prefix, indexed)
	if err != nil {
		c.log.Warn().Str("subject", m.Subject()).Msg("message under a malformed name skipped")
		_ = m.Term() // best effort: it would come again and be skipped again
		return nil, 0, false
	}
	d, ok = c.placed(m, epoch, round)
	return d, index, ok
}

func (c *Conn) placed(m jetstream.Msg, epoch uint64, round uint32) (d *Delivery, ok bool) {
	meta, err := m.Metadata()
	if err != nil {
		c.log.Warn().Err(err).Msg("message without a place in the stream skipped")
		return nil, false
	}
	return &Delivery{
		Epoch: epoch, Round: round, Sequence: meta.Sequence.Stream,
		Redelivered: meta.NumDelivered > 1, Payload: m.Data(), msg: m,
	}, true
}

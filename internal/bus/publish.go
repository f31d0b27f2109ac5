package bus

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// publish stores a message and returns once the broker has it. The same id within the dedup window is stored once.
func (c *Conn) publish(ctx context.Context, subject string, header nats.Header, payload []byte) (*jetstream.PubAck,
	error) {
	if len(payload) > MaxMessage {
		return nil, fmt.Errorf("%w: %d bytes, at most %d", ErrTooLarge, len(payload), MaxMessage)
	}
	var ack *jetstream.PubAck
	err := c.do(ctx, subject, func(ctx context.Context) (err error) {
		m := &nats.Msg{Subject: subject, Data: payload, Header: nats.Header{}}
		for k, v := range header {
			m.Header[k] = v
		}
		ack, err = c.js.PublishMsg(ctx, m)
		return err
	})
	c.wrote(subject, err)
	if err != nil {
		return nil, fmt.Errorf("bus: publish %s: %w", subject, err)
	}
	return ack, nil
}

// create stores a message under a subject that may hold only one. If the same message is already stored, the call
// succeeds.
func (c *Conn) create(ctx context.Context, stream, subject string, payload []byte) error {
	first := nats.Header{headerExpectLast: {strconv.Itoa(0)}}
	for {
		_, err := c.publish(ctx, subject, first, payload)
		if !errors.Is(err, errTaken) {
			return err
		}
		stored, err := c.last(ctx, stream, subject)
		switch {
		case errors.Is(err, ErrGone):
			continue // purged in between
		case err != nil:
			return err
		case bytes.Equal(stored.Data, payload):
			return nil
		}
		return &ExistsError{Name: subject, Stored: stored.Data}
	}
}

package bus

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Publish implements Transport.
func (c *link) Publish(ctx context.Context, subject string, header nats.Header, payload []byte) (uint64, error) {
	if len(payload) > MaxMessage {
		return 0, fmt.Errorf("%w: %d bytes, at most %d", ErrTooLarge, len(payload), MaxMessage)
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
	c.noteWrite(subject, err)
	if err != nil {
		return 0, fmt.Errorf("bus: publish %s: %w", subject, err)
	}
	return ack.Sequence, nil
}

// Purge implements Transport.
func (c *link) Purge(ctx context.Context, stream, filter string, before uint64) error {
	subject := APILocal + ".STREAM.PURGE." + stream
	body, err := json.Marshal(struct {
		Filter string `json:"filter,omitempty"`
		Before uint64 `json:"seq,omitempty"`
	}{filter, before})
	if err != nil {
		return fmt.Errorf("bus: %w", err)
	}
	err = c.do(ctx, subject, func(ctx context.Context) error {
		return c.ask(ctx, subject, body, &apiAnswer{})
	})
	if err != nil {
		return fmt.Errorf("bus: purge %s: %w", stream, err)
	}
	return nil
}

// Stream implements Transport.
func (c *link) Stream(ctx context.Context, stream string, wait bool) (config *jetstream.StreamConfig, err error) {
	subject := APILocal + ".STREAM.INFO." + stream
	err = c.do(ctx, subject, func(ctx context.Context) error {
		config = nil
		var answer struct {
			apiAnswer
			Config *jetstream.StreamConfig `json:"config"`
		}
		err := c.ask(ctx, subject, nil, &answer)
		var no *jetstream.APIError
		if !wait && errors.As(err, &no) && no.ErrorCode == jetstream.JSErrCodeStreamNotFound {
			return nil
		}
		if err == nil && answer.Config == nil {
			return fmt.Errorf("%w: no configuration in it", errOddAnswer)
		}
		config = answer.Config
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("bus: look into %s: %w", stream, err)
	}
	return config, nil
}

// apiAnswer is what every answer to a JetStream call has.
type apiAnswer struct {
	Error *jetstream.APIError `json:"error"`
}

func (a *apiAnswer) refusal() *jetstream.APIError { return a.Error }

// ask makes a JetStream call once, and reads its answer. The broker's refusal is a *jetstream.APIError.
func (c *link) ask(ctx context.Context, subject string, body []byte, answer interface {
	refusal() *jetstream.APIError
}) error {
	reply, err := c.nc.RequestWithContext(ctx, subject, body)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(reply.Data, answer); err != nil {
		return fmt.Errorf("%w: %w", errOddAnswer, err)
	}
	if no := answer.refusal(); no != nil {
		return no
	}
	return nil
}

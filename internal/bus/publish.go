package bus

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strconv"

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

// What makes messages a batch (ADR-50 of NATS). The server stages them, and stores and syncs all of them when the last
// one comes, or none.
const (
	headerBatch       = "Nats-Batch-Id"
	headerBatchNumber = "Nats-Batch-Sequence"
	headerBatchEnd    = "Nats-Batch-Commit"
)

// PublishTogether implements Transport.
func (c *link) PublishTogether(ctx context.Context, subject string, messages []Stored) error {
	for _, m := range messages {
		if len(m.Payload) > MaxMessage {
			return fmt.Errorf("%w: %d bytes, at most %d", ErrTooLarge, len(m.Payload), MaxMessage)
		}
	}
	err := c.do(ctx, subject, func(ctx context.Context) error { return c.batch(ctx, subject, messages) })
	if err != nil {
		return fmt.Errorf("bus: publish %d to %s: %w", len(messages), subject, err)
	}
	c.noteWrite(subject, nil)
	return nil
}

// batch is one try, under a name of its own: what an earlier one left staged is dropped by the server.
func (c *link) batch(ctx context.Context, subject string, messages []Stored) error {
	var name [12]byte
	rand.Read(name[:]) // never fails
	id := base64.RawURLEncoding.EncodeToString(name[:])
	for i, m := range messages {
		next := &nats.Msg{Subject: subject, Data: m.Payload, Header: maps.Clone(m.Header)}
		next.Header[headerBatch] = []string{id}
		next.Header[headerBatchNumber] = []string{strconv.Itoa(i + 1)}
		if i < len(messages)-1 {
			if err := c.nc.PublishMsg(next); err != nil {
				return err
			}
			continue
		}
		next.Header[headerBatchEnd] = []string{"1"}
		reply, err := c.nc.RequestMsgWithContext(ctx, next)
		if err != nil {
			return err
		}
		var answer struct {
			apiAnswer
			Batch string `json:"batch"`
			Count int    `json:"count"`
		}
		if err := json.Unmarshal(reply.Data, &answer); err != nil {
			return fmt.Errorf("%w: %w", errOddAnswer, err)
		}
		if answer.Error != nil {
			return answer.Error
		}
		if answer.Batch != id || answer.Count != len(messages) {
			return fmt.Errorf("%w: %d of batch %q, where %d were sent", errOddAnswer, answer.Count, answer.Batch,
				len(messages))
		}
	}
	return nil
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

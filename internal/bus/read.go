package bus

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
)

const (
	readBatch = 256      // messages of one batch
	readBytes = 16 << 20 // bytes after which the broker ends a batch; well under what it buffers for one client
	readQuiet = 2 * time.Second
)

// Leader implements Transport.
func (c *link) Leader(ctx context.Context, stream string, q Query) (Record, error) {
	subject := APILocal + ".STREAM.MSG.GET." + stream
	body, err := json.Marshal(q)
	if err != nil {
		return Record{}, fmt.Errorf("bus: %w", err)
	}
	var got Record
	err = c.do(ctx, subject, func(ctx context.Context) error {
		var answer struct {
			apiAnswer
			Message *struct {
				Subject  string    `json:"subject"`
				Sequence uint64    `json:"seq"`
				Header   []byte    `json:"hdrs"`
				Data     []byte    `json:"data"`
				Time     time.Time `json:"time"`
			} `json:"message"`
		}
		if err := c.ask(ctx, subject, body, &answer); err != nil {
			return err
		}
		m := answer.Message
		if m == nil {
			return fmt.Errorf("%w: no message in it", errOddAnswer)
		}
		got = Record{Subject: m.Subject, Sequence: m.Sequence, Time: m.Time, Data: m.Data}
		if len(m.Header) > 0 {
			if got.Header, err = nats.DecodeHeadersMsg(m.Header); err != nil {
				return fmt.Errorf("%w: %w", errOddAnswer, err)
			}
		}
		return nil
	})
	if err != nil {
		return Record{}, fmt.Errorf("bus: read %s: %w", stream, err)
	}
	return got, nil
}

// errNoReplica: no replica reads for others, or none is there.
var errNoReplica = errors.New("bus: no replica answers")

// Replica implements Transport. Its error is errNoReplica where none answers.
func (c *link) Replica(ctx context.Context, stream string, q Query) (Record, error) {
	subject := APILocal + ".DIRECT.GET." + stream
	body, err := json.Marshal(q)
	if err != nil {
		return Record{}, fmt.Errorf("bus: %w", err)
	}
	var got Record
	err = c.do(ctx, subject, func(ctx context.Context) error {
		reply, err := c.nc.RequestWithContext(ctx, subject, body)
		if errors.Is(err, nats.ErrNoResponders) {
			return errNoReplica
		}
		if err != nil {
			return err
		}
		if err := status(reply); err != nil {
			return err
		}
		got, err = decode(reply)
		return err
	})
	if err != nil {
		return Record{}, fmt.Errorf("bus: read %s: %w", stream, err)
	}
	return got, nil
}

// decode decodes a message that a replica sent as it stored it.
func decode(m *nats.Msg) (Record, error) {
	r := Record{Subject: m.Header.Get("Nats-Subject"), Header: m.Header, Data: m.Data}
	var err error
	if r.Sequence, err = strconv.ParseUint(m.Header.Get("Nats-Sequence"), 10, 64); err != nil {
		return Record{}, fmt.Errorf("%w: no sequence: %w", errOddAnswer, err)
	}
	if r.Time, err = time.Parse(time.RFC3339Nano, m.Header.Get("Nats-Time-Stamp")); err != nil {
		return Record{}, fmt.Errorf("%w: no time: %w", errOddAnswer, err)
	}
	return r, nil
}

// hear waits for one message. The broker may be silent for readQuiet; being refused, or losing the connection, ends
// the wait at once.
func hear(ctx, try context.Context, sub *nats.Subscription) (*nats.Msg, error) {
	wait, cancel := context.WithTimeout(ctx, readQuiet)
	defer cancel()
	defer context.AfterFunc(try, func() {
		if cause := context.Cause(try); errors.Is(cause, ErrForbidden) || errors.Is(cause, errLost) {
			cancel()
		}
	})()
	return sub.NextMsgWithContext(wait)
}

// Batch implements Transport. A try that fails halfway is gone on from.
func (c *link) Batch(ctx context.Context, stream, filter string, from uint64) ([]Record, error) {
	subject := APILocal + ".DIRECT.GET." + stream
	var records []Record
	// The try's own time limit is too short for a long batch over a slow network: only the broker's silence counts.
	err := c.do(ctx, subject, func(try context.Context) error {
		inbox := c.nc.NewRespInbox()
		sub, err := c.nc.SubscribeSync(inbox)
		if err != nil {
			return err
		}
		defer func() { _ = sub.Unsubscribe() }() // fails only on a closed connection
		next := from
		if n := len(records); n > 0 {
			next = records[n-1].Sequence + 1
		}
		body, err := json.Marshal(Query{Sequence: next, Next: filter, Batch: readBatch, MaxBytes: readBytes})
		if err != nil {
			return err
		}
		if err := c.nc.PublishRequest(subject, inbox, body); err != nil {
			return err
		}
		for first := true; ; first = false {
			m, err := hear(ctx, try, sub)
			if err != nil {
				return err
			}
			if m.Header.Get("Status") == "204" { // the end
				return nil
			}
			if err := status(m); errors.Is(err, ErrGone) {
				return nil
			} else if err != nil {
				return err
			}
			r, err := decode(m)
			if err != nil {
				return err
			}
			// Each message names the one before it in the batch: a lost one shows.
			before, err := strconv.ParseUint(m.Header.Get("Nats-Last-Sequence"), 10, 64)
			if err != nil {
				return fmt.Errorf("%w: no predecessor: %w", errOddAnswer, err)
			}
			if r.Sequence < next {
				return fmt.Errorf("%w: sequence %d where %d or more was asked for", errOddAnswer, r.Sequence, next)
			}
			if !first && before != next-1 {
				return errMissed
			}
			records = append(records, r)
			next = r.Sequence + 1
		}
	})
	if err != nil {
		return nil, fmt.Errorf("bus: read %s: %w", stream, err)
	}
	return records, nil
}

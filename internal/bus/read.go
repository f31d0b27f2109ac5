package bus

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

const (
	readBatch = 256      // messages of one batch
	readBytes = 16 << 20 // bytes after which the broker ends a batch; well under what it buffers for one client
	readQuiet = 2 * time.Second
)

// record is one stored message.
type record struct {
	Subject  string
	Sequence uint64
	Time     time.Time
	Header   nats.Header
	Data     []byte
}

// query is the body of a read request, as the broker names its fields.
type query struct {
	Sequence uint64 `json:"seq,omitempty"`
	Last     string `json:"last_by_subj,omitempty"`
	Next     string `json:"next_by_subj,omitempty"`
	Batch    int    `json:"batch,omitempty"`
	MaxBytes int    `json:"max_bytes,omitempty"`
}

// leader asks the replica that orders the stream: its answer is current. ErrGone where there is no such message.
func (c *Conn) leader(ctx context.Context, stream string, q query) (record, error) {
	subject := APILocal + ".STREAM.MSG.GET." + stream
	body, err := json.Marshal(q)
	if err != nil {
		return record{}, fmt.Errorf("bus: %w", err)
	}
	var got record
	err = c.do(ctx, subject, func(ctx context.Context) error {
		reply, err := c.nc.RequestWithContext(ctx, subject, body)
		if err != nil {
			return err
		}
		var answer struct {
			Error   *jetstream.APIError `json:"error"`
			Message *struct {
				Subject  string    `json:"subject"`
				Sequence uint64    `json:"seq"`
				Header   []byte    `json:"hdrs"`
				Data     []byte    `json:"data"`
				Time     time.Time `json:"time"`
			} `json:"message"`
		}
		if err := json.Unmarshal(reply.Data, &answer); err != nil {
			return fmt.Errorf("%w: %w", errOddAnswer, err)
		}
		switch {
		case answer.Error != nil:
			return answer.Error
		case answer.Message == nil:
			return fmt.Errorf("%w: no message in it", errOddAnswer)
		}
		m := answer.Message
		got = record{Subject: m.Subject, Sequence: m.Sequence, Time: m.Time, Data: m.Data}
		if len(m.Header) > 0 {
			if got.Header, err = nats.DecodeHeadersMsg(m.Header); err != nil {
				return fmt.Errorf("%w: %w", errOddAnswer, err)
			}
		}
		return nil
	})
	if err != nil {
		return record{}, fmt.Errorf("bus: read %s: %w", stream, err)
	}
	return got, nil
}

// last reads the newest message of a subject.
func (c *Conn) last(ctx context.Context, stream, subject string) (record, error) {
	return c.leader(ctx, stream, query{Last: subject})
}

// errNoReplica: no replica reads for others, or none is there.
var errNoReplica = errors.New("bus: no replica answers")

// at reads one message from any replica, and from the leader where that one does not have it.
func (c *Conn) at(ctx context.Context, stream string, sequence uint64) (record, error) {
	if sequence == 0 {
		return record{}, fmt.Errorf("bus: read %s: %w: sequence 0", stream, ErrGone)
	}
	got, err := c.direct(ctx, stream, query{Sequence: sequence})
	if errors.Is(err, ErrGone) || errors.Is(err, errNoReplica) {
		return c.leader(ctx, stream, query{Sequence: sequence})
	}
	return got, err
}

// direct asks any replica for one message. ErrGone and errNoReplica say nothing of what the leader has.
func (c *Conn) direct(ctx context.Context, stream string, q query) (record, error) {
	subject := APILocal + ".DIRECT.GET." + stream
	body, err := json.Marshal(q)
	if err != nil {
		return record{}, fmt.Errorf("bus: %w", err)
	}
	var got record
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
		got, err = decoded(reply)
		return err
	})
	if err != nil {
		return record{}, fmt.Errorf("bus: read %s: %w", stream, err)
	}
	return got, nil
}

// decoded decodes a message that a replica sent as it stored it.
func decoded(m *nats.Msg) (record, error) {
	r := record{Subject: m.Header.Get("Nats-Subject"), Header: m.Header, Data: m.Data}
	var err error
	if r.Sequence, err = strconv.ParseUint(m.Header.Get("Nats-Sequence"), 10, 64); err != nil {
		return record{}, fmt.Errorf("%w: no sequence: %w", errOddAnswer, err)
	}
	if r.Time, err = time.Parse(time.RFC3339Nano, m.Header.Get("Nats-Time-Stamp")); err != nil {
		return record{}, fmt.Errorf("%w: no time: %w", errOddAnswer, err)
	}
	return r, nil
}

// scan hands every message that matches the filter, from a sequence on and in order, to fn, and returns the sequence
// to go on from. Batches come from any replica; whether they were all is settled by the leader, so nothing
// acknowledged before the call is missed. An error of fn ends it and is returned as it is, with the sequence of the
// message that fn did not take.
func (c *Conn) scan(ctx context.Context, stream, filter string, from uint64, fn func(record) error) (uint64, error) {
	from = max(from, 1)
	for {
		records, err := c.batch(ctx, stream, filter, from)
		if err != nil {
			return from, err
		}
		if len(records) == 0 {
			r, err := c.leader(ctx, stream, query{Next: filter, Sequence: from})
			if errors.Is(err, ErrGone) {
				return from, nil
			}
			if err != nil {
				return from, err
			}
			records = []record{r}
		}
		for _, r := range records {
			if err := fn(r); err != nil {
				return from, err
			}
			from = r.Sequence + 1
		}
	}
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

// batch reads one batch, empty where a replica knows of nothing more. A try that fails halfway is gone on from.
func (c *Conn) batch(ctx context.Context, stream, filter string, from uint64) ([]record, error) {
	subject := APILocal + ".DIRECT.GET." + stream
	var records []record
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
		body, err := json.Marshal(query{Sequence: next, Next: filter, Batch: readBatch, MaxBytes: readBytes})
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
			r, err := decoded(m)
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

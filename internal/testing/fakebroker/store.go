package fakebroker

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/riffle-dp/riffle/internal/broker"
	"github.com/riffle-dp/riffle/internal/bus"
)

// batchSize is how many messages one request reads at most.
const batchSize = 256

// under is the stream that stores what is published under a subject.
func (b *Broker) under(subject string) *stream {
	for _, s := range b.streams {
		if slices.ContainsFunc(s.config.Subjects, func(filter string) bool { return matches(filter, subject) }) {
			return s
		}
	}
	panic(fmt.Sprintf("fakebroker: no stream has the subject %s", subject))
}

// Publish implements bus.Transport.
func (t transport) Publish(ctx context.Context, subject string, header nats.Header, payload []byte) (uint64, error) {
	if len(payload) > bus.MaxMessage {
		return 0, fmt.Errorf("%w: %d bytes, at most %d", bus.ErrTooLarge, len(payload), bus.MaxMessage)
	}
	m := message{subject: subject, header: header, data: bytes.Clone(payload)}
	m.life, _ = time.ParseDuration(header.Get(jetstream.MsgTTLHeader)) // 0 where there is none
	name := nameOf("publish", subject)
	if header.Get(jetstream.ExpectedLastSubjSeqSubjHeader) != "" {
		name += "After"
	}
	c, s := t.c, t.c.b.under(subject)
	sequence, err := call(ctx, c, name, about(subject), need{broker.Publish, subject}, func() (uint64, error) {
		before := s.last
		sequence, err := s.publish(m)
		if err == nil && sequence > before {
			c.b.notify(subject)
		}
		return sequence, err
	})
	if err != nil {
		return 0, fmt.Errorf("fakebroker: publish %s: %w", about(subject), err)
	}
	return sequence, nil
}

// PublishTogether implements bus.Transport: this broker takes each message by itself.
func (t transport) PublishTogether(context.Context, string, []bus.Stored) error { return bus.ErrApart }

// Purge implements bus.Transport.
func (t transport) Purge(ctx context.Context, name, filter string, before uint64) error {
	s := t.c.b.streams[name]
	calls := asking("STREAM.PURGE." + name)
	_, err := call(ctx, t.c, nameOf("purge", s.config.Subjects[0]), filter, calls, func() (struct{}, error) {
		s.purge(filter, before)
		return struct{}{}, nil
	})
	if err != nil {
		return fmt.Errorf("fakebroker: purge %s: %w", name, err)
	}
	return nil
}

// Leader implements bus.Transport.
func (t transport) Leader(ctx context.Context, name string, q bus.Query) (bus.Record, error) {
	return t.one(ctx, name, q, asking("STREAM.MSG.GET."+name))
}

// Replica implements bus.Transport.
func (t transport) Replica(ctx context.Context, name string, q bus.Query) (bus.Record, error) {
	return t.one(ctx, name, q, asking("DIRECT.GET."+name))
}

func (t transport) one(ctx context.Context, name string, q bus.Query, n need) (bus.Record, error) {
	s := t.c.b.streams[name]
	method, subject := requestName(ctx, q)
	r, err := call(ctx, t.c, method, subject, n, func() (bus.Record, error) {
		s.age()
		var m *message
		switch {
		case q.Last != "":
			m = s.newest(q.Last)
		case q.Next != "":
			m = s.next(q.Next, q.Sequence)
		default:
			m = s.at(q.Sequence)
		}
		if m == nil {
			return bus.Record{}, bus.ErrGone
		}
		return m.record(), nil
	})
	if err != nil {
		return bus.Record{}, fmt.Errorf("fakebroker: read %s: %w", name, err)
	}
	return r, nil
}

// Batch implements bus.Transport.
func (t transport) Batch(ctx context.Context, name, filter string, from uint64) ([]bus.Record, error) {
	s := t.c.b.streams[name]
	method := watchName(ctx, nameOf("scan", filter))
	batch, err := call(ctx, t.c, method, filter, asking("DIRECT.GET."+name), func() ([]bus.Record, error) {
		var batch []bus.Record
		s.age()
		for m := s.next(filter, from); m != nil && len(batch) < batchSize; m = s.next(filter, m.sequence+1) {
			batch = append(batch, m.record())
		}
		return batch, nil
	})
	if err != nil {
		return nil, fmt.Errorf("fakebroker: read %s: %w", name, err)
	}
	return batch, nil
}

// Stream implements bus.Transport. To ask for the limits of reports takes no turn: they are the same from the
// beginning.
func (t transport) Stream(ctx context.Context, name string, _ bool) (*jetstream.StreamConfig, error) {
	config := t.c.b.streams[name].config
	if name == bus.StreamReports {
		return &config, nil
	}
	_, err := call(ctx, t.c, "CanRetain", name, asking("STREAM.INFO."+name), nothing)
	return &config, err
}

// nothing is what a question does that changes nothing, and whose answer is known.
func nothing() (struct{}, error) { return struct{}{}, nil }

// Waiting implements bus.Transport.
func (t transport) Waiting(ctx context.Context, name, durable string) (bus.Backlog, error) {
	of := t.c.b.streams[name].consumer
	b, err := call(ctx, t.c, "Backlog", name, asking("CONSUMER.INFO."+name+"."+durable),
		func() (bus.Backlog, error) { return of.backlog(), nil })
	if err != nil {
		return bus.Backlog{}, fmt.Errorf("fakebroker: state of the consumer of %s: %w", name, err)
	}
	return b, nil
}

package fakebroker

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/riffle-dp/riffle/internal/broker"
	"github.com/riffle-dp/riffle/internal/bus"
)

// PollAfter implements bus.Transport: the middle of what the network's draws at random.
func (transport) PollAfter() time.Duration { return 15 * time.Second }

// notices is one listener for the news that something was stored.
type notices struct {
	c      *Conn
	filter string
	token  chan struct{}
}

// Listen implements bus.Transport.
func (t transport) Listen(ctx context.Context, subject string) (context.Context, <-chan struct{}, func(), error) {
	c := t.c
	if c.life.Err() != nil {
		return nil, nil, nil, bus.ErrClosed
	}
	if err := c.may(need{broker.Watch, subject}); err != nil {
		return nil, nil, nil, err
	}
	heard, end := context.WithCancelCause(context.WithValue(ctx, watching{}, true))
	closed := context.AfterFunc(c.life, func() { end(bus.ErrClosed) })
	n := &notices{c, subject, make(chan struct{}, 1)}
	c.b.mu.Lock()
	c.b.notices = append(c.b.notices, n)
	c.b.mu.Unlock()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.told[n.token] = struct{}{}
	return heard, n.token, func() {
		c.mu.Lock()
		delete(c.told, n.token)
		c.mu.Unlock()
		c.b.mu.Lock()
		c.b.notices = slices.DeleteFunc(c.b.notices, func(have *notices) bool { return have == n })
		c.b.mu.Unlock()
		closed()
		end(nil)
	}, nil
}

// notify tells the listeners that a message was stored. The broker's lock is held.
func (b *Broker) notify(subject string) {
	notice := noticeOf(subject)
	if notice == "" {
		return
	}
	for _, n := range b.notices {
		connection, ok := n.c.connectionNow()
		if !ok || n.c.life.Err() != nil || !matches(n.filter, notice) {
			continue
		}
		op := n.c.opLocked("Notice", notice)
		b.run(func() {
			if b.before(connection, op) != Lose {
				tell(n.token)
			}
		})
	}
}

// noticeOf is the subject of the notice of a stored message; empty: none is sent.
func noticeOf(subject string) string {
	for _, r := range []struct {
		from, to string
		tokens   int
	}{
		{bus.SubjectAnnouncements, bus.SubjectAnnounced, 2},
		{bus.SubjectPrepared, bus.SubjectAnswered, 2},
		{bus.SubjectKeys, bus.SubjectRekeyed, 1},
	} {
		if name, ok := strings.CutPrefix(subject, r.from+"."); ok {
			return r.to + "." + strings.Join(strings.Split(name, ".")[:r.tokens], ".")
		}
	}
	return ""
}

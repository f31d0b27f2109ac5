package fakebroker

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/riffle-dp/riffle/internal/broker"
	"github.com/riffle-dp/riffle/internal/bus"
)

// server is who answers the requests on a subject. Several share them in turns.
type server struct {
	c        *Conn
	requests chan letter
}

// letter is a request with the way back.
type letter struct {
	payload []byte
	reply   func([]byte)
}

// Ask implements bus.Transport.
func (t transport) Ask(ctx context.Context, q bus.Question) ([]byte, error) {
	if len(q.Payload) > bus.MaxMessage {
		return nil, fmt.Errorf("%w: %d bytes, at most %d", bus.ErrTooLarge, len(q.Payload), bus.MaxMessage)
	}
	n, name := need{broker.Ask, q.Subject}, "EnrolOnce"
	switch {
	case q.Subject != bus.SubjectEnrol:
		n.access, name = broker.Within, "AskLead"
	case q.Repeat:
		name = "Enrol"
	}
	once := func() ([]byte, error) { return t.c.ask(ctx, t.c.op(name, q.Subject), n, q) }
	if q.Repeat {
		return repeat(ctx, t.c, once)
	}
	reply, err := once()
	switch {
	case err == nil, errors.Is(err, bus.ErrForbidden), errors.Is(err, q.Nobody):
		return reply, err
	case errors.Is(err, errAway):
		return nil, fmt.Errorf("fakebroker: ask %s: %w (%w)", q.Subject, q.Nobody, err)
	}
	return nil, fmt.Errorf("fakebroker: ask %s: %w (%w)", q.Subject, bus.ErrUnknown, err)
}

// ask makes a request of one role to another, once.
func (c *Conn) ask(ctx context.Context, op Op, n need, q bus.Question) ([]byte, error) {
	connection, err := c.ready(ctx, n)
	if err != nil {
		return nil, err
	}
	c.out.Add(1)
	answers := make(chan answer[[]byte], 1)
	var once sync.Once
	reply := func(a answer[[]byte]) {
		once.Do(func() {
			c.b.run(func() {
				if c.b.gate != nil && c.b.gate.After(connection, op) == Lose || connection.Err() != nil {
					return
				}
				c.in.Add(1)
				answers <- a
			})
		})
	}
	l := letter{bytes.Clone(q.Payload), func(b []byte) { reply(answer[[]byte]{value: bytes.Clone(b)}) }}
	c.b.run(func() {
		verdict := c.b.before(connection, op)
		if verdict == Lose {
			return
		}
		c.b.mu.Lock()
		defer c.b.mu.Unlock()
		if !c.b.forward(n.subject, l) {
			reply(answer[[]byte]{err: q.Nobody})
		} else if verdict == Twice {
			c.b.forward(n.subject, l)
		}
	})
	return await(ctx, c, connection, answers, q.Wait)
}

// run runs f at once where nothing decides on it, and beside the caller where a gate may hold it up.
func (b *Broker) run(f func()) {
	if b.gate == nil {
		f()
		return
	}
	go f()
}

// forward hands a request to one of those who answer; it is false where there is none.
func (b *Broker) forward(subject string, l letter) bool {
	all := b.servers[subject]
	i := slices.IndexFunc(all, func(s *server) bool {
		_, ok := s.c.connectionNow()
		return ok && s.c.life.Err() == nil
	})
	if i < 0 {
		return false
	}
	s := all[i]
	b.servers[subject] = append(slices.Delete(all, i, i+1), s)
	connection, _ := s.c.connectionNow()
	op := s.c.opLocked("Serve", subject)
	b.run(func() {
		verdict := b.before(connection, op)
		for n := times(verdict); n > 0; n-- {
			select {
			case s.requests <- letter{l.payload, func(reply []byte) {
				if connection.Err() == nil {
					l.reply(reply)
				}
			}}:
			default: // the client's buffer is full
			}
		}
	})
	return true
}

// times is how often something arrives.
func times(v Verdict) int {
	switch v {
	case Lose:
		return 0
	case Twice:
		return 2
	}
	return 1
}

// Serve implements bus.Transport.
func (t transport) Serve(ctx context.Context, of bus.Service, handler func(context.Context, []byte) []byte) error {
	c, n := t.c, need{broker.Serve, of.Subject}
	if of.Subject != bus.SubjectEnrol {
		n.access = broker.Within
	}
	if c.life.Err() != nil {
		return fmt.Errorf("fakebroker: serve %s: %w", of.Subject, bus.ErrClosed)
	}
	if err := c.may(n); err != nil {
		return err
	}
	s := &server{c, make(chan letter, of.Backlog)}
	c.b.mu.Lock()
	c.b.servers[of.Subject] = append(c.b.servers[of.Subject], s)
	c.b.mu.Unlock()
	var wg sync.WaitGroup
	for range max(of.Parallel, 1) {
		wg.Go(func() {
			for ctx.Err() == nil && c.life.Err() == nil {
				select {
				case <-ctx.Done():
				case <-c.life.Done():
				case l := <-s.requests:
					if reply := handler(ctx, l.payload); reply != nil {
						l.reply(reply)
					}
				}
			}
		})
	}
	select {
	case <-ctx.Done():
	case <-c.life.Done():
	}
	c.b.mu.Lock()
	c.b.servers[of.Subject] = slices.DeleteFunc(c.b.servers[of.Subject], func(have *server) bool { return have == s })
	c.b.mu.Unlock()
	wg.Wait()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return fmt.Errorf("fakebroker: serve %s: %w", of.Subject, bus.ErrClosed)
}

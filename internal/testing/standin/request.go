package standin

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/riffle-dp/riffle/internal/broker"
	"github.com/riffle-dp/riffle/internal/bus"
)

const (
	enrolTime    = 2 * time.Second // for the reply to one enrolment request that is repeated
	askTime      = 2 * time.Second // for the reply of a lead
	enrolBacklog = 4096            // requests that wait for a worker; what comes then is lost
	leadBacklog  = 1024
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

// ask makes a request of one role to another, once. missing is the error where nobody answers on the subject.
func (c *Conn) ask(ctx context.Context, op Op, n need, payload []byte, wait time.Duration, missing error) ([]byte,
	error) {
	if len(payload) > bus.MaxMessage {
		return nil, fmt.Errorf("%w: %d bytes, at most %d", bus.ErrTooLarge, len(payload), bus.MaxMessage)
	}
	session, err := c.ready(ctx, n)
	if err != nil {
		return nil, err
	}
	c.out.Add(1)
	answers := make(chan answer[[]byte], 1)
	var once sync.Once
	reply := func(a answer[[]byte]) {
		once.Do(func() {
			c.b.run(func() {
				if c.b.gate != nil && c.b.gate.After(session, op) == Lose || session.Err() != nil {
					return
				}
				c.in.Add(1)
				answers <- a
			})
		})
	}
	l := letter{bytes.Clone(payload), func(b []byte) { reply(answer[[]byte]{value: bytes.Clone(b)}) }}
	c.b.run(func() {
		verdict := c.b.before(session, op)
		if verdict == Lose {
			return
		}
		c.b.mu.Lock()
		defer c.b.mu.Unlock()
		if !c.b.forward(n.subject, l) {
			reply(answer[[]byte]{err: missing})
		} else if verdict == Twice {
			c.b.forward(n.subject, l)
		}
	})
	return await(ctx, c, session, answers, wait)
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
	i := slices.IndexFunc(all, func(s *server) bool { _, ok := s.c.connected(); return ok && s.c.life.Err() == nil })
	if i < 0 {
		return false
	}
	s := all[i]
	b.servers[subject] = append(slices.Delete(all, i, i+1), s)
	session, _ := s.c.connected()
	op := s.c.named("Serve", subject)
	b.run(func() {
		verdict := b.before(session, op)
		for n := times(verdict); n > 0; n-- {
			select {
			case s.requests <- letter{l.payload, func(reply []byte) {
				if session.Err() == nil {
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

// serve hands the requests on a subject to the handler, on this number of goroutines, until the context ends.
func (c *Conn) serve(ctx context.Context, n need, backlog, parallel int, handler func(letter)) error {
	if c.life.Err() != nil {
		return fmt.Errorf("standin: serve %s: %w", n.subject, bus.ErrClosed)
	}
	if err := c.may(n); err != nil {
		return err
	}
	s := &server{c, make(chan letter, backlog)}
	c.b.mu.Lock()
	c.b.servers[n.subject] = append(c.b.servers[n.subject], s)
	c.b.mu.Unlock()
	var wg sync.WaitGroup
	for range max(parallel, 1) {
		wg.Go(func() {
			for ctx.Err() == nil && c.life.Err() == nil {
				select {
				case <-ctx.Done():
				case <-c.life.Done():
				case l := <-s.requests:
					handler(l)
				}
			}
		})
	}
	select {
	case <-ctx.Done():
	case <-c.life.Done():
	}
	c.b.mu.Lock()
	c.b.servers[n.subject] = slices.DeleteFunc(c.b.servers[n.subject], func(have *server) bool { return have == s })
	c.b.mu.Unlock()
	wg.Wait()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return fmt.Errorf("standin: serve %s: %w", n.subject, bus.ErrClosed)
}

// Enrol is that of bus.Conn.
func (c *Conn) Enrol(ctx context.Context, payload []byte) ([]byte, error) {
	return repeat(ctx, c, func() ([]byte, error) {
		return c.ask(ctx, c.op("Enrol", bus.SubjectEnrol), need{broker.Ask, bus.SubjectEnrol}, payload, enrolTime,
			bus.ErrNoShuffler)
	})
}

// EnrolOnce is that of bus.Conn.
func (c *Conn) EnrolOnce(ctx context.Context, payload []byte) ([]byte, error) {
	reply, err := c.ask(ctx, c.op("EnrolOnce", bus.SubjectEnrol), need{broker.Ask, bus.SubjectEnrol}, payload, attemptTime,
		bus.ErrNoShuffler)
	switch {
	case err == nil:
		return reply, nil
	case errors.Is(err, errAway):
		return nil, fmt.Errorf("standin: enrol: %w (%w)", bus.ErrNoShuffler, err)
	case errors.Is(err, bus.ErrForbidden), errors.Is(err, bus.ErrNoShuffler), errors.Is(err, bus.ErrTooLarge):
		return nil, err
	}
	return nil, fmt.Errorf("standin: enrol: %w (%w)", bus.ErrUnknown, err)
}

// ServeEnrol is that of bus.Conn.
func (c *Conn) ServeEnrol(ctx context.Context, workers int,
	handler func(ctx context.Context, payload []byte) ([]byte, error)) error {
	return c.serve(ctx, need{broker.Serve, bus.SubjectEnrol}, enrolBacklog, workers, func(l letter) {
		if reply, err := handler(ctx, l.payload); err == nil {
			l.reply(reply)
		}
	})
}

// AskLead is that of bus.Conn.
func (c *Conn) AskLead(ctx context.Context, payload []byte) ([]byte, error) {
	subject := bus.SubjectLead + "." + string(c.role)
	reply, err := c.ask(ctx, c.op("AskLead", subject), need{broker.Within, subject}, payload, askTime, bus.ErrNoLead)
	switch {
	case err == nil:
		return reply, nil
	case errors.Is(err, errAway):
		return nil, fmt.Errorf("%w (%w)", bus.ErrNoLead, err)
	case errors.Is(err, bus.ErrForbidden), errors.Is(err, bus.ErrNoLead), errors.Is(err, bus.ErrTooLarge):
		return nil, err
	}
	return nil, fmt.Errorf("standin: ask the lead: %w (%w)", bus.ErrUnknown, err)
}

// ServeLead is that of bus.Conn.
func (c *Conn) ServeLead(ctx context.Context, parallel int,
	handler func(ctx context.Context, payload []byte) (reply []byte)) error {
	within := need{broker.Within, bus.SubjectLead + "." + string(c.role)}
	return c.serve(ctx, within, leadBacklog, parallel, func(l letter) {
		if reply := handler(ctx, l.payload); reply != nil {
			l.reply(reply)
		}
	})
}

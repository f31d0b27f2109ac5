package fakebroker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"github.com/riffle-dp/riffle/internal/broker"
	"github.com/riffle-dp/riffle/internal/bus"
)

// Times of *bus.Conn that its callers notice.
const (
	attemptTime = 5 * time.Second        // one try of one request
	firstPause  = 50 * time.Millisecond  // between tries, doubling
	maxPause    = 2 * time.Second        //
	redialPause = 200 * time.Millisecond // until a lost connection is there again
)

// Conn is a client's connection. Its handles are those of *bus.Conn, with the same errors, and with the rights that the
// table of package broker gives the role. It is safe for concurrent use.
type Conn struct {
	bus.Streams
	b      *Broker
	role   bus.Role
	client string

	life context.Context // ends with Close
	kill context.CancelFunc

	repeats, in, out, redials atomic.Uint64

	mu         sync.Mutex
	connection context.Context // ends with the connection
	cut        context.CancelFunc
	back       time.Time // when there is a connection again
	told       map[chan struct{}]struct{}
}

// Connect connects a client. Its name is also that of its user at the broker: two hosts have different ones. A process
// that is started again connects by the same name.
func (b *Broker) Connect(role bus.Role, client string) *Conn {
	c := &Conn{b: b, role: role, client: client, told: map[chan struct{}]struct{}{}}
	c.Streams = bus.Over(transport{c})
	c.life, c.kill = context.WithCancel(context.Background())
	c.connection, c.cut = context.WithCancel(c.life)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.conns[c] = struct{}{}
	return c
}

// transport is what the handles go over.
type transport struct{ c *Conn }

var _ bus.Transport = transport{}

// Role implements bus.Transport.
func (t transport) Role() bus.Role { return t.c.role }

// User implements bus.Transport.
func (t transport) User() string { return t.c.client }

// Log implements bus.Transport.
func (transport) Log() *zerolog.Logger { return &quiet }

var quiet = zerolog.Nop()

// Traffic implements bus.Transport. It counts messages: requests and answers, deliveries and acknowledgements, and no
// bytes.
func (t transport) Traffic() bus.Traffic {
	c := t.c
	return bus.Traffic{MessagesIn: c.in.Load(), MessagesOut: c.out.Load(), Reconnects: c.redials.Load(),
		Repeats: c.repeats.Load()}
}

// Close ends the connection as the end of its process does: running calls end with an error, nothing that is under way
// arrives, and what was delivered and not acknowledged is delivered again after its wait, to whoever asks then.
func (c *Conn) Close() {
	c.kill()
	c.b.mu.Lock()
	defer c.b.mu.Unlock()
	delete(c.b.conns, c)
}

// lose breaks the connection; it is made again by itself.
func (c *Conn) lose() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cut()
	c.connection, c.cut = context.WithCancel(c.life)
	c.back = time.Now().Add(redialPause)
	c.redials.Add(1)
	for ch := range c.told {
		tell(ch)
	}
}

// connectionNow is the connection that there is now; ok is false while it is made again.
func (c *Conn) connectionNow() (connection context.Context, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.connection, !time.Now().Before(c.back)
}

// tell leaves a token in a channel, if none is there.
func tell(ch chan struct{}) {
	select {
	case ch <- struct{}{}:
	default:
	}
}

// op names the next request of this name and subject.
func (c *Conn) op(name, subject string) Op {
	c.b.mu.Lock()
	defer c.b.mu.Unlock()
	return c.opLocked(name, subject)
}

// opLocked is op for who holds the broker's lock.
func (c *Conn) opLocked(name, subject string) Op {
	n := opName{c.client, name, subject}
	c.b.nth[n]++
	return Op{Client: c.client, Role: c.role, Name: name, Subject: subject, Nth: c.b.nth[n]}
}

// need is what the table of rights must grant for a request.
type need struct {
	access  broker.Access
	subject string
}

// asking is the right to a JetStream call.
func asking(subject string) need { return need{broker.Call, subject} }

// grants is the table of rights.
var grants = sync.OnceValue(broker.Grants)

// may reports whether the table grants it; the error is bus.ErrForbidden.
func (c *Conn) may(n need) error {
	for _, g := range grants() {
		if g.Role != c.role || g.Access != n.access {
			continue
		}
		subject := g.Subject
		if g.Own {
			subject = strings.TrimSuffix(subject, "*") + c.client
		}
		if matches(subject, n.subject) {
			return nil
		}
	}
	return fmt.Errorf("%w: %s may not use %s", bus.ErrForbidden, c.role, n.subject)
}

var (
	// errSilent: no answer came in time.
	errSilent = errors.New("fakebroker: no answer")
	// errAway: there is no connection. Nothing was sent.
	errAway = errors.New("fakebroker: not connected")
	// errLost: the connection was lost before the answer came.
	errLost = errors.New("fakebroker: connection lost")
	// errEnded: the caller's context ended before the answer came.
	errEnded = errors.New("fakebroker: the caller waits no longer")
)

// request is one request on its way.
type request[T any] struct {
	op   Op
	need need
	// do is what the broker does. It may be called twice, and after the client has given up. With the broker's lock
	// held.
	do func() (T, error)
}

type answer[T any] struct {
	value T
	err   error
}

// ready is the connection to send over, with the right to.
func (c *Conn) ready(ctx context.Context, n need) (connection context.Context, err error) {
	if c.life.Err() != nil {
		return nil, bus.ErrClosed
	}
	if ctx.Err() != nil {
		return nil, errEnded
	}
	if err := c.may(n); err != nil {
		return nil, err
	}
	connection, ok := c.connectionNow()
	if !ok {
		return nil, errAway
	}
	return connection, nil
}

// try makes a request once.
func try[T any](ctx context.Context, c *Conn, r request[T]) (T, error) {
	connection, err := c.ready(ctx, r.need)
	if err != nil {
		var none T
		return none, err
	}
	c.out.Add(1)
	answers := make(chan answer[T], 1)
	c.b.run(func() {
		if a, ok := travel(connection, c, r); ok {
			answers <- a
		}
	})
	return await(ctx, c, connection, answers, attemptTime)
}

// await waits for the answer to a request.
func await[T any](ctx context.Context, c *Conn, connection context.Context, answers <-chan answer[T],
	wait time.Duration) (T, error) {
	var none T
	silence := time.NewTimer(wait)
	defer silence.Stop()
	select {
	case a := <-answers:
		return a.value, a.err
	default:
	}
	select {
	case a := <-answers:
		return a.value, a.err
	case <-silence.C:
		return none, errSilent
	case <-ctx.Done():
		return none, errEnded
	case <-connection.Done():
		if c.life.Err() != nil {
			return none, bus.ErrClosed
		}
		return none, errLost
	}
}

// travel takes a request to the broker and its answer back. It is false where no answer arrives.
func travel[T any](connection context.Context, c *Conn, r request[T]) (answer[T], bool) {
	var a answer[T]
	verdict := c.b.before(connection, r.op)
	if verdict == Lose {
		return a, false
	}
	c.b.mu.Lock()
	if connection.Err() != nil {
		c.b.mu.Unlock()
		return a, false
	}
	a.value, a.err = r.do()
	if verdict == Twice {
		_, _ = r.do() // whoever sent it hears the first answer
	}
	c.b.mu.Unlock()
	if c.b.gate != nil && c.b.gate.After(connection, r.op) == Lose || connection.Err() != nil {
		return a, false
	}
	c.in.Add(1)
	return a, true
}

// before asks the gate; Lose also where the connection ended meanwhile.
func (b *Broker) before(connection context.Context, op Op) Verdict {
	if b.gate == nil {
		return Pass
	}
	v := b.gate.Before(connection, op)
	if connection.Err() != nil {
		return Lose
	}
	return v
}

// unanswered are the ends of a try after which a call is repeated.
var unanswered = []error{errSilent, errAway, errLost, errEnded, bus.ErrNoShuffler}

func passing(err error) bool {
	return slices.ContainsFunc(unanswered, func(e error) bool { return errors.Is(err, e) })
}

// call makes a request again and again, as bus does, until there is a final answer or the context ends.
func call[T any](ctx context.Context, c *Conn, name, subject string, n need, do func() (T, error)) (T, error) {
	return repeat(ctx, c, func() (T, error) {
		return try(ctx, c, request[T]{op: c.op(name, subject), need: n, do: do})
	})
}

func repeat[T any](ctx context.Context, c *Conn, once func() (T, error)) (T, error) {
	var none T
	pause := firstPause
	for {
		v, err := once()
		if err == nil {
			return v, nil
		}
		if !passing(err) {
			return none, err
		}
		if c.life.Err() != nil {
			return none, fmt.Errorf("%w (%w)", bus.ErrClosed, err)
		}
		if ctx.Err() != nil || !sleep(ctx, c.life, &pause) {
			if c.life.Err() != nil && ctx.Err() == nil {
				return none, fmt.Errorf("%w (%w)", bus.ErrClosed, err)
			}
			return none, fmt.Errorf("%w: %w (%w)", bus.ErrUnknown, context.Cause(ctx), err)
		}
		c.repeats.Add(1)
	}
}

// sleep waits a pause and doubles it. It is false when one of the contexts ended.
func sleep(ctx, life context.Context, pause *time.Duration) bool {
	t := time.NewTimer(*pause)
	defer t.Stop()
	*pause = min(2**pause, maxPause)
	select {
	case <-ctx.Done():
		return false
	case <-life.Done():
		return false
	case <-t.C:
		return ctx.Err() == nil
	}
}

// send takes to the broker what the client does not wait for.
func (c *Conn) send(name, subject string, n need, do func()) error {
	if c.life.Err() != nil {
		return bus.ErrClosed
	}
	connection, ok := c.connectionNow()
	if !ok {
		return errAway
	}
	if c.may(n) != nil {
		return nil // the broker drops it and says so to nobody who waits
	}
	c.out.Add(1)
	op := c.op(name, subject)
	c.b.run(func() {
		verdict := c.b.before(connection, op)
		c.b.mu.Lock()
		defer c.b.mu.Unlock()
		if verdict == Lose || connection.Err() != nil {
			return
		}
		do()
		if verdict == Twice {
			do()
		}
	})
	return nil
}

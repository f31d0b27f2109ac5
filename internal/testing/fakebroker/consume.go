package fakebroker

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/riffle-dp/riffle/internal/broker"
	"github.com/riffle-dp/riffle/internal/bus"
)

// incoming is what comes to one reader of a consumer.
type incoming struct {
	c          *Conn
	of         *consumer
	connection context.Context
	p          *pull

	mu      sync.Mutex
	way     []sent        // left the broker, not here yet
	here    []handed      // not handed over yet
	moved   chan struct{} // holds a token when something left the broker
	arrived chan struct{} // and when something came
}

// sent is a delivery that the gate has not decided on.
type sent struct {
	op Op
	handed
}

// attach asks the consumer of a stream for so many messages, until the context or the connection ends.
func (c *Conn) attach(ctx context.Context, stream string, ahead int) *incoming {
	connection, _ := c.connectionNow()
	in := &incoming{c: c, of: c.b.streams[stream].consumer, connection: connection, moved: make(chan struct{}, 1),
		arrived: make(chan struct{}, 1)}
	in.p = &pull{room: ahead, give: in.give, alive: func() bool { return connection.Err() == nil }}
	if c.b.gate != nil {
		go in.carry(ctx)
	}
	c.b.mu.Lock()
	defer c.b.mu.Unlock()
	in.of.ask(in.p)
	return in
}

// give takes a message from the broker, which holds its lock.
func (in *incoming) give(h handed) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.c.b.gate == nil {
		in.here = append(in.here, h)
		tell(in.arrived)
		return
	}
	in.way = append(in.way, sent{in.c.opLocked("Deliver", place(in.of, h.m.sequence)), h})
	tell(in.moved)
}

// carry takes deliveries past the gate, one after the other.
func (in *incoming) carry(ctx context.Context) {
	for {
		in.mu.Lock()
		if len(in.way) == 0 {
			in.mu.Unlock()
			select {
			case <-in.moved:
				continue
			case <-ctx.Done():
				return
			case <-in.connection.Done():
				return
			}
		}
		next := in.way[0]
		in.way = in.way[1:]
		in.mu.Unlock()
		verdict := in.c.b.before(in.connection, next.op)
		if verdict == Lose {
			in.more(1)
			continue
		}
		in.mu.Lock()
		in.here = append(in.here, next.handed)
		if verdict == Twice {
			in.here = append(in.here, next.handed)
		}
		in.mu.Unlock()
		tell(in.arrived)
	}
}

// more asks for so many more messages.
func (in *incoming) more(n int) {
	in.c.b.mu.Lock()
	defer in.c.b.mu.Unlock()
	in.of.more(in.p, n)
}

// next waits for a message. It is false when one of the contexts ended, or the connection.
func (in *incoming) next(ctx context.Context) (handed, bool) {
	for ctx.Err() == nil && in.c.life.Err() == nil {
		if h, ok := in.pop(); ok {
			return h, true
		}
		select {
		case <-in.arrived:
		case <-ctx.Done():
		case <-in.connection.Done():
			return in.pop()
		}
	}
	return handed{}, false
}

func (in *incoming) pop() (handed, bool) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if len(in.here) == 0 {
		return handed{}, false
	}
	h := in.here[0]
	in.here = in.here[1:]
	return h, true
}

// leave asks for no more, and sends back what was not handed over.
func (in *incoming) leave() {
	in.c.b.mu.Lock()
	in.of.leave(in.p)
	in.c.b.mu.Unlock()
	for h, ok := in.pop(); ok; h, ok = in.pop() {
		_ = in.settler(h).NakWithDelay(0) // without it the broker waits for the ack wait
	}
}

// place names a message of a consumer.
func place(of *consumer, sequence uint64) string {
	return of.s.config.Name + "." + strconv.FormatUint(sequence, 10)
}

// settler is what settles a message.
func (in *incoming) settler(h handed) *settler {
	return &settler{c: in.c, of: in.of, sequence: h.m.sequence}
}

// settler is a bus.Settler of one delivery.
type settler struct {
	c        *Conn
	of       *consumer
	sequence uint64

	mu   sync.Mutex
	done bool
}

// Ack implements bus.Settler.
func (s *settler) Ack() error { return s.end("Ack", func() { s.of.ack(s.sequence) }) }

// NakWithDelay implements bus.Settler.
func (s *settler) NakWithDelay(after time.Duration) error {
	return s.end("Retry", func() { s.of.retry(s.sequence, after) })
}

// InProgress implements bus.Settler.
func (s *settler) InProgress() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.done {
		return jetstream.ErrMsgAlreadyAckd
	}
	return s.say("InHand", func() { s.of.inHand(s.sequence) })
}

func (s *settler) end(name string, do func()) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.done {
		return jetstream.ErrMsgAlreadyAckd
	}
	err := s.say(name, do)
	s.done = err == nil
	return err
}

func (s *settler) say(name string, do func()) error {
	acks := need{broker.Publish, "$JS.ACK." + s.of.s.config.Name + "." + s.of.config.Durable + ".1"}
	return s.c.send(name, place(s.of, s.sequence), acks, do)
}

// arrival is a delivery as a client gets it.
func (in *incoming) arrival(h handed) bus.Arrival {
	return bus.Arrival{Record: h.m.record(), Redelivered: h.count > 1, Wait: in.of.config.AckWait,
		Settler: in.settler(h)}
}

// look is the question for a consumer, with which reading begins.
func (c *Conn) look(ctx context.Context, stream, durable string) error {
	if err := c.may(asking("CONSUMER.MSG.NEXT." + stream + "." + durable)); err != nil {
		return err
	}
	name := nameOf("consume", c.b.streams[stream].config.Subjects[0])
	_, err := call(ctx, c, name, stream, asking("CONSUMER.INFO."+stream+"."+durable), nothing)
	return err
}

// Consume implements bus.Transport.
func (t transport) Consume(ctx context.Context, stream, durable string, ahead int, fn func(bus.Arrival) bool) error {
	c := t.c
	for {
		if err := c.look(ctx, stream, durable); err != nil {
			return endOf(ctx, stream, err)
		}
		reading, stop := context.WithCancel(ctx)
		in := c.attach(reading, stream, ahead)
		asked := ahead
		for h, ok := in.next(ctx); ok; h, ok = in.next(ctx) {
			if !fn(in.arrival(h)) {
				// nobody stores such a message here
				panic(fmt.Sprintf("fakebroker: %s is no name of %s", h.m.subject, stream))
			}
			if asked--; 2*asked < ahead { // nats.go asks again when less than half is under way
				in.more(ahead - asked)
				asked = ahead
			}
		}
		stop()
		in.leave()
		pause := firstPause
		if !sleep(ctx, c.life, &pause) {
			return endOf(ctx, stream, bus.ErrClosed)
		}
	}
}

// endOf is how reading a consumer ends.
func endOf(ctx context.Context, stream string, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return fmt.Errorf("fakebroker: consume %s: %w", stream, err)
}

// Work implements bus.Transport.
func (t transport) Work(ctx context.Context, stream, durable string, parallel int, fn func(bus.Arrival)) error {
	c := t.c
	if c.b.streams[stream] == nil {
		return fmt.Errorf("%w: %s has no workers", bus.ErrForbidden, c.role)
	}
	if err := c.look(ctx, stream, durable); err != nil {
		return endOf(ctx, stream, err)
	}
	var wg sync.WaitGroup
	for range max(parallel, 1) {
		wg.Go(func() { c.work(ctx, stream, fn) })
	}
	wg.Wait()
	return endOf(ctx, stream, bus.ErrClosed)
}

// work does one task after the other.
func (c *Conn) work(ctx context.Context, stream string, fn func(bus.Arrival)) {
	for {
		reading, stop := context.WithCancel(ctx)
		in := c.attach(reading, stream, 1)
		for h, ok := in.next(ctx); ok; h, ok = in.next(ctx) {
			fn(in.arrival(h))
			in.more(1)
		}
		stop()
		in.leave()
		if pause := firstPause; !sleep(ctx, c.life, &pause) {
			return
		}
	}
}

package standin

import (
	"bytes"
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/riffle-dp/riffle/internal/broker"
	"github.com/riffle-dp/riffle/internal/bus"
)

// How many messages *bus.Conn asks for ahead.
const (
	reportsAhead = 1024
	chunksAhead  = 4
)

// asking is the right to a JetStream call.
func asking(subject string) need { return need{broker.Call, subject} }

// incoming is what comes to one reader of a consumer.
type incoming struct {
	c       *Conn
	of      *consumer
	session context.Context
	p       *pull

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
	session, _ := c.connected()
	in := &incoming{c: c, of: c.b.streams[stream].consumer, session: session, moved: make(chan struct{}, 1),
		arrived: make(chan struct{}, 1)}
	in.p = &pull{room: ahead, give: in.give, alive: func() bool { return session.Err() == nil }}
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
	in.way = append(in.way, sent{in.c.named("Deliver", place(in.of, h.m.sequence)), h})
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
			case <-in.session.Done():
				return
			}
		}
		next := in.way[0]
		in.way = in.way[1:]
		in.mu.Unlock()
		verdict := in.c.b.before(in.session, next.op)
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
		case <-in.session.Done():
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
		_ = in.settles(h).NakWithDelay(0) // without it the broker waits for the ack wait
	}
}

// place names a message of a consumer.
func place(of *consumer, sequence uint64) string {
	return of.s.config.Name + "." + strconv.FormatUint(sequence, 10)
}

// settles is what settles a message.
func (in *incoming) settles(h handed) *settler {
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

// look is the question for a consumer, with which reading begins.
func (c *Conn) look(ctx context.Context, method, stream string) error {
	durable := c.b.streams[stream].consumer.config.Durable
	if err := c.may(asking("CONSUMER.MSG.NEXT." + stream + "." + durable)); err != nil {
		return err
	}
	_, err := call(ctx, c, method, stream, asking("CONSUMER.INFO."+stream+"."+durable),
		func() (struct{}, error) { return struct{}{}, nil })
	return err
}

// consume hands the messages of a durable consumer to fn, one after the other, until the context ends.
func (c *Conn) consume(ctx context.Context, method, stream string, ahead int, fn func(handed, *settler)) error {
	for {
		if err := c.look(ctx, method, stream); err != nil {
			return ended(ctx, stream, err)
		}
		reading, stop := context.WithCancel(ctx)
		in := c.attach(reading, stream, ahead)
		asked := ahead
		for h, ok := in.next(ctx); ok; h, ok = in.next(ctx) {
			fn(h, in.settles(h))
			if asked--; 2*asked < ahead { // nats.go asks again when less than half is under way
				in.more(ahead - asked)
				asked = ahead
			}
		}
		stop()
		in.leave()
		pause := firstPause
		if !sleep(ctx, c.life, &pause) {
			return ended(ctx, stream, bus.ErrClosed)
		}
	}
}

// ended is how reading a consumer ends.
func ended(ctx context.Context, stream string, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return fmt.Errorf("standin: consume %s: %w", stream, err)
}

// Reports is that of bus.Conn.
func (c *Conn) Reports(ctx context.Context, handler func(*bus.Delivery)) error {
	return c.consume(ctx, "Reports", bus.StreamReports, reportsAhead, func(h handed, s *settler) {
		handler(delivery(h, s, h.m.round))
	})
}

// delivery is one message of the round of a name <epoch>.<round>[...].
func delivery(h handed, s *settler, name string) *bus.Delivery {
	d := bus.Delivery{Sequence: h.m.sequence, Redelivered: h.count > 1, Payload: bytes.Clone(h.m.data)}
	if _, err := fmt.Sscanf(name, "%d.%d", &d.Epoch, &d.Round); err != nil {
		panic(fmt.Sprintf("standin: %s names no round", name))
	}
	return bus.NewDelivery(d, s)
}

// Mixed is that of bus.Conn.
func (c *Conn) Mixed(ctx context.Context, handler func(*bus.Mixed)) error {
	return c.consume(ctx, "Mixed", bus.StreamMixed, chunksAhead, func(h handed, s *settler) {
		if name, ok := strings.CutPrefix(h.m.subject, bus.SubjectManifest+"."); ok {
			handler(&bus.Mixed{Delivery: *delivery(h, s, name), Manifest: true})
			return
		}
		name := strings.TrimPrefix(h.m.subject, bus.SubjectMixed+".")
		handler(&bus.Mixed{Delivery: *delivery(h, s, name), Index: indexOf(h.m.subject)})
	})
}

// Backlog is that of bus.Conn.
func (c *Conn) Backlog(ctx context.Context) (bus.Backlog, error) {
	b, err := call(ctx, c, "Backlog", bus.StreamReports,
		asking("CONSUMER.INFO."+bus.StreamReports+"."+bus.ConsumerReports),
		func() (bus.Backlog, error) { return c.b.streams[bus.StreamReports].consumer.backlog(), nil })
	if err != nil {
		return bus.Backlog{}, fmt.Errorf("standin: backlog of reports: %w", err)
	}
	return b, nil
}

// Tasks is that of bus.Conn.
func (c *Conn) Tasks(ctx context.Context, parallel int, handler func(*bus.Task)) error {
	stream := bus.StreamTasks + string(c.role)
	if c.b.streams[stream] == nil {
		return fmt.Errorf("%w: %s has no workers", bus.ErrForbidden, c.role)
	}
	if err := c.look(ctx, "Tasks", stream); err != nil {
		return ended(ctx, stream, err)
	}
	var wg sync.WaitGroup
	for range max(parallel, 1) {
		wg.Go(func() { c.work(ctx, stream, handler) })
	}
	wg.Wait()
	return ended(ctx, stream, bus.ErrClosed)
}

// work does one task after the other.
func (c *Conn) work(ctx context.Context, stream string, handler func(*bus.Task)) {
	for {
		reading, stop := context.WithCancel(ctx)
		in := c.attach(reading, stream, 1)
		for h, ok := in.next(ctx); ok; h, ok = in.next(ctx) {
			handler(bus.NewTask(bus.Task{Payload: bytes.Clone(h.m.data), Redelivered: h.count > 1,
				Wait: in.of.config.AckWait}, in.settles(h)))
			in.more(1)
		}
		stop()
		in.leave()
		if pause := firstPause; !sleep(ctx, c.life, &pause) {
			return
		}
	}
}

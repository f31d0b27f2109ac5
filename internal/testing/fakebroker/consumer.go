package fakebroker

import (
	"slices"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/riffle-dp/riffle/internal/bus"
)

// consumer is a durable pull consumer with explicit acknowledgement. The broker's lock guards it.
type consumer struct {
	s      *stream
	config jetstream.ConsumerConfig

	next    uint64 // sequence from which on nothing was delivered
	floor   uint64 // everything up to it is acknowledged or gone
	pending map[uint64]*delivered
	again   []uint64 // of pending: to be delivered again, in this order
	counts  map[uint64]int
	pulls   []*pull // who asked for messages, the next to be served first
	timer   *time.Timer
}

// delivered is a message that waits for its acknowledgement.
type delivered struct {
	since time.Time
}

// pull is a client's request for messages.
type pull struct {
	room  int // how many more it takes
	give  func(handed)
	alive func() bool // false when the client's connection is gone
}

// handed is one delivery to a client.
type handed struct {
	m     *message
	count int // how often it was delivered, this time included
}

// wants reports whether a request can be served.
func wants(p *pull) bool { return p.room > 0 && p.alive() }

func newConsumer(s *stream, config jetstream.ConsumerConfig) *consumer {
	return &consumer{s: s, config: config, next: 1, pending: map[uint64]*delivered{}, counts: map[uint64]int{}}
}

// dispatch delivers what is there to those who asked, in turns.
func (c *consumer) dispatch() {
	for {
		i := slices.IndexFunc(c.pulls, wants)
		if i < 0 {
			break
		}
		h, ok := c.take()
		if !ok {
			break
		}
		p := c.pulls[i]
		c.pulls = append(slices.Delete(c.pulls, i, i+1), p)
		p.room--
		p.give(h)
	}
	c.arm()
}

// take takes the next message for delivery: what comes again before what is new.
func (c *consumer) take() (handed, bool) {
	for len(c.again) > 0 {
		sequence := c.again[0]
		c.again = c.again[1:]
		if m := c.s.at(sequence); m != nil && c.pending[sequence] != nil {
			return c.hand(m), true
		}
		c.remove(sequence)
	}
	if len(c.pending) >= c.config.MaxAckPending {
		return handed{}, false
	}
	m := c.s.next("", c.next)
	if m == nil {
		return handed{}, false
	}
	c.next = m.sequence + 1
	return c.hand(m), true
}

func (c *consumer) hand(m *message) handed {
	c.pending[m.sequence] = &delivered{since: c.s.b.now()}
	c.counts[m.sequence]++
	return handed{m, c.counts[m.sequence]}
}

// ask adds a request of a client.
func (c *consumer) ask(p *pull) {
	c.expire()
	c.pulls = append(c.pulls, p)
	c.dispatch()
}

// more says that a client takes so many more messages.
func (c *consumer) more(p *pull, n int) {
	p.room += n
	c.expire()
	c.dispatch()
}

// leave ends a client's request.
func (c *consumer) leave(p *pull) {
	c.pulls = slices.DeleteFunc(c.pulls, func(have *pull) bool { return have == p })
}

// ack is the end of a message for this consumer.
func (c *consumer) ack(sequence uint64) {
	if c.pending[sequence] == nil {
		return
	}
	m, counted := c.s.at(sequence), c.counts[sequence]
	done := c.config.AckPolicy == jetstream.AckExplicitPolicy && c.s.config.Retention == jetstream.WorkQueuePolicy
	c.remove(sequence)
	c.s.b.noteWrite(false, func() {
		if m == nil {
			return
		}
		if done {
			c.s.bring([]*message{m})
		}
		if c.s.at(sequence) == m { // it was not purged since
			c.pending[sequence], c.counts[sequence] = &delivered{since: c.s.b.now()}, counted
			c.floor = min(c.floor, sequence-1)
		}
	})
	if done {
		c.s.drop(func(old *message) bool { return old == m })
	}
	c.expire()
	c.dispatch()
}

// remove removes a message from what is pending.
func (c *consumer) remove(sequence uint64) {
	delete(c.pending, sequence)
	delete(c.counts, sequence)
	c.again = slices.DeleteFunc(c.again, func(s uint64) bool { return s == sequence })
	c.lift()
}

// lift moves the floor up to below what is pending.
func (c *consumer) lift() {
	floor := c.next - 1
	for sequence := range c.pending {
		floor = min(floor, sequence-1)
	}
	c.floor = max(c.floor, floor)
}

// retry has a message delivered again after a pause.
func (c *consumer) retry(sequence uint64, after time.Duration) {
	d := c.pending[sequence]
	if d == nil {
		return
	}
	c.again = slices.DeleteFunc(c.again, func(s uint64) bool { return s == sequence })
	d.since = c.s.b.now().Add(after - c.config.AckWait)
	c.expire()
	c.dispatch()
}

// inHand begins the wait for a message's acknowledgement anew.
func (c *consumer) inHand(sequence uint64) {
	if d := c.pending[sequence]; d != nil {
		d.since = c.s.b.now()
	}
	c.expire()
	c.dispatch()
}

// expire puts in line for delivery what was waited for long enough, in the order of the stream.
func (c *consumer) expire() {
	now := c.s.b.now()
	var late []uint64
	for sequence, d := range c.pending {
		if now.Sub(d.since) >= c.config.AckWait && !slices.Contains(c.again, sequence) {
			late = append(late, sequence)
		}
	}
	slices.Sort(late)
	c.again = append(c.again, late...)
}

// arm sets the clock for the next wait that ends. Where nobody asks for messages, nobody misses them.
func (c *consumer) arm() {
	if c.timer != nil {
		c.timer.Stop()
		c.timer = nil
	}
	if !slices.ContainsFunc(c.pulls, wants) {
		return
	}
	now, first := c.s.b.now(), time.Duration(-1)
	for sequence, d := range c.pending {
		left := c.config.AckWait - now.Sub(d.since)
		if !slices.Contains(c.again, sequence) && (first < 0 || left < first) {
			first = max(left, 0)
		}
	}
	if first < 0 {
		return
	}
	c.timer = time.AfterFunc(first, func() {
		c.s.b.mu.Lock()
		defer c.s.b.mu.Unlock()
		c.expire()
		c.dispatch()
	})
}

// forgetPurged forgets what the stream has dropped.
func (c *consumer) forgetPurged() {
	c.next = max(c.next, c.s.first)
	for sequence := range c.pending {
		if c.s.at(sequence) == nil {
			c.remove(sequence)
		}
	}
	c.floor = max(c.floor, c.s.first-1)
	c.lift()
	c.dispatch()
}

// recover is what a start of the broker does: nobody has asked yet, and what was delivered is waited for on.
func (c *consumer) recover() {
	c.pulls = nil
	c.next = min(c.next, c.s.last+1)
	for sequence := range c.pending {
		if c.s.at(sequence) == nil {
			c.remove(sequence)
		}
	}
	c.floor = min(c.floor, c.next-1)
	c.arm()
}

// backlog is what waits for the consumer's readers.
func (c *consumer) backlog() bus.Backlog {
	c.expire()
	b := bus.Backlog{Waiting: len(c.pending), Floor: c.floor, Sent: c.next - 1}
	for _, m := range c.s.messages {
		if m.sequence >= c.next {
			b.Waiting++
		}
	}
	return b
}

// Package fakebroker is a broker in memory for tests of the roles: what a *bus.Conn gives over a network, from streams
// that follow the rules of the real ones. A test decides through a Gate what happens to each request and each delivery,
// so that it plays losses, delays, repetitions and crashes in an order of its choosing. Inside a bubble of
// testing/synctest nothing here takes real time.
//
// The suite of this package runs on the fake and on the real server. Where they differ, the fake is wrong.
package fakebroker

import (
	"bytes"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/riffle-dp/riffle/internal/bus"
)

// Broker keeps streams in memory as the real broker with Riffle's streams would. Its methods may be called from many
// goroutines.
type Broker struct {
	now       func() time.Time
	gate      Gate // nil: everything passes at once
	syncEvery time.Duration

	mu      sync.Mutex
	streams map[string]*stream
	conns   map[*Conn]struct{} // not closed
	servers map[string][]*server
	notices []*notices
	nth     map[opName]uint64 // how many ops had this name; goes on where a client connects again
	full    bool
	writes  []write // that a loss of power takes back, oldest first
}

// Options says how a broker behaves.
type Options struct {
	// Now is the time by which ages, duplicate windows and ack waits are counted; nil: time.Now. The broker waits by
	// the time package: where Now jumps forward, what is due by then is done with the next call.
	Now  func() time.Time
	Gate Gate // nil: lets everything pass at once
	// Streams are the limits and times of the streams; their zero value is the documented default.
	Streams bus.ProvisionOptions
	// SyncEvery is how often what was acknowledged is synced to the disk; 0: before each acknowledgement, as Riffle
	// configures its brokers (sync_interval: always). The server's own default is two minutes.
	SyncEvery time.Duration
}

// Gate decides what happens to each call of a client and to each delivery. Both methods may block until they decide,
// and must return when the context ends, with a verdict that nobody looks at: the client was closed, or the broker
// crashed. They are called from several goroutines, one for each op.
//
// An op of a client is one request on the wire. The client repeats it as *bus.Conn does, when it had no answer for as
// long as bus waits: each repetition is another op. A request that was held up longer than that still arrives, late.
type Gate interface {
	// Before is asked before the broker has seen a request, and before a delivery or a notice leaves it. A message is
	// counted as delivered by then: where the delivery is lost, the message comes again after the ack wait.
	Before(ctx context.Context, op Op) Verdict
	// After is asked after a request was done and before the client hears so. Deliveries, notices, and what a client
	// does not wait for (Ack, Retry, InHand) have no After.
	After(ctx context.Context, op Op) Verdict
}

// Op is one request, or one delivery.
type Op struct {
	Client string // as given to Connect
	Role   bus.Role
	// Name is the method of the client: "PublishReport", ... ; "Deliver" is a delivery to it, "Notice" the news that
	// something was stored, "Ack", "Retry" and "InHand" what it does with a delivery, "Serve" a request that it is to
	// answer.
	Name string
	// Subject is what it is about: where the real subject ends in a digest or in a random name, without that.
	Subject string
	// Nth counts from 1 the ops of this client with this name and subject: it names an op without its random bytes.
	Nth uint64
}

type opName struct{ client, name, subject string }

// Verdict is what becomes of an op.
type Verdict int

const (
	Pass Verdict = iota
	// Lose: it does not arrive. Before: it is not done. After: it was done, and the answer is lost. The client sees
	// neither.
	Lose
	// Twice: it arrives two times, one right after the other. An answer that arrives twice is no other than one that
	// arrives once.
	Twice
)

// New makes a broker with empty streams.
func New(o Options) *Broker {
	b := &Broker{now: o.Now, gate: o.Gate, syncEvery: o.SyncEvery, streams: map[string]*stream{},
		conns: map[*Conn]struct{}{}, servers: map[string][]*server{}, nth: map[opName]uint64{}}
	if b.now == nil {
		b.now = time.Now
	}
	o.Streams.Workers = true
	consumers := o.Streams.Consumers()
	for _, config := range o.Streams.Streams() {
		s := newStream(b, config)
		if c, ok := consumers[config.Name]; ok {
			s.consumer = newConsumer(s, c)
		}
		b.streams[config.Name] = s
	}
	return b
}

// Fill makes the broker refuse what is to be stored, with bus.ErrFull, until it is called again with false.
func (b *Broker) Fill(full bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.full = full
}

// Holds reports whether a message with this payload is stored in a stream.
func (b *Broker) Holds(name string, payload []byte) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.ContainsFunc(b.streams[name].messages, func(m *message) bool {
		return m != nil && bytes.Equal(m.data, payload)
	})
}

// Crash is the end of the broker's process and its start again: all connections are lost and made again, what was
// under way is gone, and what was stored is there. Message ids are known as far as their messages are stored.
func (b *Broker) Crash() { b.LoseUnsynced(0) }

// LoseUnsynced is a loss of power: a crash after which the last n writes that were acknowledged and not synced are
// gone, as if they had never been. Acknowledgements of deliveries are such writes, too, whatever is synced.
func (b *Broker) LoseUnsynced(n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.forgetSynced()
	for ; n > 0 && len(b.writes) > 0; n-- {
		last := b.writes[len(b.writes)-1]
		b.writes = b.writes[:len(b.writes)-1]
		last.undo()
	}
	b.writes = nil // what is left is on the disk when the broker has started
	for _, s := range b.streams {
		s.recover()
	}
	for c := range b.conns {
		c.lose()
	}
}

// write is one change that a loss of power may take back.
type write struct {
	at   time.Time
	undo func()
}

// noteWrite notes a change. Synced are those that are on the disk before they are acknowledged where every write is
// synced.
func (b *Broker) noteWrite(synced bool, undo func()) {
	if synced && b.syncEvery == 0 {
		return
	}
	b.forgetSynced()
	b.writes = append(b.writes, write{b.now(), undo})
}

// lazily is how old an acknowledgement of a delivery gets at most before it is on the disk.
const lazily = 2 * time.Minute

// forgetSynced forgets how to take back what is on the disk by now.
func (b *Broker) forgetSynced() {
	every := b.syncEvery
	if every == 0 {
		every = lazily
	}
	limit := b.now().Add(-every)
	for len(b.writes) > 0 && b.writes[0].at.Before(limit) {
		b.writes[0].undo = nil
		b.writes = b.writes[1:]
	}
}

package main

import (
	"bufio"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"time"
)

// State is how a link is.
type State string

// The states of a link.
const (
	Open   State = "open"
	Cut    State = "cut"    // connections end, and no new one comes about
	Silent State = "silent" // connections stay and nothing passes, in either direction
)

// Stop is where a link stops: at the Nth message from now on whose subject begins with Subject.
type Stop struct {
	ID, Link string
	Subject  string
	ToRole   bool // messages to the role; else those to the broker
	// Answered lets the message through and stops at the broker's answer to it: the message is stored, and who sent it
	// does not know.
	Answered bool
	Nth      int

	hit     chan struct{} // closed when the message came
	over    chan struct{} // closed when it is released
	dropped bool          // before over is closed: the message does not go
	twice   bool          // and: it goes twice, as one does whose acknowledgement was lost
	seen    int
	done    bool
}

// Kept is a message that passed to the broker.
type Kept struct {
	Link, Subject string
	Header        string
	Payload       []byte
}

// keep lists the subjects whose messages the tap keeps.
var keep = []string{"riffle.v1.report.", "riffle.v1.mixed."}

// dialing is the longest time that a connection to the broker may take.
const dialing = 5 * time.Second

var errDropped = errors.New("the message was dropped")

type tap struct {
	broker    string
	near, far *tls.Config // towards the roles, and towards the broker
	links     map[string]*link
	mu        sync.Mutex
	stops     []*Stop
	kept      []Kept
}

func newTap(broker string, near, far *tls.Config) *tap {
	return &tap{broker: broker, near: near, far: far, links: map[string]*link{}}
}

func (t *tap) arm(s *Stop) {
	s.hit, s.over, s.Nth = make(chan struct{}), make(chan struct{}), max(s.Nth, 1)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.stops = append(slices.DeleteFunc(t.stops, func(old *Stop) bool { return old.done }), s)
}

func (t *tap) stop(id string) *Stop {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, s := range t.stops {
		if s.ID == id {
			return s
		}
	}
	return nil
}

func (t *tap) release(s *Stop, drop, twice bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !s.done {
		s.done, s.dropped, s.twice = true, drop, twice
		close(s.over)
	}
}

func (t *tap) since(from int) []Kept {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.kept[min(max(from, 0), len(t.kept)):]
}

// meets finds the stop that a message is the one of.
func (t *tap) meets(l *link, f *frame, toRole bool) *Stop {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !toRole {
		for _, prefix := range keep {
			if strings.HasPrefix(f.subject, prefix) {
				header, payload := f.parts()
				t.kept = append(t.kept, Kept{l.name, f.subject, header, payload})
			}
		}
	}
	for _, s := range t.stops {
		if s.done || s.Link != l.name || s.ToRole != toRole || !strings.HasPrefix(f.subject, s.Subject) {
			continue
		}
		if s.seen++; s.seen == s.Nth {
			return s
		}
	}
	return nil
}

// hold waits where a stop is until it is released.
func (t *tap) hold(s *Stop) error {
	t.mu.Lock()
	select {
	case <-s.hit:
	default:
		close(s.hit)
	}
	t.mu.Unlock()
	<-s.over
	if s.dropped {
		return errDropped
	}
	return nil
}

// link is a role's way to the broker.
type link struct {
	t    *tap
	name string

	mu      sync.Mutex
	changed chan struct{} // closed when the state changes
	state   State
	delay   time.Duration
	open    map[*connection]bool
}

func (t *tap) add(name string) *link {
	l := &link{t: t, name: name, changed: make(chan struct{}), state: Open, open: map[*connection]bool{}}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.links[name] = l
	return l
}

func (l *link) set(s State, delay time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if s != "" {
		l.state = s
	}
	l.delay = delay
	close(l.changed)
	l.changed = make(chan struct{})
	if l.state == Cut {
		for c := range l.open {
			c.close()
		}
	}
}

// gate waits until the link lets something through.
func (l *link) gate(c *connection) error {
	for {
		l.mu.Lock()
		state, delay, changed := l.state, l.delay, l.changed
		l.mu.Unlock()
		switch state {
		case Cut:
			return errDropped
		case Silent:
			select {
			case <-changed:
			case <-c.closed:
				return errDropped
			}
		default:
			time.Sleep(delay)
			return nil
		}
	}
}

func (l *link) serve(listener net.Listener) error {
	for {
		near, err := listener.Accept()
		if err != nil {
			return err
		}
		go l.pass(near)
	}
}

// connection is a role's connection and the tap's own to the broker.
type connection struct {
	near, far net.Conn
	once      sync.Once
	closed    chan struct{}

	mu      sync.Mutex
	waiting map[string]*Stop // by the subject on which an answer comes
}

func (c *connection) close() {
	c.once.Do(func() {
		close(c.closed)
		_ = c.near.Close()
		if c.far != nil {
			_ = c.far.Close()
		}
	})
}

// pass brings a connection about and carries its messages. The broker begins in the clear, with what a client must sign
// to log in; then both sides turn to TLS, here with two different connections.
func (l *link) pass(near net.Conn) {
	c := &connection{near: near, closed: make(chan struct{}), waiting: map[string]*Stop{}}
	defer c.close()
	if l.gate(c) != nil {
		return
	}
	far, err := net.DialTimeout("tcp", l.t.broker, dialing)
	if err != nil {
		return
	}
	c.far = far
	l.mu.Lock()
	l.open[c] = true
	l.mu.Unlock()
	defer func() {
		l.mu.Lock()
		delete(l.open, c)
		l.mu.Unlock()
	}()
	greeting, err := line(far)
	if err != nil {
		return
	}
	if _, err := near.Write(greeting); err != nil {
		return
	}
	nearer, farther := tls.Server(near, l.t.near), tls.Client(far, l.t.far)
	var both sync.WaitGroup
	both.Go(func() { defer c.close(); _ = l.pump(c, nearer, farther, false) })
	both.Go(func() { defer c.close(); _ = l.pump(c, farther, nearer, true) })
	both.Wait()
}

// line reads a line byte by byte: what follows it belongs to TLS.
func line(from io.Reader) (b []byte, err error) {
	one := make([]byte, 1)
	for len(b) < 1<<16 {
		if _, err := from.Read(one); err != nil {
			return nil, err
		}
		if b = append(b, one[0]); one[0] == '\n' {
			return b, nil
		}
	}
	return nil, errors.New("no line")
}

// pump carries one direction, message by message.
func (l *link) pump(c *connection, from io.Reader, to io.Writer, toRole bool) error {
	r := bufio.NewReaderSize(from, 1<<16)
	for {
		f, err := read(r)
		if err != nil {
			return err
		}
		if err := l.gate(c); err != nil {
			return err
		}
		if err := l.carry(c, f, to, toRole); err != nil {
			return err
		}
	}
}

// carry passes one message on, and stops where a stop is.
func (l *link) carry(c *connection, f *frame, to io.Writer, toRole bool) error {
	var at *Stop
	if f.subject != "" {
		if toRole {
			c.mu.Lock()
			at = c.waiting[f.subject]
			delete(c.waiting, f.subject)
			c.mu.Unlock()
		}
		if at == nil {
			at = l.t.meets(l, f, toRole)
		}
	}
	switch {
	case at == nil:
	case at.Answered && !toRole && f.reply != "":
		c.mu.Lock()
		c.waiting[f.reply] = at
		c.mu.Unlock()
	case at.Answered && !toRole: // it has no answer: it stops when it has gone
		if _, err := to.Write(f.all); err != nil {
			return err
		}
		return l.t.hold(at)
	default:
		if err := l.t.hold(at); err != nil {
			return err
		}
		if err := l.gate(c); err != nil {
			return err
		}
		if at.twice {
			if _, err := to.Write(f.all); err != nil {
				return err
			}
		}
	}
	_, err := to.Write(f.all)
	return err
}

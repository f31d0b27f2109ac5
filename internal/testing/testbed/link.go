package testbed

import (
	"errors"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/riffle-dp/riffle/internal/bus"
)

// Link is a network between a role and the broker that a test can freeze: connections stay, and nothing comes through.
type Link struct {
	listener net.Listener
	mu       sync.Mutex
	thawed   *sync.Cond
	frozen   bool
	conns    []net.Conn
}

// ConnectOver connects as a role over a link of its own.
func (b *Bed) ConnectOver(r bus.Role) (*bus.Conn, *Link) {
	b.tb.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	b.must(err)
	l := &Link{listener: listener}
	l.thawed = sync.NewCond(&l.mu)
	var running sync.WaitGroup
	running.Go(func() { l.serve(b.tb, strings.TrimPrefix(b.server.URL(), "nats://"), &running) })
	b.tb.Cleanup(func() {
		b.must(listener.Close())
		l.Cut()
		l.Thaw()
		running.Wait()
	})
	c, err := bus.Connect(b.Context(),
		bus.Options{URL: "nats://" + listener.Addr().String(), Role: r, Seed: b.seeds[r], Name: "test " + string(r)})
	b.must(err)
	b.tb.Cleanup(c.Close)
	return c, l
}

func (l *Link) serve(tb testing.TB, broker string, running *sync.WaitGroup) {
	for {
		in, err := l.listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			tb.Error(err)
			return
		}
		out, err := net.DialTimeout("tcp", broker, Patience)
		if err != nil {
			_ = in.Close() // the broker is down: so the role sees it
			continue
		}
		l.mu.Lock()
		l.conns = append(l.conns, in, out)
		l.mu.Unlock()
		running.Go(func() { l.carry(out, in) })
		running.Go(func() { l.carry(in, out) })
	}
}

// carry copies until either end closes.
func (l *Link) carry(to, from net.Conn) {
	defer to.Close()
	defer from.Close()
	buffer := make([]byte, 64<<10)
	for {
		n, err := from.Read(buffer)
		l.mu.Lock()
		for l.frozen {
			l.thawed.Wait()
		}
		l.mu.Unlock()
		if n > 0 {
			if _, err := to.Write(buffer[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// Freeze lets nothing through, and both ends believe that they are connected, until Thaw.
func (l *Link) Freeze() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.frozen = true
}

// Thaw lets everything through that was held back.
func (l *Link) Thaw() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.frozen = false
	l.thawed.Broadcast()
}

// Cut closes every connection. New ones can be made at once.
func (l *Link) Cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range l.conns {
		_ = c.SetDeadline(time.Now())
		_ = c.Close() // closed already, maybe
	}
	l.conns = nil
}

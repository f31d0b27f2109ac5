package ingress

import (
	"io"
	"log"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"time"
)

const (
	// readHeaderTime bounds how long a client may take to send a request's header.
	readHeaderTime = 5 * time.Second
	// idleTime is how long a connection may wait for its next request.
	idleTime = time.Minute
	// maxHeader bounds the bytes of a header.
	maxHeader = 16 << 10
	// share is the part of all connections that one network may hold, where it is neither proxy nor relay.
	share = 8
)

// Server serves devices, with bounds on what connections may take. A body's time is bounded where it is read, and what
// is written is small.
func (s *Ingress) Server() *http.Server {
	return &http.Server{
		Handler: s.Handler(), ReadHeaderTimeout: readHeaderTime, IdleTimeout: idleTime, MaxHeaderBytes: maxHeader,
		WriteTimeout: longestWait + storeTime + s.c.Limits.Body,
		// It would name addresses.
		ErrorLog:  log.New(io.Discard, "", 0),
		HTTP2:     &http.HTTP2Config{MaxConcurrentStreams: 64},
		TLSConfig: s.c.TLS,
	}
}

// Listener bounds the connections of a listener: all, and those of one network. One too many is closed at once.
func (s *Ingress) Listener(l net.Listener) net.Listener {
	return &listener{Listener: l, most: s.c.Limits.Connections, networks: s.networks, open: map[netip.Prefix]int{}}
}

type listener struct {
	net.Listener
	most     int
	networks networks

	mu   sync.Mutex
	all  int
	open map[netip.Prefix]int
}

// Accept is the next connection within the bounds.
func (l *listener) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		address := peer(c.RemoteAddr().String())
		from, many := network(address), within(l.networks.proxies, address) || within(l.networks.relays, address)
		if l.take(from, many) {
			return &bounded{Conn: c, end: sync.OnceFunc(func() { l.release(from) })}, nil
		}
		_ = c.Close() // the client sees it
	}
}

func (l *listener) take(from netip.Prefix, many bool) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.all >= l.most || !many && l.open[from] >= max(1, l.most/share) {
		return false
	}
	l.all++
	l.open[from]++
	return true
}

func (l *listener) release(from netip.Prefix) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all--
	if l.open[from]--; l.open[from] == 0 {
		delete(l.open, from)
	}
}

// bounded is a connection that is counted until it is closed.
type bounded struct {
	net.Conn
	end func()
}

// Close closes it.
func (b *bounded) Close() error {
	b.end()
	return b.Conn.Close()
}

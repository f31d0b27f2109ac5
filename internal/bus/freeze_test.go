package bus_test

import (
	"net"
	"strings"
	"sync"
	"testing"
)

// wire is a TCP connection to a broker that can be frozen, like one whose process is paused: it stays open, and new
// ones are taken.
type wire struct {
	t       *testing.T
	to      string
	l       net.Listener
	mu      sync.Mutex
	frozen  chan struct{} // closed while nothing is
	thawing func()
}

func newWire(t *testing.T, to string) *wire {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w := &wire{t: t, to: strings.TrimPrefix(to, "nats://"), l: l}
	w.frozen = make(chan struct{})
	close(w.frozen)
	t.Cleanup(func() { l.Close(); w.thaw() })
	go func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer in.Close()
				w.pass()
				out, err := net.Dial("tcp", w.to)
				if err != nil {
					return
				}
				defer out.Close()
				go w.copy(out, in)
				w.copy(in, out)
			}()
		}
	}()
	return w
}

func (w *wire) pass() {
	w.mu.Lock()
	frozen := w.frozen
	w.mu.Unlock()
	<-frozen
}

func (w *wire) copy(to, from net.Conn) {
	defer to.Close()
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		w.pass()
		if err != nil {
			return
		}
		if _, err := to.Write(buf[:n]); err != nil {
			return
		}
	}
}

func (w *wire) freeze() {
	w.mu.Lock()
	defer w.mu.Unlock()
	frozen := make(chan struct{})
	w.frozen, w.thawing = frozen, sync.OnceFunc(func() { close(frozen) })
}

func (w *wire) thaw() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.thawing != nil {
		w.thawing()
	}
}

package container

import (
	"net"
	"testing"
	"time"
)

// A connection through which nothing passes is closed, so that silent callers do not keep a door's places for ever. One
// on which something passes now and then stays.
func TestASilentConnectionEnds(t *testing.T) {
	role, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer role.Close()
	go func() {
		for {
			c, err := role.Accept()
			if err != nil {
				return
			}
			go func() { // answers each byte
				b := make([]byte, 1)
				for {
					if _, err := c.Read(b); err != nil {
						return
					}
					_, _ = c.Write(b)
				}
			}()
		}
	}()
	caller, near := net.Pipe()
	defer caller.Close()
	const idle = 400 * time.Millisecond
	ended := make(chan time.Time, 1)
	go func() { pass(t.Context(), near, role.Addr().String(), idle); ended <- time.Now() }()
	var last time.Time
	for begin := time.Now(); time.Since(begin) < 2*idle; time.Sleep(idle / 20) {
		last = time.Now()
		b := []byte{1}
		if _, err := caller.Write(b); err != nil {
			t.Skip("this machine stood still") // for longer than the time that a connection may be silent
		}
		_, _ = caller.Read(b)
	}
	select {
	case at := <-ended:
		if at.Sub(last) < idle/2 {
			t.Errorf("ended %v after the last byte", at.Sub(last))
		}
	case <-time.After(time.Minute):
		t.Error("a silent connection stays open")
	}
}

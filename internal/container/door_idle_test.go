package container

import (
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"
)

// A connection through which nothing passes is closed, so that silent callers do not keep a door's places for ever. One
// on which something passes now and then stays.
func TestASilentConnectionEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const idle = time.Minute
		caller, near := net.Pipe()
		far, role := net.Pipe()
		defer caller.Close()
		defer role.Close()
		go func() { _, _ = io.Copy(role, role) }() // answers each byte
		ended := make(chan time.Time, 1)
		go func() { join(near, far, idle); ended <- time.Now() }()
		for range 10 {
			time.Sleep(idle - time.Second)
			b := []byte{1}
			if _, err := caller.Write(b); err != nil {
				t.Fatal(err)
			}
			if _, err := io.ReadFull(caller, b); err != nil {
				t.Fatal(err)
			}
		}
		last := time.Now()
		if silent := (<-ended).Sub(last); silent != idle {
			t.Errorf("ended %v after the last byte, not %v", silent, idle)
		}
	})
}

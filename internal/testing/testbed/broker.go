package testbed

import (
	"errors"
	"os"
	"testing"
	"time"

	"github.com/riffle-dp/riffle/internal/broker"
)

// StartBroker starts a broker. Where it is to have the port of an earlier one, it waits until whoever took that port
// meanwhile leaves it: the port of any outgoing connection on the machine may be this one.
func StartBroker(tb testing.TB, o broker.Options) *broker.Server {
	tb.Helper()
	for deadline := time.Now().Add(Patience); ; time.Sleep(50 * time.Millisecond) {
		s, err := broker.Start(o)
		if err == nil {
			return s
		}
		if !errors.Is(err, broker.ErrPortInUse) || time.Now().After(deadline) {
			tb.Fatal(err)
		}
	}
}

// Backup stops the broker, copies its data and starts it again: connections come back by themselves. It returns the
// copy's folder.
func (b *Bed) Backup() (folder string) {
	b.tb.Helper()
	return b.swap("")
}

// Restore stops the broker, starts it again with an older copy of its data, and returns a copy of what it had.
func (b *Bed) Restore(folder string) (before string) {
	b.tb.Helper()
	return b.swap(folder)
}

func (b *Bed) swap(folder string) (before string) {
	b.tb.Helper()
	b.options.Port = b.server.Port()
	b.server.Stop()
	before = b.tb.TempDir()
	b.must(os.CopyFS(before, os.DirFS(b.options.Dir)))
	if folder != "" {
		b.options.Dir = b.tb.TempDir()
		b.must(os.CopyFS(b.options.Dir, os.DirFS(folder)))
	}
	b.server = StartBroker(b.tb, b.options)
	return before
}

package testbed

import (
	"os"

	"github.com/riffle-dp/riffle/internal/bus"
)

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
	var err error
	b.server, err = bus.Start(b.options)
	b.must(err)
	b.tb.Cleanup(b.server.Stop)
	return before
}

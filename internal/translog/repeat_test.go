package translog_test

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"testing"

	"github.com/riffle-dp/riffle/internal/bus"
	"github.com/riffle-dp/riffle/internal/translog"
	"github.com/riffle-dp/riffle/pkg/wire"

	_ "github.com/riffle-dp/riffle/internal/testing/fixedseed"
)

// A broker whose data was set back to any earlier moment, even between a statement and its checkpoint, gets the rest
// again: byte for byte and in order, from a process that starts and from one that runs on.
func TestABrokerThatWasSetBackGetsTheRestAgain(t *testing.T) {
	t.Parallel()
	w := writer{t, filepath.Join(t.TempDir(), "log"), identity(t, 1)}
	whole := &stream{t: t}
	l := w.open(whole)
	w.appends(l, 1, 2, 3, 4)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	for n := range len(whole.entries) + 1 {
		s := whole.setBack(n)
		l := w.copied().open(s)
		if !s.same(whole) {
			t.Errorf("set back to %d of %d entries: the stream is another", n, len(whole.entries))
		}
		w.appends(l, 5)
		w.check(s, 1, 2, 3, 4, 5)

		running := &stream{t: t, entries: slices.Clone(s.entries)}
		again := w.copied()
		l = again.open(running)
		again.appends(l, 5)
		running.entries = slices.Clone(running.entries[:n])
		for range 20 { // what others said since takes the sequences that this role's entries had
			running.put(bus.Analyzer, "counts", []byte("counts"))
		}
		again.appends(l, 6)
		again.check(running, 1, 2, 3, 4, 5, 6)
		last := running.entries[len(running.entries)-1].Sequence
		running.entries = slices.Clone(running.entries[:n])
		again.appends(l, 3) // a known one
		again.check(running, 1, 2, 3, 4, 5, 6)
		last = max(last, running.entries[len(running.entries)-1].Sequence)
		running.entries = slices.Clone(running.entries[:n])
		for running.put(bus.Shuffler, "other", []byte("junk")) < last {
			// until the newest entry has the same sequence as before
		}
		again.appends(l, 7)
		again.check(running, 1, 2, 3, 4, 5, 6, 7)
	}
}

// A state folder that was restored from an older copy, or lost, takes in what the stream shows under the role's
// checkpoints, keeps it, and goes on after it.
func TestAnOlderStateFolderTakesInTheStream(t *testing.T) {
	t.Parallel()
	for known := range uint64(4) {
		t.Run(fmt.Sprint(known), func(t *testing.T) {
			w := writer{t, filepath.Join(t.TempDir(), "log"), identity(t, 1)}
			s := &stream{t: t}
			l := w.open(s)
			for epoch := range known {
				w.appends(l, epoch+1)
			}
			if err := l.Close(); err != nil {
				t.Fatal(err)
			}
			older := w.copied()
			if known == 0 {
				older.path = filepath.Join(t.TempDir(), "log") // lost
			}
			l = w.open(s)
			for epoch := known; epoch < 4; epoch++ {
				w.appends(l, epoch+1)
			}
			s.entries = s.entries[:len(s.entries)-1] // and a crash before the last checkpoint
			l = older.open(s)
			older.check(s, 1, 2, 3, 4)
			older.appends(l, 2, 5)
			older.check(s, 1, 2, 3, 4, 5)
			if err := l.Close(); err != nil {
				t.Fatal(err)
			}
			empty := &stream{t: t}
			older.open(empty) // what was taken in is kept: the whole log comes from the disk
			older.check(empty, 1, 2, 3, 4, 5)
		})
	}
}

var errCrash = errors.New("crash")

// A process that dies before or after any entry is stored: the next one ends with the same stream as if nothing had
// happened, byte for byte.
func TestACrashIsRepeatedIdentically(t *testing.T) {
	each(t, func(t *testing.T, w writer) {
		whole := &stream{t: t}
		w.copied().appends(writer{t, "", w.id}.open(whole), 1, 2, 3)
		for at := range 2 * len(whole.entries) {
			again := writer{t, w.path, w.id}
			if w.path != "" {
				again.path = filepath.Join(t.TempDir(), "log")
			}
			s := &stream{t: t}
			step := 0
			s.fail = func(string, bool) error {
				step++
				if step > at {
					return fmt.Errorf("%w: %w", bus.ErrUnknown, errCrash)
				}
				return nil
			}
			l, err := translog.New(again.config(s))
			if err != nil {
				t.Fatal(err)
			}
			for epoch := uint64(1); epoch <= 3 && err == nil; epoch++ {
				err = l.AppendAudit(t.Context(), wire.KindManifest, manifest(t, epoch, w.id))
			}
			if !errors.Is(err, errCrash) {
				t.Fatalf("step %d: %v", at, err)
			}
			s.fail = nil
			if at%2 == 0 { // the same process goes on
				again.appends(l, 1, 2, 3)
			}
			if err := l.Close(); err != nil {
				t.Fatal(err)
			}
			again.appends(again.open(s), 1, 2, 3)
			if !s.same(whole) {
				t.Errorf("crash at step %d: the stream is another", at)
			}
		}
	})
}

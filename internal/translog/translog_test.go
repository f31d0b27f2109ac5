package translog_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"github.com/riffle-dp/riffle/internal/bus"
	"github.com/riffle-dp/riffle/internal/translog"
	"github.com/riffle-dp/riffle/pkg/seal"
	"github.com/riffle-dp/riffle/pkg/transparency"
	"github.com/riffle-dp/riffle/pkg/wire"

	_ "github.com/riffle-dp/riffle/internal/testing/fixedseed"
)

// each runs a test with a state folder and without one.
func each(t *testing.T, f func(t *testing.T, w writer)) {
	t.Helper()
	t.Parallel()
	t.Run("with a state folder", func(t *testing.T) {
		f(t, writer{t, filepath.Join(t.TempDir(), "log"), identity(t, 1)})
	})
	t.Run("without one", func(t *testing.T) { f(t, writer{t, "", identity(t, 1)}) })
}

// copied is the writer with a copy of its file.
func (w writer) copied() writer {
	w.t.Helper()
	path := filepath.Join(w.t.TempDir(), "log")
	if w.path == "" {
		return writer{w.t, path, w.id}
	}
	files, err := filepath.Glob(w.path + "*") // with its logs
	if err != nil {
		w.t.Fatal(err)
	}
	for _, from := range files {
		b, err := os.ReadFile(from)
		if err == nil {
			err = os.WriteFile(path+from[len(w.path):], b, 0o600)
		}
		if err != nil {
			w.t.Fatal(err)
		}
	}
	return writer{w.t, path, w.id}
}

// Whenever AppendAudit returns, the statement stands in the stream once, under a checkpoint over all that there is.
func TestEveryStatementStandsUnderACheckpoint(t *testing.T) {
	each(t, func(t *testing.T, w writer) {
		s := &stream{t: t}
		l := w.open(s)
		if len(s.entries) != 0 {
			t.Errorf("an empty log says %d things", len(s.entries))
		}
		var epochs []uint64
		for epoch := uint64(1); epoch <= 9; epoch++ {
			epochs = append(epochs, epoch)
			w.appends(l, epoch)
			w.check(s, epochs...)
			w.appends(l, epochs[len(epochs)/2], epoch) // again
			w.check(s, epochs...)
			if len(s.entries) != 2*len(epochs) || l.Size() != epoch {
				t.Fatalf("%d entries of %d statements, size %d", len(s.entries), epoch, l.Size())
			}
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		before := s.setBack(len(s.entries))
		l = w.open(s)
		w.appends(l, epochs...)
		if !s.same(before) {
			t.Error("a restart changed what is there")
		}
	})
}

func TestManyAppendAtATime(t *testing.T) {
	each(t, func(t *testing.T, w writer) {
		s := &stream{t: t}
		l := w.open(s)
		var wg sync.WaitGroup
		for g := range uint64(8) {
			wg.Go(func() {
				for i := range uint64(5) {
					if err := l.AppendAudit(t.Context(), wire.KindManifest, manifest(t, 1+g/2*5+i, w.id)); err != nil {
						t.Error(err)
					}
				}
			})
		}
		wg.Wait()
		if got := s.leaves(w.id); len(got) != 20 || len(s.entries) != 40 {
			t.Errorf("%d leaves in %d entries", len(got), len(s.entries))
		}
	})
}

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
// checkpoints, keeps it, and goes on behind it.
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

// forge is a checkpoint that the role's key signed over other leaves, or fewer.
func forge(t *testing.T, id *seal.Identity, epochs ...uint64) []byte {
	t.Helper()
	var tree transparency.Tree
	for _, epoch := range epochs {
		tree.Append(manifest(t, epoch, id))
	}
	b, err := transparency.Sign(transparency.Checkpoint{
		Origin: transparency.Origin(deployment, "shuffler"), Size: tree.Size(), Root: tree.Root(),
	}, id)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// Two logs under one key are never continued: neither where the stream shows another statement than the disk holds, nor
// where a checkpoint is not of what stands before it.
func TestAForkIsRefused(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(t *testing.T, w writer, s *stream){
		"a checkpoint of another log": func(t *testing.T, w writer, s *stream) {
			s.put(bus.Shuffler, wire.KindManifest, manifest(t, 4, w.id))
			s.put(bus.Shuffler, wire.KindCheckpoint, forge(t, w.id, 1, 2, 3, 5))
		},
		"a later checkpoint of fewer leaves": func(t *testing.T, w writer, s *stream) {
			s.put(bus.Shuffler, wire.KindCheckpoint, forge(t, w.id, 1, 2))
		},
		"a second checkpoint of as many": func(t *testing.T, w writer, s *stream) {
			s.put(bus.Shuffler, wire.KindCheckpoint, forge(t, w.id, 1, 2, 4))
		},
		"a checkpoint in the middle of what it skips": func(t *testing.T, w writer, s *stream) {
			s.put(bus.Shuffler, wire.KindManifest, manifest(t, 4, w.id))
			s.put(bus.Shuffler, wire.KindManifest, manifest(t, 5, w.id))
			s.put(bus.Shuffler, wire.KindCheckpoint, forge(t, w.id, 1, 2, 3, 5))
		},
		"a statement twice": func(t *testing.T, w writer, s *stream) {
			s.put(bus.Shuffler, wire.KindManifest, manifest(t, 1, w.id))
		},
		"two statements in another order": func(_ *testing.T, _ writer, s *stream) {
			s.entries[0].Payload, s.entries[2].Payload = s.entries[2].Payload, s.entries[0].Payload
		},
	} {
		t.Run(name, func(t *testing.T) {
			for _, path := range []string{"", filepath.Join(t.TempDir(), "log")} {
				w := writer{t, path, identity(t, 1)}
				s := &stream{t: t}
				l := w.open(s)
				w.appends(l, 1, 2, 3)
				change(t, w, s)
				if err := l.Close(); err != nil {
					t.Fatal(err)
				}
				w.refused(s, translog.ErrForked)
			}
		})
	}
	t.Run("another statement than the disk's", func(t *testing.T) {
		w := writer{t, filepath.Join(t.TempDir(), "log"), identity(t, 1)}
		s := &stream{t: t}
		w.appends(w.open(s), 1, 2, 3)
		other := &stream{t: t}
		apart := writer{t, filepath.Join(t.TempDir(), "log"), w.id}
		l := apart.open(other)
		apart.appends(l, 1, 4)
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		apart.refused(s, translog.ErrForked)
		apart.refused(s.setBack(3), translog.ErrForked)
		l = apart.open(s.setBack(2)) // as far as both go they agree
		if l.Size() != 2 {
			t.Errorf("size %d", l.Size())
		}
	})
}

// A checkpoint over more than the stream shows: entries were taken out of it, and nobody has them.
func TestARewoundStreamIsRefused(t *testing.T) {
	each(t, func(t *testing.T, w writer) {
		s := &stream{t: t}
		l := w.open(s)
		w.appends(l, 1, 2, 3)
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		w.refused(s.without(4), translog.ErrRewound) // the last statement, whose checkpoint stays
		if w.path == "" {                            // the disk says at once that the first is another
			w.refused(s.without(0), translog.ErrRewound)
		}
	})
	t.Run("while the process runs", func(t *testing.T) {
		w := writer{t, "", identity(t, 1)}
		s := &stream{t: t}
		l := w.open(s)
		w.appends(l, 1, 2, 3)
		newer := slices.Clone(s.entries)
		s.entries = s.entries[:4]
		for range 2 {
			err := l.AppendAudit(t.Context(), wire.KindManifest, manifest(t, 4, w.id))
			if !errors.Is(err, translog.ErrRewound) || len(s.entries) != 4 {
				t.Errorf("%v, and %d entries", err, len(s.entries))
			}
		}
		s.entries = newer // the newer data are back
		w.appends(l, 4)
		w.check(s, 1, 2, 3, 4)
	})
}

// What the role did not sign, or not under that kind, is not of the log. Anyone with its broker credential can store
// it.
func TestForeignWordsAreSkipped(t *testing.T) {
	each(t, func(t *testing.T, w writer) {
		other, s := identity(t, 2), &stream{t: t}
		key, err := seal.GenerateHPKE()
		if err != nil {
			t.Fatal(err)
		}
		keys, _, err := wire.Sign(&wire.KeySet{Deployment: deployment, Keys: [][]byte{key.Public()}, Number: 1}, w.id)
		if err != nil {
			t.Fatal(err)
		}
		l := w.open(s)
		foreign := 0
		for epoch := uint64(1); epoch <= 3; epoch++ {
			for _, junk := range []bus.Statement{
				{Kind: wire.KindManifest, Payload: nil},
				{Kind: wire.KindManifest, Payload: fmt.Append(nil, "junk ", epoch)},
				{Kind: wire.KindManifest, Payload: manifest(t, epoch, other)},
				{Kind: wire.KindCounts, Payload: manifest(t, epoch, w.id)},
				{Kind: wire.SummedKind(epoch, 0), Payload: manifest(t, epoch, w.id)},
				{Kind: "other", Payload: manifest(t, epoch, w.id)},
				{Kind: wire.KindManifest, Payload: keys},
				{Kind: wire.KindCheckpoint, Payload: forge(t, other, epoch)},
				{Kind: wire.KindCheckpoint, Payload: []byte("junk")},
			} {
				s.put(bus.Shuffler, junk.Kind, junk.Payload)
				foreign++
			}
			s.put(bus.Analyzer, wire.KindManifest, manifest(t, 100+epoch, w.id))
			w.appends(l, epoch)
		}
		w.check(s, 1, 2, 3)
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		if w.appends(w.open(s), 4); len(s.said()) != foreign+8 {
			t.Errorf("%d entries, %d of them foreign", len(s.said()), foreign)
		}
		w.check(s, 1, 2, 3, 4)
	})
}

// Of two processes with one key and copies of one state folder the second one stops, and whoever reads the stream sees
// one log, with no checkpoint against another.
func TestTwoProcessesMakeNoFork(t *testing.T) {
	each(t, func(t *testing.T, w writer) {
		s := &stream{t: t}
		l := w.open(s)
		w.appends(l, 1)
		second := w
		if w.path != "" {
			second = w.copied()
		}
		other := second.open(s)
		overtaken := false
		s.fail = func(kind string, stored bool) error { // the other process is between this one's look and its word
			if kind == wire.KindManifest && !stored && !overtaken {
				overtaken = true
				s.put(bus.Shuffler, kind, manifest(t, 3, w.id))
			}
			return nil
		}
		err := other.AppendAudit(t.Context(), wire.KindManifest, manifest(t, 2, w.id))
		if w.path == "" { // nothing is kept here: it is as if the other had been first
			if err != nil {
				t.Fatal(err)
			}
			w.check(s, 1, 3, 2)
			return
		}
		if !errors.Is(err, translog.ErrForked) {
			t.Fatal(err)
		}
		w.appends(l, 4)
		w.check(s, 1, 3, 4)
		if err := other.Sync(t.Context()); !errors.Is(err, translog.ErrForked) {
			t.Error(err)
		}
	})
}

// Where something else stands under an entry's name, and cannot be removed, the log stops and says so.
func TestAnOccupiedNameStopsTheLog(t *testing.T) {
	each(t, func(t *testing.T, w writer) {
		s := &stream{t: t, hidden: map[[32]byte]bool{sha256.Sum256(manifest(t, 2, w.id)): true}}
		l := w.open(s)
		w.appends(l, 1)
		err := l.AppendAudit(t.Context(), wire.KindManifest, manifest(t, 2, w.id))
		if !errors.Is(err, translog.ErrForked) {
			t.Error(err)
		}
	})
}

// What is not this role's statement under its kind is neither kept nor published.
func TestWhatIsNoStatementIsNotAppended(t *testing.T) {
	each(t, func(t *testing.T, w writer) {
		s := &stream{t: t}
		l := w.open(s)
		good := manifest(t, 1, w.id)
		for name, bad := range map[string]bus.Statement{
			"nothing":      {Kind: wire.KindManifest},
			"another's":    {Kind: wire.KindManifest, Payload: manifest(t, 1, identity(t, 2))},
			"another kind": {Kind: wire.KindCounts, Payload: good}, "no kind": {Payload: good},
			"a checkpoint": {Kind: wire.KindCheckpoint, Payload: forge(t, w.id, 1)},
			"changed":      {Kind: wire.KindManifest, Payload: append(bytes.Clone(good), 0)},
		} {
			if err := l.AppendAudit(t.Context(), bad.Kind, bad.Payload); !errors.Is(err, translog.ErrStatement) {
				t.Errorf("%s: %v", name, err)
			}
		}
		if l.Size() != 0 || len(s.entries) != 0 {
			t.Errorf("%d entries in the log, %d in the stream", l.Size(), len(s.entries))
		}
	})
}

// A file that cannot be used ends the start, or the append, with what to do.
func TestAFileThatCannotBeUsed(t *testing.T) {
	t.Parallel()
	w := writer{t, filepath.Join(t.TempDir(), "log"), identity(t, 1)}
	s := &stream{t: t}
	l := w.open(s)
	w.appends(l, 1)
	if _, err := translog.New(w.config(s)); err == nil {
		t.Error("opened by two processes")
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if err := l.AppendAudit(t.Context(), wire.KindManifest, manifest(t, 2, w.id)); !errors.Is(err, translog.ErrDisk) {
		t.Errorf("appended to a closed file: %v", err)
	}
	w.check(s, 1)
	stranger := writer{t, w.path, identity(t, 2)}
	if _, err := translog.New(stranger.config(s)); !errors.Is(err, translog.ErrStatement) {
		t.Errorf("another role's file: %v", err)
	}
	w.open(s) // and it was let go of
}

// A caller whose context ends does not wait for one that waits for the broker.
func TestNobodyWaitsBeyondItsContext(t *testing.T) {
	t.Parallel()
	w := writer{t, "", identity(t, 1)}
	s := &stream{t: t}
	l := w.open(s)
	ended, end := context.WithCancel(t.Context())
	end()
	s.fail = func(kind string, stored bool) error {
		if kind == wire.KindManifest && !stored {
			if err := l.AppendAudit(ended, kind, manifest(t, 2, w.id)); !errors.Is(err, bus.ErrUnknown) {
				t.Errorf("while another appends: %v", err)
			}
		}
		return nil
	}
	w.appends(l, 1)
	w.check(s, 1)
}

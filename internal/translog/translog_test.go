package translog_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/riffle-dp/riffle/internal/bus"
	"github.com/riffle-dp/riffle/internal/translog"
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

// Whenever AppendAudit returns, the statement is in the stream once, under a checkpoint over all that there is.
func TestACheckpointCoversEveryStatement(t *testing.T) {
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

// A checkpoint may cover several statements, where those between were lost. It must have the root of its own size.
func TestACheckpointMayCoverSeveralStatements(t *testing.T) {
	each(t, func(t *testing.T, w writer) {
		anew := func() writer {
			if w.path == "" {
				return w
			}
			return writer{t, filepath.Join(t.TempDir(), "log"), w.id}
		}
		made := func(epochs ...uint64) []bus.Statement { // each statement with its checkpoint behind it
			s, alone := &stream{t: t}, writer{t, "", w.id}
			alone.appends(alone.open(s), epochs...)
			return s.entries
		}
		of := func(entries []bus.Statement, at ...int) *stream {
			s := &stream{t: t}
			for _, i := range at {
				s.put(bus.Shuffler, entries[i].Kind, entries[i].Payload)
			}
			return s
		}
		all := made(1, 2, 3, 4, 5)
		s := of(all, 0, 2, 4, 6, 8)
		l := w.open(s)
		w.check(s, 1, 2, 3, 4, 5)
		if len(s.entries) != 6 {
			t.Errorf("%d entries", len(s.entries))
		}
		w.appends(l, 3, 6)
		w.check(s, 1, 2, 3, 4, 5, 6)

		late := of(all, 0, 2, 4, 6, 5, 7, 8) // the third's checkpoint, behind the fourth
		if n := anew().open(late).Size(); n != 5 || len(late.entries) != 8 {
			t.Errorf("a late checkpoint: %d statements, %d entries", n, len(late.entries))
		}
		other := made(1, 2, 9)
		forked := of(all, 0, 2, 4)
		forked.put(bus.Shuffler, wire.KindCheckpoint, other[5].Payload)
		anew().refused(forked, translog.ErrForked)
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
	other := writer{t, w.path, identity(t, 2)}
	if _, err := translog.New(other.config(s)); !errors.Is(err, translog.ErrStatement) {
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

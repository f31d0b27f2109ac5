package translog_test

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"testing"

	"github.com/riffle-dp/riffle/internal/bus"
	"github.com/riffle-dp/riffle/internal/translog"
	"github.com/riffle-dp/riffle/pkg/seal"
	"github.com/riffle-dp/riffle/pkg/transparency"
	"github.com/riffle-dp/riffle/pkg/wire"

	_ "github.com/riffle-dp/riffle/internal/testing/fixedseed"
)

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
// where a checkpoint is not of what is before it.
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

// Where something else is under an entry's name, and cannot be removed, the log stops and says so.
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

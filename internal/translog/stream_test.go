package translog_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"slices"
	"sync"
	"testing"

	"github.com/rs/zerolog"

	"github.com/riffle-dp/riffle/internal/bus"
	"github.com/riffle-dp/riffle/internal/translog"
	"github.com/riffle-dp/riffle/pkg/seal"
	"github.com/riffle-dp/riffle/pkg/transparency"
	"github.com/riffle-dp/riffle/pkg/wire"
)

const deployment = "trial"

// identity is the identity whose seed's bytes are all b.
func identity(t testing.TB, b byte) *seal.Identity {
	t.Helper()
	id, err := seal.NewIdentity(bytes.Repeat([]byte{b}, 32))
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// manifest is the shuffler's statement about an epoch, signed by an identity.
func manifest(t testing.TB, epoch uint64, by *seal.Identity) []byte {
	t.Helper()
	signed, _, err := wire.Sign(&wire.Manifest{
		Deployment: deployment, Epoch: epoch, Announcement: make([]byte, 32), Outcome: wire.Destroyed, Enrolled: 3,
	}, by)
	if err != nil {
		t.Fatal(err)
	}
	return signed
}

// stream is an audit stream in memory that a test can tamper with. Like the broker's it holds one entry under a name.
type stream struct {
	t  testing.TB
	mu sync.Mutex
	// what the stream holds; the sequence of an entry is its place, from 1
	entries []bus.Statement
	// fail is asked before an entry is stored and after it was, and answers in place of the broker
	fail func(kind string, stored bool) error
	// hidden are names under which something unreadable is
	hidden map[[32]byte]bool
}

func (s *stream) SaidSince(_ context.Context, role bus.Role, from uint64, f func(bus.Statement) error) error {
	s.mu.Lock()
	entries := slices.Clone(s.entries)
	s.mu.Unlock()
	for _, e := range entries {
		if e.Role == role && e.Sequence >= from {
			if err := f(e); err != nil {
				return err
			}
		}
	}
	return nil
}

func (s *stream) AppendAuditAfter(ctx context.Context, kind string, payload []byte, last uint64) (uint64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if ctx.Err() != nil {
		return 0, bus.ErrUnknown
	}
	if s.fail != nil {
		if err := s.fail(kind, false); err != nil {
			return 0, err
		}
	}
	newest := uint64(0)
	for _, e := range s.entries {
		if e.Role != bus.Shuffler {
			continue
		}
		newest = e.Sequence
		if e.Kind == kind && bytes.Equal(e.Payload, payload) && !e.Misnamed {
			return 0, bus.ErrMoved
		}
	}
	if newest != last || s.hidden[sha256.Sum256(payload)] {
		return 0, bus.ErrMoved
	}
	sequence := s.put(bus.Shuffler, kind, payload)
	if s.fail != nil {
		if err := s.fail(kind, true); err != nil {
			return 0, err
		}
	}
	return sequence, nil
}

// put stores an entry, as a holder of the role's broker credential can.
func (s *stream) put(role bus.Role, kind string, payload []byte) uint64 {
	sequence := uint64(1)
	if n := len(s.entries); n > 0 {
		sequence = s.entries[n-1].Sequence + 1
	}
	s.entries = append(s.entries, bus.Statement{Role: role, Kind: kind, Sequence: sequence, Payload: payload})
	return sequence
}

// setBack is the stream with its first n entries.
func (s *stream) setBack(n int) *stream {
	return &stream{t: s.t, entries: slices.Clone(s.entries[:n])}
}

// without is the stream without one entry.
func (s *stream) without(n int) *stream {
	return &stream{t: s.t, entries: slices.Delete(slices.Clone(s.entries), n, n+1)}
}

// said are the entries of the shuffler.
func (s *stream) said() (all []bus.Statement) {
	for _, e := range s.entries {
		if e.Role == bus.Shuffler {
			e.Sequence = 0 // only the order counts
			all = append(all, e)
		}
	}
	return all
}

// same reports whether two streams show the same words of the shuffler in the same order.
func (s *stream) same(as *stream) bool {
	return slices.EqualFunc(s.said(), as.said(), func(a, b bus.Statement) bool {
		return a.Kind == b.Kind && bytes.Equal(a.Payload, b.Payload)
	})
}

// leaves reads the stream as an outsider does who trusts the key alone: every checkpoint must be of exactly what is
// before it, or extend it, and the newest one must cover all leaves, which it returns.
func (s *stream) leaves(id *seal.Identity) (all [][]byte) {
	s.t.Helper()
	by := wire.Party{Deployment: deployment, Key: id.Public()}
	var tree transparency.Tree
	var newest transparency.Checkpoint
	for _, e := range s.entries {
		if e.Role != bus.Shuffler || e.Misnamed {
			continue
		}
		if e.Kind == wire.KindCheckpoint {
			c, err := transparency.Open(e.Payload, transparency.Origin(deployment, "shuffler"), by.Key)
			if err != nil {
				continue
			}
			if c.Size != tree.Size() || c.Root != tree.Root() || c.Size <= newest.Size {
				s.t.Errorf("a checkpoint of %d leaves follows %d leaves and a checkpoint of %d, or has another root",
					c.Size, tree.Size(), newest.Size)
			}
			newest = c
		} else if wire.Leaf(e.Kind, e.Payload, by) {
			all = append(all, e.Payload)
			tree.Append(e.Payload)
		}
	}
	if newest.Size != tree.Size() {
		s.t.Errorf("the newest checkpoint covers %d of %d leaves", newest.Size, tree.Size())
	}
	return all
}

// writer is a role that writes a log.
type writer struct {
	t    testing.TB
	path string // empty: no state folder
	id   *seal.Identity
}

// config is that of the writer's log on a stream.
func (w writer) config(on translog.Broker) translog.Config {
	return translog.Config{Deployment: deployment, Role: bus.Shuffler, Identity: w.id, Broker: on, Path: w.path,
		Log: zerolog.New(zerolog.NewTestWriter(w.t))}
}

// open opens the log on a stream, which must work.
func (w writer) open(on translog.Broker) *translog.Log {
	w.t.Helper()
	l, err := translog.Open(w.t.Context(), w.config(on))
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { _ = l.Close() })
	return l
}

// refused opens the log on a stream, which must end in an error and store nothing.
func (w writer) refused(on *stream, want error) {
	w.t.Helper()
	before := len(on.entries)
	l, err := translog.Open(w.t.Context(), w.config(on))
	if !errors.Is(err, want) {
		w.t.Errorf("opened: %v, want %v", err, want)
	}
	if err == nil {
		_ = l.Close()
	}
	if len(on.entries) != before {
		w.t.Errorf("%d entries were stored", len(on.entries)-before)
	}
}

// appends appends manifests of some epochs.
func (w writer) appends(l *translog.Log, epochs ...uint64) {
	w.t.Helper()
	for _, epoch := range epochs {
		if err := l.AppendAudit(w.t.Context(), wire.KindManifest, manifest(w.t, epoch, w.id)); err != nil {
			w.t.Fatal(err)
		}
	}
}

// check holds the leaves of a stream against the epochs whose manifests they must be.
func (w writer) check(on *stream, epochs ...uint64) {
	w.t.Helper()
	var want [][]byte
	for _, epoch := range epochs {
		want = append(want, manifest(w.t, epoch, w.id))
	}
	if got := on.leaves(w.id); !slices.EqualFunc(got, want, bytes.Equal) {
		w.t.Errorf("%d leaves, or others than the %d of %v", len(got), len(want), epochs)
	}
}

package shuffler

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/riffle-dp/riffle/internal/bus"
	"github.com/riffle-dp/riffle/internal/testing/testbed"
	"github.com/riffle-dp/riffle/internal/translog"
	"github.com/riffle-dp/riffle/pkg/transparency"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// transparent reads the shuffler's log as an outsider does: every checkpoint is of exactly the statements before it,
// the newest one covers all, and the statements are those that are given.
func (s *scene) transparent(statements ...[]byte) {
	s.t.Helper()
	by, origin := s.ShufflerParty(), transparency.Origin(testbed.Deployment, string(bus.Shuffler))
	var tree transparency.Tree
	var newest uint64
	var leaves [][]byte
	s.must(s.analyzer.Audit.ReadAudit(s.Context(), bus.AuditFilter{Role: bus.Shuffler}, func(st bus.Statement) error {
		if wire.Leaf(st.Kind, st.Payload, by) {
			tree.Append(st.Payload)
			leaves = append(leaves, st.Payload)
			return nil
		}
		c, err := transparency.Open(st.Payload, origin, by.Key)
		if err != nil {
			return err
		}
		if c.Size != tree.Size() || c.Root != tree.Root() || c.Size <= newest {
			s.t.Errorf("a checkpoint of %d statements behind %d", c.Size, tree.Size())
		}
		newest = c.Size
		return nil
	}))
	if newest != tree.Size() || !slices.EqualFunc(leaves, statements, bytes.Equal) {
		s.t.Errorf("a checkpoint of %d statements; the log has %d, expected %d", newest, tree.Size(), len(statements))
	}
}

// A state folder that is older than the audit stream, or lost, goes on with the log that the stream shows.
func TestARestoredStateFolderGoesOnWithItsLog(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.start()
	s.open(s.announcement())
	folder := s.backup()
	s.cohort(0, 12, 12)
	s.manifest(1, 0)
	s.finished()
	s.open(s.next())
	s.restore(folder)
	s.reopen()
	s.cohort(20, 12, 12)
	s.manifest(2, 0)
	s.finished()
	all := s.logged()
	if len(all) != 2 {
		t.Fatalf("%d manifests", len(all))
	}
	s.transparent(all...)
	s.must(s.stop())
	s.config.StateDir = t.TempDir()
	s.start()
	s.eventually("the log is taken in", func() bool { return s.shuffler.log.Size() == 2 })
	s.transparent(all...)
}

// A shuffler whose log in the stream is not its own decides nothing, and says why.
func TestAShufflerWhoseLogForkedDecidesNothing(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.start()
	s.open(s.announcement())
	s.cohort(0, 12, 12)
	s.manifest(1, 0)
	s.finished()
	s.open(s.next())
	s.must(s.stop())
	forged, err := transparency.Sign(transparency.Checkpoint{
		Origin: transparency.Origin(testbed.Deployment, string(bus.Shuffler)), Size: 1, Root: transparency.EmptyRoot(),
	}, s.Shuffler)
	s.must(err)
	s.must(s.broker.Audit.AppendAudit(s.Context(), wire.KindCheckpoint, forged))
	s.start()
	s.eventually("not ready", func() bool {
		return strings.Contains(s.why(historyCondition), "is not the one that this role wrote")
	})
	trouble, err := s.shuffler.history.recall(s.Context())
	if trouble == nil || err != nil {
		t.Errorf("%v, %v", trouble, err)
	}
	s.reopen()
	s.cohort(20, 12, 12)
	s.eventually("all reports wait at the broker", func() bool {
		b, err := s.broker.Reports.Backlog(s.Context())
		return err == nil && b.Waiting == 12 && s.shuffler.Held() == 0
	})
	if clear, err := s.shuffler.history.consistent(s.Context(), &look{begun: true}); clear || err != nil {
		t.Errorf("decisions may be made: %v, %v", clear, err)
	}
}

// A shuffler whose log cannot be written stops: its memory may be ahead of its disk. No manifest leaves.
func TestAShufflerThatCannotWriteItsLogStops(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.start()
	s.open(s.announcement())
	s.must(s.shuffler.log.Close())
	s.cohort(0, 12, 12)
	s.mu.Lock()
	s.dead = true // it ends by itself
	s.mu.Unlock()
	if err := s.stop(); !errors.Is(err, errFatal) || !errors.Is(err, translog.ErrDisk) {
		t.Errorf("stopped by %v", err)
	}
	if _, err := s.analyzer.Mixed.ReadManifest(s.Context(), 1, 0); !errors.Is(err, bus.ErrGone) {
		t.Errorf("the manifest left: %v", err)
	}
}

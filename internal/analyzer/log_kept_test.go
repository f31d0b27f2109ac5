package analyzer

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/riffle-dp/riffle/internal/bus"
	"github.com/riffle-dp/riffle/internal/testing/testbed"
	"github.com/riffle-dp/riffle/internal/translog"
	"github.com/riffle-dp/riffle/pkg/glm"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// With a state folder the log outlives a broker whose data is lost: it gets everything back, and the analyzer goes on
// without the messages of rounds that it counted.
func TestALogOnDiskComesBack(t *testing.T) {
	t.Parallel()
	s := newScene(t, glm.Practical)
	s.config.LogPath = filepath.Join(t.TempDir(), logFile)
	s.start()
	a, digest := s.announcement(1, 0)
	empty := s.Backup()
	r, _ := s.honest(a, digest, cohort)
	s.publish(r)
	counts := s.counts(1, 0)
	next, _ := s.announcement(2, 0)
	s.must(s.stop())
	log := s.log()
	s.Restore(empty)
	s.start()
	if again, _ := s.announcement(2, 0); !bytes.Equal(again.Previous, next.Previous) {
		t.Error("another second epoch is announced")
	}
	if again := s.counts(1, 0); !sameOnes(again, ones(counts)) {
		t.Error("other counts")
	}
	s.must(s.stop())
	if got := s.log(); !slices.Equal(got, log) {
		t.Errorf("the log has\n%q, it had\n%q", got, log)
	}
}

// ones are those of counts.
func ones(c *wire.Counts) (all [][]uint64) {
	for _, r := range c.Releases {
		all = append(all, r.Ones)
	}
	return all
}

// full is a broker whose audit log takes no statement.
type full struct{ Broker }

func (full) AppendAuditAfter(context.Context, string, []byte, uint64) (uint64, error) {
	return 0, fmt.Errorf("append: %w", bus.ErrFull)
}

// A full audit log stops the analyzer before it announces, with what to do.
func TestAFullAuditLogSaysWhatToDo(t *testing.T) {
	t.Parallel()
	s := newScene(t, glm.Practical)
	s.config.Bus, s.config.LogPath = full{s.config.Bus}, filepath.Join(t.TempDir(), logFile)
	for range 2 { // the second time there is something on disk that the broker lacks
		s.start()
		s.end()
		err := s.stop()
		if !errors.Is(err, bus.ErrFull) || !strings.Contains(err.Error(), "--max-audit-bytes") {
			t.Errorf("%v", err)
		}
	}
	if all, err := s.auditor.Announcements.ReadAnnouncements(s.Context()); err != nil || len(all) != 0 {
		t.Errorf("%d announcements, %v", len(all), err)
	}
}

// A broker whose data is set back under a running analyzer, and that fills up again, shows new statements at places
// that the analyzer read before. It reads the log again from its beginning.
func TestALogThatWasSetBackIsReadAgain(t *testing.T) {
	t.Parallel()
	s := newScene(t, glm.Practical)
	s.start()
	s.announcement(1, 0)
	s.must(s.stop())
	log, err := translog.Open(s.Context(), translog.Config{
		Deployment: testbed.Deployment, Role: bus.Analyzer, Identity: s.Analyzer, Broker: s.config.Bus,
	})
	s.must(err)
	z, err := New(s.config)
	s.must(err)
	z.bus = logged{s.config.Bus, log}
	h := newHistory()
	s.must(z.readOn(s.Context(), &h))
	h.last += 100
	learned := &wire.Learned{
		Deployment: testbed.Deployment, Epoch: 1, Announcement: make([]byte, 32), Counts: make([]byte, 32),
		Policy: make([]byte, 32), Destroyed: true, Iterate: []float64{0, 0},
	}
	if err := z.logLearned(s.Context(), &h, learned); err != nil || h.last > 100 || len(h.learned) != 1 {
		t.Errorf("%v, read up to %d", err, h.last)
	}
}

package analyzer

import (
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/riffle-dp/riffle/internal/channel/shuffle"
	"github.com/riffle-dp/riffle/internal/testing/testbed"
	"github.com/riffle-dp/riffle/pkg/glm"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/protocol"
	"github.com/riffle-dp/riffle/pkg/seal"
)

// report is one report's bit messages, sealed.
func (s *scene) report(a *plan.Announcement, digest [32]byte) []byte {
	s.t.Helper()
	all, _ := bits(a.Encodings, 1, half)
	return s.seal(a, digest, all...)
}

// permuted is a release of these messages in a random order.
func (s *scene) permuted(a *plan.Announcement, digest [32]byte, messages []byte, reports int) *release {
	s.t.Helper()
	all := slices.Collect(slices.Chunk(messages, seal.BitSize))
	protocol.Permute(all, testbed.Source())
	return s.cut(a, digest, slices.Concat(all...), reports)
}

// A malicious shuffler forwards copies of one person's bits in place of others', which multiplies that person's part in
// what is published and adds no noise. The release is refused, with a reason of its own.
func TestCopiesAreRefused(t *testing.T) {
	t.Parallel()
	for name, attack := range map[string]func(s *scene, a *plan.Announcement, digest [32]byte) []byte{
		"one person in place of all": func(s *scene, a *plan.Announcement, digest [32]byte) (all []byte) {
			victim := s.report(a, digest)
			for range a.Cohort.Size {
				all = append(all, victim...)
			}
			return all
		},
		"one person twice": func(s *scene, a *plan.Announcement, digest [32]byte) []byte {
			all := s.report(a, digest)
			all = append(all, all...)
			for range a.Cohort.Size - 2 {
				all = append(all, s.report(a, digest)...)
			}
			return all
		},
		"one bit twice": func(s *scene, a *plan.Announcement, digest [32]byte) (all []byte) {
			for range a.Cohort.Size {
				all = append(all, s.report(a, digest)...)
			}
			copy(all[len(all)-seal.BitSize:], all)
			return all
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newScene(t, glm.Practical)
			s.config.Terms.DishonestReports = 1 // what is malformed may be borne, a copy never
			s.start()
			a, digest := s.announcement(1, 0)
			messages := attack(s, a, digest)
			s.publish(s.permuted(a, digest, messages, int(a.Cohort.Size)))
			if c := s.counts(1, 0); !c.Destroyed || len(c.Releases) != 0 {
				t.Errorf("counts %v", c)
			}
			if n := testbed.Refused(s.analyzer.c.Messages, shuffle.Repeated); n != len(messages)/seal.BitSize {
				t.Errorf("%d messages, account %+v", len(messages)/seal.BitSize, s.analyzer.c.Messages.Balance())
			}
			s.must(s.stop())
		})
	}
}

// The analyzer acts on no manifest that is not in the audit log: it neither counts nor announces until it is.
func TestManifestIsLoggedFirst(t *testing.T) {
	t.Parallel()
	s := newScene(t, glm.Practical)
	var unmet atomic.Value
	s.config.Notice = func(condition string, err error) { unmet.Store(condition + ": " + fmt.Sprint(err)) }
	s.start()
	a, digest := s.announcement(1, 0)
	r, ones := s.honest(a, digest, int(a.Cohort.Size))
	for i, c := range r.chunks {
		s.must(s.shuffler.PublishChunk(s.Context(), 1, 0, uint32(i), c))
	}
	signed, _ := s.Sign(r.manifest, s.Shuffler)
	s.must(s.shuffler.PublishManifest(s.Context(), 1, 0, signed))
	// A statement that is not this manifest is no substitute.
	another, _ := s.Sign(destroyed(a, digest).manifest, s.Shuffler)
	s.must(s.shuffler.AppendAudit(s.Context(), "manifest", another))
	unlogged := "manifest: the shuffler published the manifest of round 0 of epoch 1"
	testbed.Eventually(t, "not ready, because nothing can be counted", func() bool { // it has looked, and looks again
		why, _ := unmet.Load().(string)
		return strings.Contains(why, unlogged)
	})
	time.Sleep(poll + poll/4)
	if b := s.analyzer.c.Messages.Balance(); b.Received != 0 || len(s.analyzer.Progress().Releases) != 0 {
		t.Errorf("counted before the manifest was logged: %+v", b)
	}
	if all, err := s.auditor.Announcements(s.Context()); err != nil || len(all) != 1 {
		t.Errorf("%d announcements, %v", len(all), err)
	}
	if why, _ := unmet.Load().(string); !strings.Contains(why, unlogged) {
		t.Errorf("ready, although nothing can be counted: %q", why)
	}
	s.must(s.shuffler.AppendAudit(s.Context(), "manifest", signed))
	c := s.counts(1, 0)
	if why := unmet.Load(); why != "manifest: <nil>" {
		t.Errorf("not ready: %q", why)
	}
	if !sameOnes(c, ones) {
		t.Errorf("counts %v", c)
	}
	s.announcement(2, 0)
	s.must(s.stop())
}

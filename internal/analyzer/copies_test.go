package analyzer

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/riffle-dp/riffle/internal/bus"
	"github.com/riffle-dp/riffle/internal/channel/shuffle"
	"github.com/riffle-dp/riffle/internal/testing/testbed"
	"github.com/riffle-dp/riffle/pkg/glm"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/protocol"
	"github.com/riffle-dp/riffle/pkg/seal"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// report is one report's bit messages, sealed.
func (s *scene) report(a *plan.Announcement, digest [32]byte) []byte {
	s.t.Helper()
	all, _ := bits(a.Encodings, 1, half)
	return s.seal(a, digest, all...)
}

// releaseOf is a release of these messages in a random order.
func (s *scene) releaseOf(a *plan.Announcement, digest [32]byte, messages []byte, reports int) *release {
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
			s.publish(s.releaseOf(a, digest, messages, int(a.Cohort.Size)))
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
		s.must(s.shuffler.Mixed.PublishChunk(s.Context(), 1, 0, uint32(i), c))
	}
	signed, _ := s.Sign(r.manifest, s.Shuffler)
	s.must(s.shuffler.Mixed.PublishManifest(s.Context(), 1, 0, signed))
	// A statement of another is no substitute.
	another, _ := s.Sign(destroyedRelease(a, digest).manifest, testbed.NewIdentity(t))
	s.must(s.shuffler.Audit.AppendAudit(s.Context(), "manifest", another))
	unlogged := "manifest: the shuffler published the manifest of round 0 of epoch 1"
	testbed.Eventually(t, "not ready, because nothing can be counted", func() bool { // it has looked, and looks again
		why, _ := unmet.Load().(string)
		return strings.Contains(why, unlogged)
	})
	s.looksOn()
	if b := s.analyzer.c.Messages.Balance(); b.Received != 0 || len(s.analyzer.Progress().Releases) != 0 {
		t.Errorf("counted before the manifest was logged: %+v", b)
	}
	if all, err := s.auditor.Announcements.ReadAnnouncements(s.Context()); err != nil || len(all) != 1 {
		t.Errorf("%d announcements, %v", len(all), err)
	}
	if why, _ := unmet.Load().(string); !strings.Contains(why, unlogged) {
		t.Errorf("ready, although nothing can be counted: %q", why)
	}
	s.must(s.shuffler.Audit.AppendAudit(s.Context(), "manifest", signed))
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

// Of two manifests of a round that the shuffler signed, the first in the audit log counts, whichever of them lies at
// the manifest's place: an audit of the same log takes that one, too.
func TestTheFirstManifestInTheLogCounts(t *testing.T) {
	t.Parallel()
	for name, of := range map[string]struct {
		logged    []int
		published int
		copied    bool // the first in the log is under another name than the shuffler gives
	}{
		"the first published":                                {[]int{0, 1}, 0, false},
		"the second published":                               {[]int{0, 1}, 1, false},
		"the second alone published, and logged before it":   {[]int{1, 0}, 0, false},
		"a copy that the shuffler did not append, before it": {[]int{1, 0}, 0, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newScene(t, glm.Practical)
			var copied atomic.Pointer[[]byte]
			s.config.Bus = shiftedAudit{s.config.Bus, new(atomic.Uint64), &copied}
			s.start()
			a, digest := s.announcement(1, 0)
			r, ones := s.honest(a, digest, int(a.Cohort.Size))
			for i, c := range r.chunks {
				s.must(s.shuffler.Mixed.PublishChunk(s.Context(), 1, 0, uint32(i), c))
			}
			released, _ := s.Sign(r.manifest, s.Shuffler)
			lost, _ := s.Sign(destroyedRelease(a, digest).manifest, s.Shuffler)
			both := [][]byte{released, lost}
			counts := of.logged[0]
			if of.copied {
				copied.Store(&both[counts])
				counts = of.logged[1]
			}
			for _, i := range of.logged {
				s.must(s.shuffler.Audit.AppendAudit(s.Context(), wire.KindManifest, both[i]))
			}
			s.must(s.shuffler.Mixed.PublishManifest(s.Context(), 1, 0, both[of.published]))
			c := s.counts(1, 0)
			_, first, err := wire.Open[wire.Manifest](both[counts], s.ShufflerParty())
			if err != nil || !bytes.Equal(c.Manifest, first[:]) || c.Destroyed == sameOnes(c, ones) ||
				c.Destroyed != (counts == 1) {
				t.Errorf("counted under %x, destroyed %v; the one that counts is %x, %v", c.Manifest, c.Destroyed,
					first, err)
			}
			s.must(s.stop())
		})
	}
}

// shiftedAudit is a broker whose audit log shows the shuffler's statements at later places, and one of them under
// another name than its own.
type shiftedAudit struct {
	Broker
	by     *atomic.Uint64
	copied *atomic.Pointer[[]byte]
}

func (b shiftedAudit) ReadAudit(ctx context.Context, f bus.AuditFilter, handler func(bus.Statement) error) error {
	by := b.by.Load()
	f.After -= min(f.After, by)
	return b.Broker.ReadAudit(ctx, f, func(s bus.Statement) error {
		if f.Role == bus.Shuffler {
			s.Sequence += by
			copied := b.copied.Load()
			s.Misnamed = copied != nil && bytes.Equal(s.Payload, *copied)
		}
		return handler(s)
	})
}

// A broker whose data was set back shows the next manifest at a place that was read before. It is found there.
func TestAManifestIsFoundInALogThatWasSetBack(t *testing.T) {
	t.Parallel()
	s := newScene(t, glm.Practical)
	var by atomic.Uint64
	by.Store(1000)
	s.config.Bus = shiftedAudit{s.config.Bus, &by, new(atomic.Pointer[[]byte])}
	s.start()
	for epoch := range uint64(2) {
		a, digest := s.announcement(epoch+1, 0)
		r, ones := s.honest(a, digest, int(a.Cohort.Size))
		s.publish(r)
		if c := s.counts(epoch+1, 0); !sameOnes(c, ones) {
			t.Errorf("epoch %d is counted as %v", epoch+1, c)
		}
		by.Store(0)
	}
	s.must(s.stop())
}

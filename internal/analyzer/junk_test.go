package analyzer

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/riffle-dp/riffle/internal/bus"
	"github.com/riffle-dp/riffle/internal/testing/testbed"
	"github.com/riffle-dp/riffle/pkg/glm"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// A thief of the analyzer's broker credential, without its signing key, can store anything at places to come and in the
// analyzer's part of the audit log, before the analyzer starts, while it runs and while it is away. Nothing stops,
// everything is announced and counted as without the junk, and the log names the cause.
func TestJunkStopsNothing(t *testing.T) {
	t.Parallel()
	s := newScene(t, glm.Practical)
	log := new(logBuffer)
	s.config.Log = zerolog.New(log)
	thief := s.Connect(bus.Analyzer)
	for _, epoch := range []uint64{1, 2, 900} {
		s.Junk(thief, epoch, 0)
	}
	for _, kind := range []string{wire.KindConfiguration, wire.KindAnnouncement, wire.KindCounts, wire.KindLearned} {
		s.must(thief.Audit.AppendAudit(s.Context(), kind, []byte("junk")))
	}
	s.start()
	a, digest := s.announcement(1, 0)
	genuine, _ := s.Sign(a, s.Analyzer)
	for _, epoch := range []uint64{1, 2, 3} {
		s.Junk(thief, epoch, 0, genuine) // for 2 and 3 a genuine one at a place that is not its
	}
	forged, _ := s.Sign(&wire.Counts{
		Deployment: testbed.Deployment, Epoch: 1, Announcement: digest[:], Manifest: make([]byte, 32), Destroyed: true,
	}, testbed.NewIdentity(t))
	s.must(thief.Audit.AppendAudit(s.Context(), wire.KindCounts, forged))
	s.must(thief.Audit.AppendAudit(s.Context(), wire.KindLearned, genuine)) // of the analyzer, and of another kind
	r, ones := s.honest(a, digest, cohort)
	s.publish(r)
	if b, _ := s.announcement(2, 0); !bytes.Equal(b.Previous, digest[:]) {
		t.Error("epoch 2 does not follow epoch 1")
	}
	s.must(s.stop())
	if !strings.Contains(log.String(), "rotate") || !strings.Contains(log.String(), `"level":"warn"`) {
		t.Errorf("the log does not name the cause: %s", log.String())
	}
	s.start()
	a, digest = s.announcement(2, 0)
	r, _ = s.honest(a, digest, cohort)
	s.publish(r)
	s.announcement(3, 0)
	s.must(s.stop())
	if c := s.counts(1, 0); !sameOnes(c, ones) {
		t.Errorf("epoch 1 was counted as %v", c)
	}
	round := []string{wire.KindAnnouncement, wire.KindCounts, wire.KindLearned}
	want := slices.Concat([]string{wire.KindConfiguration}, round, round, round[:1])
	if got := s.kinds(); !slices.Equal(got, want) {
		t.Errorf("the transparency log has %q, want %q", got, want)
	}
	s.log()
}

// Two analyzers with one key: the announcement that the broker stored first counts for every reader, and the analyzer
// whose it is not stops. Where the other one is there already it stores nothing.
func TestSecondAnalyzer(t *testing.T) {
	t.Parallel()
	s := newScene(t, glm.Practical)
	s.start()
	a, digest := s.announcement(1, 0)
	rival := a.Clone()
	rival.Epoch, rival.Previous, rival.Timing.RewardWindow = 2, digest[:], rival.Timing.RewardWindow+time.Millisecond
	s.Announce(s.Connect(bus.Analyzer), rival) // behind the analyzer's back: it has read its past
	r, _ := s.honest(a, digest, cohort)
	s.publish(r)
	s.end()
	if err := s.stop(); !errors.Is(err, ErrConfigChanged) || !strings.Contains(err.Error(), "another analyzer") {
		t.Fatalf("behind another analyzer: %v", err)
	}
	before, err := s.auditor.Announcements.ReadAnnouncementsAt(s.Context(), 2, 0)
	s.must(err)
	s.start()
	s.end()
	if err := s.stop(); !errors.Is(err, ErrConfigChanged) {
		t.Errorf("after a restart: %v", err)
	}
	after, err := s.auditor.Announcements.ReadAnnouncementsAt(s.Context(), 2, 0)
	if err != nil || len(after) != len(before) || len(before) != 2 {
		t.Errorf("%d announcements of epoch 2, then %d, %v", len(before), len(after), err)
	}
}

// What lies at a manifest's place and is not the shuffler's stops nothing: of whoever has the shuffler's broker
// credential, or an older manifest that a broker shows there. Once the genuine one is in the audit log it counts.
func TestJunkAtAManifestsPlaceStopsNothing(t *testing.T) {
	t.Parallel()
	s := newScene(t, glm.Practical)
	var unmet atomic.Value
	s.config.Notice = func(condition string, err error) { unmet.Store(condition + ": " + fmt.Sprint(err)) }
	s.start()
	var old []byte
	for epoch, junk := range [][]byte{[]byte("junk"), nil} {
		a, digest := s.announcement(uint64(epoch+1), 0)
		if junk == nil {
			junk = old // genuine, and of another round
		}
		s.must(s.shuffler.Mixed.PublishManifest(s.Context(), a.Epoch, 0, junk))
		testbed.Eventually(t, "not ready", func() bool {
			why, _ := unmet.Load().(string)
			return strings.Contains(why, "is not the shuffler's")
		})
		r, ones := s.honest(a, digest, cohort)
		for i, c := range r.chunks {
			s.must(s.shuffler.Mixed.PublishChunk(s.Context(), a.Epoch, 0, uint32(i), c))
		}
		old, _ = s.Sign(r.manifest, s.Shuffler)
		s.must(s.shuffler.Audit.AppendAudit(s.Context(), wire.KindManifest, old))
		if c := s.counts(a.Epoch, 0); !sameOnes(c, ones) {
			t.Errorf("epoch %d was counted as %v", a.Epoch, c)
		}
		if why := unmet.Load(); why != "manifest: <nil>" {
			t.Errorf("not ready: %q", why)
		}
	}
	s.must(s.stop())
}

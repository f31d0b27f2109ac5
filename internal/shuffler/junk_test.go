package shuffler

import (
	"testing"
	"time"

	"github.com/riffle-dp/riffle/internal/bus"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// What lies at an announcement's place and is not the analyzer's opens nothing and stops nothing, wherever it lies and
// whenever it came. Of two that the analyzer signed for one place the first counts, whatever lies before and between
// them.
func TestJunkAnnouncementsOpenAndStopNothing(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	thief := s.Connect(bus.Analyzer)
	a := s.announcement()
	for _, epoch := range []uint64{1, 2, 900} {
		s.Junk(thief, epoch, 0)
	}
	s.start()
	refused := func(n int) {
		t.Helper()
		s.eventually("refused", func() bool {
			b := s.shuffler.c.Announcements.Balance()
			total := uint64(0)
			for _, c := range b.Refused {
				total += c.Items
			}
			return int(total) == n
		})
	}
	refused(9)
	s.open(a)
	genuine, _ := s.Sign(a, s.Analyzer)
	second := a.Clone()
	second.Timing.RewardWindow += time.Millisecond
	s.Announce(thief, second)
	s.Junk(thief, 1, 0)          // stored before
	s.Junk(thief, 2, 0, genuine) // a genuine one at a place that is not its
	refused(9 + 1 + 1 + 2)
	s.enrol(12)
	s.sendAll(12)
	if m := s.manifest(1, 0); m.Reports != 12 || [32]byte(m.Announcement) != s.digest {
		t.Errorf("manifest %v", m)
	}
	s.finished()
}

// Whoever has the shuffler's broker credential can be first at a manifest's place. The round is over all the same, with
// the manifest in the audit log.
func TestJunkAtAManifestsPlaceHoldsUpNoRound(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.must(s.broker.Mixed.PublishManifest(s.Context(), 1, 0, []byte("junk")))
	s.start()
	s.open(s.announcement())
	s.enrol(12)
	s.sendAll(12)
	found := false
	s.eventually("in the audit log", func() bool {
		s.must(s.Connect(bus.Auditor).Audit.ReadAudit(s.Context(),
			bus.AuditFilter{Role: bus.Shuffler, Kind: wire.KindManifest},
			func(st bus.Statement) error {
				m, _, err := wire.Open[wire.Manifest](st.Payload, s.ShufflerParty())
				found = found || err == nil && m.Epoch == 1 && m.Reports == 12
				return nil
			}))
		return found
	})
	s.finished()
}

package shuffler

import (
	"testing"
	"time"
)

// Two analyzers ran with one key, and both announced a round: what was stored first counts, for a shuffler that holds
// its journal against the broker, or begins without one, as for every other role. Nothing is stuck over the second.
func TestSecondAnnouncementOfARoundCountsForNothing(t *testing.T) {
	t.Parallel()
	for name, fresh := range map[string]bool{"journal kept": false, "journal lost": true} {
		for at, over := range map[string]bool{"open": false, "over": true} {
			t.Run(name+", round "+at, func(t *testing.T) {
				t.Parallel()
				s := newScene(t)
				s.start()
				empty := s.backup()
				s.open(s.announcement())
				first, digest := s.opened, s.digest
				second := first.Clone()
				second.Timing.Jitter += time.Millisecond
				s.Announce(s.analyzer, second)
				s.opened, s.digest = first, digest
				s.enrol(12)
				if over {
					s.sendAll(12)
					s.manifest(1, 0)
					s.finished()
				}
				if fresh {
					s.restore(empty)
				} else {
					s.must(s.stop())
					s.start()
				}
				s.eventually("held against the broker", func() bool {
					s.shuffler.mu.Lock()
					defer s.shuffler.mu.Unlock()
					return s.shuffler.recalled || s.shuffler.trouble != nil
				})
				if why := s.why(historyCondition); why != "" {
					t.Fatalf("not ready: %s", why)
				}
				if over {
					s.open(s.next())
					return
				}
				s.reopen()
				if fresh {
					s.enrol(12)
				}
				s.sendAll(12)
				s.released(12)
			})
		}
	}
}

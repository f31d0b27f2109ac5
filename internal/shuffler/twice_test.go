package shuffler

import (
	"errors"
	"testing"
	"time"

	"github.com/riffle-dp/riffle/internal/testing/testbed"
	"github.com/riffle-dp/riffle/pkg/wire"
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

// A manifest of this shuffler's that is about another announcement than the one that the broker shows opens nothing and
// ends nothing: the broker shows another history than the one that was signed.
func TestAManifestOfAnotherAnnouncementIsNoWordOfThisRound(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.Announce(s.analyzer, s.announcement())
	signed, _ := s.Sign(&wire.Manifest{
		Deployment: testbed.Deployment, Epoch: 1, Announcement: testbed.Contribution(3), Outcome: wire.Destroyed,
	}, s.Shuffler)
	s.must(s.broker.Mixed.PublishManifest(s.Context(), 1, 0, signed))
	sh := s.idle()
	trouble, err := sh.history.recall(s.Context())
	s.must(err)
	if !errors.Is(trouble, errBroker) {
		t.Errorf("trouble %v", trouble)
	}
	if last, opened := sh.state.Last(); opened {
		t.Errorf("round %d of epoch %d is opened", last.Round, last.Epoch)
	}
}

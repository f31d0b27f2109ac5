package analyzer

import (
	"reflect"
	"testing"

	"github.com/riffle-dp/riffle/internal/testing/testbed"
	"github.com/riffle-dp/riffle/pkg/glm"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// A broker whose data was set back shows the analyzer an earlier round, whose chunks are gone by the time the newer data is back. What the
// analyzer signed before stays: it neither signs other counts nor another announcement.
func TestBrokerSetBackAndForward(t *testing.T) {
	t.Parallel()
	s := newScene(t, glm.Practical)
	s.start()
	a, digest := s.announcement(1, 0)
	older := s.Backup()
	r, _ := s.honest(a, digest, cohort)
	s.publish(r)
	first := s.counts(1, 0)
	next, nextDigest := s.announcement(2, 0)
	s.must(s.stop())

	newer := s.Restore(older)
	s.start()
	testbed.Eventually(t, "the older data was read", func() bool { return s.analyzer.Progress().Epoch == 1 })
	s.Restore(newer)
	r, _ = s.honest(next, nextDigest, cohort)
	s.publish(r)
	s.counts(2, 0)
	s.announcement(3, 0)
	if again := s.counts(1, 0); !reflect.DeepEqual(again, first) {
		t.Errorf("epoch 1 is counted as %v, it was %v", again, first)
	}
	signed := 0
	all, err := s.auditor.Announcements(s.Context())
	s.must(err)
	for _, stored := range all {
		if _, _, err := wire.OpenAnnouncement(stored.Payload, stored.Epoch, stored.Round, s.AnalyzerParty()); err == nil && stored.Epoch == 2 {
			signed++
		}
	}
	if signed != 1 {
		t.Errorf("epoch 2 has %d announcements", signed)
	}
	s.must(s.stop())
}

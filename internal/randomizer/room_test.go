package randomizer

import (
	"fmt"
	"testing"

	"github.com/riffle-dp/riffle/internal/broker"
	"github.com/riffle-dp/riffle/internal/bus"
	"github.com/riffle-dp/riffle/internal/testing/testbed"
	"github.com/riffle-dp/riffle/pkg/glm"
)

// crowdedScene is a scene at a broker that takes two reports of a host at a time, of whose five people all have
// promised one.
func crowdedScene(t *testing.T) *scene {
	t.Helper()
	s := newScene(t, func(_ *broker.Options, p *bus.ProvisionOptions) { p.HostReports = 2 })
	s.start()
	s.open(s.Announcement(glm.Practical, 12))
	for i := range 5 {
		s.decide(fmt.Sprintf("person-%d", i), twoArms)
	}
	testbed.Eventually(t, "handed in, as far as there is room", func() bool { return s.host.Pending() == 3 })
	return s
}

// What does not fit at the broker now is sent once there is room: a promised report is not given up for that.
func TestReportsWaitForRoom(t *testing.T) {
	t.Parallel()
	s := crowdedScene(t)
	for n := uint64(2); n <= 4; n += 2 {
		s.came(int(n)) // what is purged before it is delivered never comes
		s.must(s.shuffler.Reports.PurgeReports(s.Context(), n))
		testbed.Eventually(t, "handed in", func() bool { return s.host.Pending() == int64(max(0, 3-int(n))) })
	}
	s.reports(5)
	if n := s.host.c.Reports.Balance().Released; n != 5 {
		t.Errorf("%d reports are with the broker, of 5", n)
	}
}

// Once their round is over, nobody would admit them: they are given up.
func TestReportsDoNotWaitForever(t *testing.T) {
	t.Parallel()
	s := crowdedScene(t)
	next := s.Announcement(glm.Practical, 12)
	_, digest := s.Sign(s.announced, s.Analyzer)
	next.Epoch, next.Previous = 2, digest[:]
	s.open(next)
	testbed.Eventually(t, "given up", func() bool { return s.host.Pending() == 0 })
	if n := s.countRefused(EpochOver); n != 3 {
		t.Errorf("%d reports given up because their epoch is over, of 3; account %+v", n, s.host.c.Reports.Balance())
	}
	s.reports(2)
}

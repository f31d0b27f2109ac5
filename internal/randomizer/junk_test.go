package randomizer

import (
	"io"
	"strings"
	"testing"

	"github.com/riffle-dp/riffle/internal/bus"
	"github.com/riffle-dp/riffle/internal/role"
	"github.com/riffle-dp/riffle/internal/testing/testbed"
)

// What lies at an announcement's place and is not the analyzer's is passed over, before the host starts, while it runs
// and after a restart: people are enrolled under the genuine announcement, and nothing is said to be refused. Of two
// that the analyzer signed for one place the first counts, and the second is another history.
func TestJunkAnnouncements(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	env, err := role.NewEnv("randomizer", role.DefaultSettings("127.0.0.1:0"), io.Discard)
	s.must(err)
	s.config.Following = env.Health.Condition("announcements")
	thief := s.Connect(bus.Analyzer)
	for _, epoch := range []uint64{1, 2, 900} {
		s.Junk(thief, epoch, 0)
	}
	s.start()
	testbed.Eventually(t, "a host that knows nothing but foreign announcements says so",
		func() bool { return s.host.Status().Refused != "" })
	a := s.unhurried(12)
	digest := s.open(a)
	genuine, _ := s.Sign(a, s.Analyzer)
	sampled := func(device string) {
		t.Helper()
		if got := s.host.Status(); got.Refused != "" || !got.Enrolling {
			t.Errorf("status %+v", got)
		}
		if d := s.decide(device, twoArms); d["sampled"] != true {
			t.Errorf("decision %v", d)
		}
		if err := env.Health.Ready(); err != nil {
			t.Errorf("not ready: %v", err)
		}
	}
	sampled("x")
	skipped := func() int { return strings.Count(s.logged.String(), "is not the analyzer's is skipped") }
	before := skipped()
	s.Junk(thief, 1, 0)
	s.Junk(thief, 2, 0, genuine)
	testbed.Eventually(t, "junk was seen", func() bool { return skipped() == before+3 })
	sampled("y")
	if strings.Contains(s.logged.String(), `"level":"error"`) {
		t.Errorf("junk is an error: %s", s.logged.String())
	}
	next := s.unhurried(12)
	next.Epoch, next.Previous = 2, digest[:]
	s.open(next)
	sampled("z")

	second := next.Clone()
	second.Cohort.Size++
	s.Announce(thief, second)
	testbed.Eventually(t, "another history",
		func() bool { return strings.Contains(s.host.Status().Refused, "had digest") })
	unready := func() bool {
		err := env.Health.Ready()
		return err != nil && strings.Contains(err.Error(), "announcements: ") &&
			strings.Contains(err.Error(), "had digest")
	}
	testbed.Eventually(t, "not ready", unready)
	s.must(s.stop())
	s.start()
	s.awaitRound(next)
	testbed.Eventually(t, "another history, after a restart",
		func() bool { return strings.Contains(s.host.Status().Refused, "had digest") })
	testbed.Eventually(t, "not ready after a restart", unready)
	if d := s.decide("w", twoArms); d["sampled"] != true { // under the first
		t.Errorf("decision %v", d)
	}
}

package shuffler

import (
	"strings"
	"testing"

	"github.com/riffle-dp/riffle/internal/role"
	"github.com/riffle-dp/riffle/internal/testing/testbed"
	"github.com/riffle-dp/riffle/pkg/seal"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// Words that the analyzer did not sign, under its credential at the broker, are no contribution.
func TestForeignContributionsAreSkipped(t *testing.T) {
	t.Parallel()
	s := registered(t)
	s.open(panelled(s.announcement()))
	for _, by := range []*seal.Identity{testbed.NewIdentity(t), s.Shuffler} {
		s.reveal(by, func(d *wire.Draw) { d.Contribution = testbed.Contribution(7) })
	}
	s.must(s.analyzer.Audit.AppendAudit(s.Context(), wire.KindDraw, []byte("junk")))
	s.reveal(s.Analyzer, func(d *wire.Draw) { d.Epoch = 9 })
	s.reveal(s.Analyzer)
	s.drawn()
	s.slots(20)
}

// What a panel waits for shows at once, and in readiness after a minute; readiness is met again when the wait is over.
func TestReadinessNamesWhatAPanelWaitsFor(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	quick(s)
	clock := &shifted{Clock: role.SystemClock()}
	s.config.Clock = clock
	s.start()
	s.opened = s.announcement()
	s.register(0, 18)
	s.open(panelled(s.announcement()))
	s.eventually("shown", func() bool { return s.shuffler.Snapshot().Panel.Waits != "" })
	if why := s.why(panelCondition); why != "" {
		t.Errorf("not ready at once: %s", why)
	}
	clock.by.Store(int64(2 * panelPatience))
	s.eventually("said", func() bool { return strings.Contains(s.why(panelCondition), "at least 20 devices, and 18") })
	s.register(18, 20)
	s.eventually("said", func() bool { return strings.Contains(s.why(panelCondition), "the analyzer's contribution") })
	s.reveal(s.Analyzer)
	s.drawn()
	s.eventually("ready", func() bool { return s.why(panelCondition) == "" })
}

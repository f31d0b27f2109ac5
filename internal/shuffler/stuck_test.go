package shuffler

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/riffle-dp/riffle/internal/bus"
	"github.com/riffle-dp/riffle/internal/channel/shares"
	"github.com/riffle-dp/riffle/pkg/plan"
)

// A release that cannot be carried out, here because junk lies under the name of one of its chunks, is tried again and
// again. Readiness says so.
func TestAReleaseThatIsStuckShowsInReadiness(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.start()
	s.open(s.announcement())
	s.enrol(12)
	s.must(s.broker.Mixed.PublishChunk(s.Context(), 1, 0, 1, []byte("junk")))
	s.sendAll(12)
	s.eventually("told", func() bool { return strings.Contains(s.why(releaseCondition), "round 0 of epoch 1") })
	if n := s.shuffler.Held(); n != 12 {
		t.Errorf("%d reports are held", n)
	}
}

// What fails once is tried again, and readiness says that it passed.
func TestAReleaseThatWasInterruptedIsReadyAgain(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	failed := false
	s.crash = func(after string) error {
		if after == stepChunk && !failed {
			failed = true
			return errors.New("interrupted")
		}
		return nil
	}
	s.start()
	s.open(s.announcement())
	s.enrol(12)
	s.sendAll(12)
	s.eventually("told", func() bool { return strings.Contains(s.why(releaseCondition), "interrupted") })
	s.released(12)
	s.eventually("ready", func() bool { return s.why(releaseCondition) == "" })
}

// An analyzer that leaves a round of shares without an answer shows in readiness until the answer comes.
func TestASilentAnalyzerShowsInReadiness(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.start()
	mixing := s.shuffler.channels[plan.Shares].(*shares.Mixing)
	mixing.Silent(errors.New("no answer"))
	if why := s.why(analyzerCondition); why != "no answer" {
		t.Errorf("readiness says %q of a silent analyzer", why)
	}
	mixing.Silent(nil)
	if why := s.why(analyzerCondition); why != "" {
		t.Errorf("readiness says %q of an analyzer that answered", why)
	}
}

// A broker that refuses what the shuffler must know before it decides anything keeps it from being ready, whenever that
// happens.
func TestABrokerThatIsNotReadShowsInReadiness(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.start()
	s.open(s.announcement())
	s.eventually("ready", func() bool { return s.unmetKnown(historyCondition) && s.why(historyCondition) == "" })
	s.must(s.stop())
	s.broker = s.Connect(bus.Randomizer) // may not read manifests
	sh := s.idle()
	s.mu.Lock()
	delete(s.unmet, historyCondition)
	s.mu.Unlock()
	ctx, stop := context.WithCancel(s.Context())
	done := make(chan struct{})
	go func() { defer close(done); _ = sh.releases.release(ctx) }()
	defer func() { stop(); <-done }()
	s.eventually("told", func() bool { return strings.Contains(s.why(historyCondition), "may not use") })
}

// unmetKnown reports whether a condition was told of.
func (s *scene) unmetKnown(condition string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, ok := s.unmet[condition]
	return ok
}

package analyzer

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/riffle-dp/riffle/internal/bus"
	"github.com/riffle-dp/riffle/internal/role"
	"github.com/riffle-dp/riffle/internal/testing/testbed"
	"github.com/riffle-dp/riffle/pkg/glm"
	"github.com/riffle-dp/riffle/pkg/glm/learner"
	"github.com/riffle-dp/riffle/pkg/panel"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/seal"
	"github.com/riffle-dp/riffle/pkg/wire"
)

const registered = 40 // devices, at least

// newPanelScene is a scene of panels whose people come back, with a control group.
func newPanelScene(t *testing.T) *scene {
	t.Helper()
	s := newScene(t, glm.Practical)
	s.config.Learner.Practical = learner.PracticalConfig{Panel: cohort, Decisions: 3, Control: 0.2}
	s.config.Terms.Registered, s.config.Terms.Decisions, s.config.Terms.Records = registered, 3, 2
	return s
}

// pool signs one for an announcement, with changes.
func (s *scene) pool(
	a *plan.Announcement, digest [32]byte, by *seal.Identity, change func(*wire.Pool),
) (signed []byte, named [32]byte) {
	s.t.Helper()
	p := &wire.Pool{
		Deployment: testbed.Deployment, Epoch: a.Epoch, Announcement: digest[:], Registered: registered,
		Root: bytes.Repeat([]byte{1}, 32), Contribution: bytes.Repeat([]byte{2}, 32),
	}
	if change != nil {
		change(p)
	}
	return s.Sign(p, by)
}

// say puts a pool in the audit log.
func (s *scene) say(signed []byte) {
	s.t.Helper()
	s.must(s.shuffler.Audit.AppendAudit(s.Context(), wire.KindPool, signed))
}

// logPool is what the shuffler says of an announcement that has a panel.
func (s *scene) logPool(a *plan.Announcement, digest [32]byte) (named [32]byte) {
	s.t.Helper()
	if a.Plan.Panel != nil {
		var signed []byte
		signed, named = s.pool(a, digest, s.Shuffler, nil)
		s.say(signed)
	}
	return named
}

// draws are those of an epoch in the audit log.
func (s *scene) draws(epoch uint64) (all []*wire.Draw) {
	s.t.Helper()
	filter := bus.AuditFilter{Role: bus.Analyzer, Kind: wire.KindDraw}
	s.must(s.auditor.Audit.ReadAudit(s.Context(), filter, func(st bus.Statement) error {
		d, _, err := wire.Open[wire.Draw](st.Payload, s.AnalyzerParty())
		if err == nil && d.Epoch == epoch {
			all = append(all, d)
		}
		return err
	}))
	return all
}

// draw waits for an epoch's draw, which must be from this pool and open the commitment.
func (s *scene) draw(a *plan.Announcement, digest, pool [32]byte) *wire.Draw {
	s.t.Helper()
	var all []*wire.Draw
	testbed.Eventually(s.t, "drawn", func() bool { all = s.draws(a.Epoch); return len(all) > 0 })
	d := all[0]
	if len(all) != 1 || !bytes.Equal(d.Pool, pool[:]) || !bytes.Equal(d.Announcement, digest[:]) ||
		!panel.Opens(a.Commitment, d.Contribution) {
		s.t.Fatalf("epoch %d: drawn %+v", a.Epoch, all)
	}
	return d
}

// quietly says that nothing is drawn though the analyzer has looked again.
func (s *scene) quietly(epoch uint64) {
	s.t.Helper()
	s.looksOn()
	if all := s.draws(epoch); len(all) > 0 {
		s.t.Fatalf("epoch %d is drawn: %+v", epoch, all)
	}
}

// isStored reports whether bytes are anywhere in the audit log or among the announcements.
func (s *scene) isStored(what []byte) (found bool) {
	s.t.Helper()
	s.must(s.auditor.Audit.ReadAudit(s.Context(), bus.AuditFilter{}, func(st bus.Statement) error {
		found = found || bytes.Contains(st.Payload, what)
		return nil
	}))
	all, err := s.auditor.Announcements.ReadAnnouncements(s.Context())
	s.must(err)
	for _, one := range all {
		found = found || bytes.Contains(one.Payload, what)
	}
	return found
}

// The analyzer's contribution is nowhere before the shuffler's pool is in the log; then it is there once, and
// the epoch is counted and learnt from. Another pool after the first one changes nothing, and neither does a restart.
func TestThePanelIsDrawnAfterThePool(t *testing.T) {
	t.Parallel()
	s := newPanelScene(t)
	s.start()
	seen := map[string]bool{}
	for epoch := uint64(1); epoch <= 2; epoch++ {
		a, digest := s.announcement(epoch, 0)
		own := s.analyzer.contribution(epoch, a.Previous)
		s.quietly(epoch)
		if s.isStored(own[:]) {
			t.Fatal("the contribution is out before the pool")
		}
		named := s.logPool(a, digest)
		d := s.draw(a, digest, named)
		if !bytes.Equal(d.Contribution, own[:]) || seen[string(own[:])] {
			t.Errorf("epoch %d: contributed %x", epoch, d.Contribution)
		}
		seen[string(own[:])] = true
		second, _ := s.pool(a, digest, s.Shuffler, func(p *wire.Pool) { p.Registered++ })
		s.say(second)
		s.must(s.stop())
		s.start()
		r, ones := s.honest(a, digest, cohort)
		s.publish(r)
		if c := s.counts(epoch, 0); !sameOnes(c, ones) {
			t.Errorf("epoch %d: counted %+v", epoch, c)
		}
		s.draw(a, digest, named)
	}
	next, _ := s.announcement(3, 0)
	s.must(s.stop())
	p := s.analyzer.Progress()
	if n := len(p.Learned); n != 2 || p.Learned[1].Lift == nil || p.Learned[1].Total.Reports != 2*cohort {
		t.Errorf("learned %+v", p.Learned)
	}
	v := s.analyzer.Snapshot()
	if b := v.Budget; b.Records != 2 || b.Decisions != 3 || float64(*b.Spent) >= float64(b.Epsilon) ||
		v.Learned.Total == nil || v.Learned.Epochs[1].Lift == nil {
		t.Errorf("the status shows %+v, %+v", v.Budget, v.Learned)
	}
	if next.Policy.Control != 0.2 {
		t.Errorf("the control group is %v of decisions", next.Policy.Control)
	}
}

// Pools of others, for other announcements and epochs are passed over.
func TestAPoolOfAnotherIsNotDrawnFrom(t *testing.T) {
	t.Parallel()
	s := newPanelScene(t)
	s.start()
	a, digest := s.announcement(1, 0)
	for _, change := range []struct {
		by *seal.Identity
		f  func(*wire.Pool)
	}{
		{s.Registrar, nil}, {s.Analyzer, nil},
		{s.Shuffler, func(p *wire.Pool) { p.Announcement = bytes.Repeat([]byte{3}, 32) }},
		{s.Shuffler, func(p *wire.Pool) { p.Epoch++ }},
		{s.Shuffler, func(p *wire.Pool) { p.Deployment = "other" }},
	} {
		signed, _ := s.pool(a, digest, change.by, change.f)
		s.say(signed)
	}
	s.say([]byte("junk"))
	s.quietly(1)
	s.draw(a, digest, s.logPool(a, digest))
	s.must(s.stop())
}

// Nothing is drawn from a pool of fewer devices than were announced, nor from one that the shuffler says after it. The
// role says so, and the epoch ends when the shuffler destroys it.
func TestAPoolOfTooFewIsNotDrawnFrom(t *testing.T) {
	t.Parallel()
	s := newPanelScene(t)
	conditions := make(chan error, 1000)
	s.config.Notice = func(condition string, err error) {
		if condition == poolCondition {
			conditions <- err
		}
	}
	s.start()
	a, digest := s.announcement(1, 0)
	few, _ := s.pool(a, digest, s.Shuffler, func(p *wire.Pool) { p.Registered-- })
	s.say(few)
	select {
	case err := <-conditions:
		if err == nil || !strings.Contains(err.Error(), "39 registered devices, announced are at least 40") {
			t.Errorf("the role says %v", err)
		}
	case <-time.After(testbed.Patience):
		t.Fatal("the role does not say that the pool is too small")
	}
	s.logPool(a, digest)
	s.quietly(1)
	s.publish(destroyedRelease(a, digest))
	if c := s.counts(1, 0); !c.Destroyed {
		t.Errorf("counted %+v", c)
	}
	a, digest = s.announcement(2, 0)
	s.draw(a, digest, s.logPool(a, digest))
	s.must(s.stop())
}

// A cohort that the shuffler releases before its panel is drawn counts for nothing, whatever came of it.
func TestACohortThatWasNotDrawnIsNotCounted(t *testing.T) {
	t.Parallel()
	s := newPanelScene(t)
	s.start()
	a, digest := s.announcement(1, 0)
	r, _ := s.honest(a, digest, cohort)
	s.publish(r)
	if c := s.counts(1, 0); !c.Destroyed || len(c.Releases) > 0 {
		t.Errorf("counted %+v", c)
	}
	if all := s.draws(1); len(all) > 0 {
		t.Errorf("drawn %+v", all)
	}
	s.announcement(2, 0)
	if n := testbed.Refused(s.config.Messages, Undrawn); n != int(r.manifest.Messages) {
		t.Errorf("%d messages are refused as %s, want %d", n, Undrawn, r.manifest.Messages)
	}
	s.must(s.stop())
}

// A crash around the draw: the next process says the same, and the log is that of one that never crashed.
func TestCrashAroundTheDraw(t *testing.T) {
	t.Parallel()
	want := straight(newPanelScene(t))
	for _, step := range []string{
		before + wire.KindDraw, after + wire.KindDraw, sealed + wire.KindDraw, afterAnnouncing,
		after + wire.KindCounts, after + wire.KindAnnouncement, sealed + wire.KindLearned,
	} {
		if !strings.HasSuffix(step, wire.KindDraw) && os.Getenv("RIFFLE_LONG") == "" {
			continue
		}
		t.Run(step, func(t *testing.T) {
			t.Parallel()
			want.crash(t, step)
		})
	}
}

// An analyzer whose log says that another contribution was revealed stops.
func TestAnotherDrawIsNotGoneOnFrom(t *testing.T) {
	t.Parallel()
	s := newPanelScene(t)
	s.start()
	a, digest := s.announcement(1, 0)
	s.must(s.stop())
	named := s.logPool(a, digest)
	signed, _ := s.Sign(&wire.Draw{Deployment: testbed.Deployment, Epoch: 1, Announcement: digest[:], Pool: named[:],
		Contribution: bytes.Repeat([]byte{9}, 32)}, s.Analyzer)
	s.must(s.Connect(bus.Analyzer).Audit.AppendAudit(s.Context(), wire.KindDraw, signed))
	s.start()
	s.end()
	if err := s.stop(); !errors.Is(err, ErrConfigChanged) {
		t.Errorf("ended with %v", err)
	}
}

// Epochs are announced no sooner after each other than configured, over a restart too.
func TestEpochsAreSpaced(t *testing.T) {
	t.Parallel()
	const every = 1500 * time.Millisecond
	s := newPanelScene(t)
	s.config.Timing.Every, s.config.Clock = every, role.SystemClock()
	s.start()
	for epoch := uint64(1); epoch <= 2; epoch++ {
		a, digest := s.announcement(epoch, 0)
		if a.Timing.Every != every {
			t.Errorf("announced %v", a.Timing)
		}
		s.draw(a, digest, s.logPool(a, digest))
		r, _ := s.honest(a, digest, cohort)
		s.publish(r)
		s.counts(epoch, 0)
		s.must(s.stop())
		s.start()
	}
	s.announcement(3, 0)
	s.must(s.stop())
	var times []time.Time
	filter := bus.AuditFilter{Role: bus.Analyzer, Kind: wire.KindAnnouncement}
	s.must(s.auditor.Audit.ReadAudit(s.Context(), filter, func(st bus.Statement) error {
		times = append(times, st.Time)
		return nil
	}))
	for i := 1; i < len(times); i++ {
		// The clocks of the broker and of the role are one; what a busy machine takes between reading them is allowed
		// for.
		if d := times[i].Sub(times[i-1]); d < every-every/3 {
			t.Errorf("epoch %d was announced %v after the one before", i+1, d)
		}
	}
	if len(times) != 3 {
		t.Errorf("%d announcements", len(times))
	}
}

// Of two pools the one that was drawn from before counts, wherever it is: a broker whose data was set back can show
// them in another order.
func TestADrawHoldsWhateverStandsFirst(t *testing.T) {
	t.Parallel()
	s := newPanelScene(t)
	s.start()
	a, digest := s.announcement(1, 0)
	s.must(s.stop())
	other, _ := s.pool(a, digest, s.Shuffler, func(p *wire.Pool) { p.Registered++ })
	s.say(other)
	named := s.logPool(a, digest)
	own := s.analyzer.contribution(1, nil)
	signed, _ := s.Sign(&wire.Draw{Deployment: testbed.Deployment, Epoch: 1, Announcement: digest[:], Pool: named[:],
		Contribution: own[:]}, s.Analyzer)
	s.must(s.Connect(bus.Analyzer).Audit.AppendAudit(s.Context(), wire.KindDraw, signed))
	s.start()
	r, ones := s.honest(a, digest, cohort)
	s.publish(r)
	if c := s.counts(1, 0); !sameOnes(c, ones) {
		t.Errorf("counted %+v", c)
	}
	s.draw(a, digest, named)
	s.must(s.stop())
}

// Of two pools that are in the log before anything was drawn the first counts: a shuffler has one choice, which it
// makes before it knows what for.
func TestTheFirstPoolIsDrawnFrom(t *testing.T) {
	t.Parallel()
	s := newPanelScene(t)
	s.start()
	a, digest := s.announcement(1, 0)
	s.must(s.stop())
	named := s.logPool(a, digest)
	second, _ := s.pool(a, digest, s.Shuffler, func(p *wire.Pool) { p.Registered++ })
	s.say(second)
	s.start()
	s.draw(a, digest, named)
	s.must(s.stop())
}

// A broker whose data was set back to before the draw gets it again from the analyzer's own log: a shuffler that knows
// the contribution by now cannot have another pool drawn from.
func TestADrawOutlivesTheBrokersData(t *testing.T) {
	t.Parallel()
	s := newPanelScene(t)
	s.config.LogPath = filepath.Join(t.TempDir(), logFile)
	conditions := make(chan error, 1000)
	s.config.Notice = func(condition string, err error) {
		if condition == poolCondition && err != nil {
			conditions <- err
		}
	}
	s.start()
	a, digest := s.announcement(1, 0)
	earlier := s.Backup()
	named := s.logPool(a, digest)
	s.draw(a, digest, named)
	s.must(s.stop())
	s.Restore(earlier)
	chosen, _ := s.pool(a, digest, s.Shuffler, func(p *wire.Pool) { p.Contribution = bytes.Repeat([]byte{7}, 32) })
	s.say(chosen)
	s.start()
	select {
	case err := <-conditions:
		if !strings.Contains(err.Error(), "lacks the shuffler's pool of epoch 1") {
			t.Errorf("the role says %v", err)
		}
	case <-time.After(testbed.Patience):
		t.Fatal("the role does not say that the pool is missing")
	}
	s.draw(a, digest, named)
	s.logPool(a, digest) // the shuffler's own log brings it back
	r, ones := s.honest(a, digest, cohort)
	s.publish(r)
	if c := s.counts(1, 0); !sameOnes(c, ones) {
		t.Errorf("counted %+v", c)
	}
	s.draw(a, digest, named)
	s.must(s.stop())
}

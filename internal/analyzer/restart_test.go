package analyzer

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/riffle-dp/riffle/internal/bus"
	"github.com/riffle-dp/riffle/internal/testing/testbed"
	"github.com/riffle-dp/riffle/pkg/glm"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/seal"
	"github.com/riffle-dp/riffle/pkg/transparency"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// course is what an analyzer that never crashed did, round by round, and its log.
type course struct {
	scene  *scene
	rounds []passed
	log    []string
}

type passed struct {
	a       *plan.Announcement
	release *release
	counts  *wire.Counts
}

// straight runs two epochs without a crash.
func straight(s *scene) *course {
	c := &course{scene: s}
	s.start()
	for epoch := uint64(1); epoch <= 2; epoch++ {
		for round := uint32(0); ; round++ {
			a, digest := s.announcement(epoch, round)
			s.logPool(a, digest)
			r, _ := s.honest(a, digest, cohort)
			s.publish(r)
			c.rounds = append(c.rounds, passed{a, r, s.counts(epoch, round)})
			if int(round) == len(a.Plan.Rounds)-1 {
				break
			}
		}
	}
	s.announcement(3, 0)
	s.must(s.stop())
	c.log = s.log()
	return c
}

// A crash after any step: the next process announces byte for byte the same, counts once, goes on to the same policies
// as one that never crashed, and has the same transparency log.
func TestCrashAfterEveryStep(t *testing.T) {
	t.Parallel()
	for _, profile := range []glm.Profile{glm.Practical, glm.Paper} {
		if testing.Short() && profile == glm.Paper {
			continue
		}
		t.Run(string(profile), func(t *testing.T) {
			t.Parallel()
			want := straight(newScene(t, profile))
			for _, step := range steps() {
				// A step is the same code in both profiles; -race is for what runs at the same time.
				few := step == after+wire.KindCounts || step == sealed+wire.KindLearned
				if !few && (testing.Short() && step != after+wire.KindAnnouncement ||
					profile == glm.Paper && os.Getenv("RIFFLE_LONG") == "") {
					continue
				}
				t.Run(step, func(t *testing.T) {
					t.Parallel()
					want.crash(t, step)
				})
			}
		})
	}
}

// crash runs the same course with a crash after a step of the first round.
func (c *course) crash(t *testing.T, step string) {
	s := newScene(t, c.scene.config.Learner.Profile)
	s.Analyzer, s.AnalyzerKey, s.Shuffler = c.scene.Analyzer, c.scene.AnalyzerKey, c.scene.Shuffler
	own := s.config.Bus
	s.config = c.scene.config
	s.config.Bus = own
	crashes := 0
	s.crash = func(after string) error {
		if after == step {
			crashes++
			return errCrash
		}
		return nil
	}
	restart := func() { // until it does not crash at this place any more
		s.end()
		if err := s.stop(); !errors.Is(err, errCrash) {
			t.Fatalf("ended with %v", err)
		}
		crash := s.crash
		s.crash = nil
		s.start()
		s.crash = crash
	}
	s.start()
	// What is logged and announced before any report exists shows without one.
	early := step == afterAnnouncing || strings.HasSuffix(step, wire.KindConfiguration) ||
		strings.HasSuffix(step, wire.KindAnnouncement)
	for i, of := range c.rounds {
		if early && i == 0 {
			restart()
		}
		again, digest := s.announcement(of.a.Epoch, of.a.Round)
		if !reflect.DeepEqual(of.a, again) {
			t.Fatalf("epoch %d, round %d: announced\n%v\ninstead of\n%v", of.a.Epoch, of.a.Round, again, of.a)
		}
		s.logPool(again, digest)
		s.publish(of.release)
		if !early && i == 0 {
			restart()
		}
		if !reflect.DeepEqual(s.counts(of.a.Epoch, of.a.Round), of.counts) {
			t.Fatalf("epoch %d, round %d: counts differ", of.a.Epoch, of.a.Round)
		}
	}
	if crashes != 1 {
		t.Errorf("%d crashes", crashes)
	}
	s.must(s.stop())
	s.crash = nil
	s.start() // and once more from the end
	if a, _ := s.announcement(3, 0); a == nil {
		t.Error("no third epoch")
	}
	s.must(s.stop())
	if got := s.log(); !slices.Equal(got, c.log) {
		t.Errorf("the log has the entries\n%q\nwithout a crash\n%q", got, c.log)
	}
}

// log is the analyzer's transparency log: kind, epoch, round and digest of each entry, in order. It fails where a
// checkpoint is not over the entries before it, or the last entry has none.
func (s *scene) log() (entries []string) {
	s.t.Helper()
	var tree transparency.Tree
	var covered uint64
	filter := bus.AuditFilter{Role: bus.Analyzer}
	s.must(s.auditor.Audit.ReadAudit(s.Context(), filter, func(st bus.Statement) error {
		if wire.Leaf(st.Kind, st.Payload, s.AnalyzerParty()) {
			entries = append(entries, fmt.Sprintf("%s %x", st.Kind, sha256.Sum256(st.Payload)))
			tree.Append(st.Payload)
			return nil
		}
		if st.Kind != wire.KindCheckpoint {
			return nil
		}
		party := s.AnalyzerParty()
		c, err := transparency.Open(st.Payload, transparency.Origin(party.Deployment, string(bus.Analyzer)), party.Key)
		s.must(err)
		if covered = c.Size; c.Size != tree.Size() || c.Root != tree.Root() {
			s.t.Errorf("a checkpoint of %d entries after %d", c.Size, tree.Size())
		}
		return nil
	}))
	if covered != tree.Size() {
		s.t.Errorf("the last checkpoint is over %d of %d entries", covered, tree.Size())
	}
	return entries
}

// What was announced binds: a configuration from which it does not follow is refused, whatever it changes.
func TestChangedConfiguration(t *testing.T) {
	t.Parallel()
	s := newScene(t, glm.Practical)
	s.start()
	s.announcement(1, 0)
	s.must(s.stop())
	honest := s.config
	short := 2
	for name, change := range map[string]func(*Config){
		"epsilon":  func(c *Config) { c.Terms.Epsilon = 3 },
		"drop out": func(c *Config) { c.Terms.DropOut = 0.1 },
		"radius":   func(c *Config) { c.Learner.Radius = 2.5 },
		"cohort":   func(c *Config) { c.Learner.Practical.FirstCohort = 13 },
		"family":   func(c *Config) { c.Learner.Family = "probit" },
		"timing": func(c *Config) {
			c.Timing.RewardWindow += time.Millisecond
		},
	} {
		if short--; testing.Short() && short < 0 {
			break
		}
		s.config = honest
		change(&s.config)
		s.start()
		s.end()
		err := s.stop()
		if !errors.Is(err, ErrConfigChanged) || !strings.Contains(err.Error(), "restore the old configuration") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if all, err := s.auditor.Announcements.ReadAnnouncements(s.Context()); err != nil || len(all) != 1 {
		t.Errorf("the refused configurations announced: %d announcements, %v", len(all), err)
	}
	s.config = honest
	s.start()
	a, digest := s.announcement(1, 0)
	r, _ := s.honest(a, digest, cohort)
	s.publish(r)
	s.counts(1, 0)
	s.must(s.stop())
}

// A rotated HPKE key does not change what was announced: the old key opens the round under way, the new one is
// announced next. Without the old key the analyzer says which one it misses.
func TestRotatedKey(t *testing.T) {
	t.Parallel()
	s := newScene(t, glm.Practical)
	s.start()
	a, digest := s.announcement(1, 0)
	s.must(s.stop())
	next := testbed.NewKey(t)
	s.config.Keys = []*seal.HPKEKey{next}
	s.start()
	s.end()
	if err := s.stop(); err == nil || !strings.Contains(err.Error(), "keep old keys until their epochs are over") {
		t.Errorf("%v", err)
	}
	s.config.Keys = []*seal.HPKEKey{next, s.AnalyzerKey}
	s.start()
	r, ones := s.honest(a, digest, cohort)
	s.publish(r)
	if c := s.counts(1, 0); !sameOnes(c, ones) {
		t.Errorf("%v", c)
	}
	if b, _ := s.announcement(2, 0); !bytes.Equal(b.AnalyzerKey, next.Public()) {
		t.Error("the next epoch is announced with the old key")
	}
	s.must(s.stop())
}

// A broker whose data was set back shows the analyzer an earlier round, whose chunks are gone by the time the newer
// data is back. What the analyzer signed before stays: it neither signs other counts nor another announcement.
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
	all, err := s.auditor.Announcements.ReadAnnouncements(s.Context())
	s.must(err)
	for _, stored := range all {
		_, _, err := wire.OpenAnnouncement(stored.Payload, stored.Epoch, stored.Round, s.AnalyzerParty())
		if err == nil && stored.Epoch == 2 {
			signed++
		}
	}
	if signed != 1 {
		t.Errorf("epoch 2 has %d announcements", signed)
	}
	s.must(s.stop())
}

// An analyzer that is started again says in one line what it went through, and logs no old round as if it were new.
func TestReplayIsOneLine(t *testing.T) {
	t.Parallel()
	s := newScene(t, glm.Practical)
	first, second := &logBuffer{}, &logBuffer{}
	s.config.Log = zerolog.New(first)
	s.start()
	for epoch := uint64(1); epoch <= 2; epoch++ {
		a, digest := s.announcement(epoch, 0)
		if epoch == 1 {
			s.publish(destroyedRelease(a, digest))
		} else {
			r, _ := s.honest(a, digest, cohort)
			s.publish(r)
		}
		s.counts(epoch, 0)
	}
	s.announcement(3, 0)
	testbed.Eventually(t, "the third epoch in the log", func() bool {
		return strings.Count(first.String(), `"message":"announced"`) == 3
	})
	s.must(s.stop())
	log := first.String()
	for line, want := range map[string]int{"resumed": 0, "round absorbed": 1, "the cohort was destroyed": 1} {
		if strings.Count(log, line) != want {
			t.Errorf("%q is not %d times in the first run's log:\n%s", line, want, log)
		}
	}

	s.config.Log = zerolog.New(second)
	s.start()
	testbed.Eventually(t, "resumed", func() bool { return strings.Contains(second.String(), `"message":"resumed"`) })
	s.must(s.stop())
	log = second.String()
	for _, old := range []string{"round absorbed", "announced", "the cohort was destroyed"} {
		if strings.Contains(log, old) {
			t.Errorf("%q is logged again:\n%s", old, log)
		}
	}
	if want := `"epochs":2,"rounds":2,"reports":12,"destroyed":1,"message":"resumed"`; strings.Count(log, want) != 1 {
		t.Errorf("%s is not once in\n%s", want, log)
	}
	if n := len(s.analyzer.Progress().Releases); n != 2 {
		t.Errorf("%d rounds after the replay", n)
	}
}

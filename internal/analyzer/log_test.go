package analyzer

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/riffle-dp/riffle/internal/bus"
	"github.com/riffle-dp/riffle/internal/testing/testbed"
	"github.com/riffle-dp/riffle/pkg/deployment"
	"github.com/riffle-dp/riffle/pkg/glm"
	"github.com/riffle-dp/riffle/pkg/seal"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// statements are the analyzer's, in the order of the audit log.
func (s *scene) statements() (all []bus.Statement) {
	s.t.Helper()
	filter := bus.AuditFilter{Role: bus.Analyzer}
	s.must(s.auditor.Audit.ReadAudit(s.Context(), filter, func(st bus.Statement) error {
		if wire.Leaf(st.Kind, st.Payload, s.AnalyzerParty()) {
			all = append(all, st)
		}
		return nil
	}))
	return all
}

// kinds are those of the statements.
func (s *scene) kinds() (kinds []string) {
	for _, st := range s.statements() {
		kinds = append(kinds, st.Kind)
	}
	return kinds
}

// Whoever has the audit log alone comes to every announcement and to all that was learned, byte for byte, up to the
// last policy.
func TestTheLogGivesTheWholeDeployment(t *testing.T) {
	t.Parallel()
	s := newScene(t, glm.Practical)
	s.config.Version = "v1.2.3 of the test"
	s.start()
	for epoch := uint64(1); ; epoch++ {
		a, digest := s.announcement(epoch, 0)
		if a.Final {
			break
		}
		if epoch == 1 {
			s.publish(destroyedRelease(a, digest))
		} else {
			r, _ := s.honest(a, digest, cohort)
			s.publish(r)
		}
		s.counts(epoch, 0)
	}
	s.must(s.stop())
	public, err := s.auditor.Announcements.ReadAnnouncements(s.Context())
	s.must(err)
	s.log()
	all := s.statements()
	next := func(kind string) []byte {
		t.Helper()
		if len(all) == 0 || all[0].Kind != kind {
			t.Fatalf("the log has the kinds %q", s.kinds())
		}
		payload := all[0].Payload
		all = all[1:]
		return payload
	}
	c, _, err := wire.Open[wire.Configuration](next(wire.KindConfiguration), s.AnalyzerParty())
	s.must(err)
	machine, err := deployment.New(*c)
	s.must(err)
	for _, stored := range public {
		logged := next(wire.KindAnnouncement)
		if !bytes.Equal(logged, stored.Payload) {
			t.Fatalf("epoch %d: logged is another announcement than devices read", stored.Epoch)
		}
		a, err := machine.Next(s.AnalyzerKey.Public(), nil)
		s.must(err)
		again, digest := s.Sign(a, s.Analyzer)
		if !bytes.Equal(again, logged) {
			t.Fatalf("epoch %d: the log gives another announcement", stored.Epoch)
		}
		machine.Announced(a, digest)
		if a.Final {
			break
		}
		counts, digest, err := wire.Open[wire.Counts](next(wire.KindCounts), s.AnalyzerParty())
		s.must(err)
		learned, err := machine.Absorb(counts, digest)
		s.must(err)
		learned.Version = s.config.Version
		if want, _, err := wire.Sign(learned, s.Analyzer); err != nil || !bytes.Equal(want, next(wire.KindLearned)) {
			t.Fatalf("epoch %d: the log gives something else as learned (%v)", stored.Epoch, err)
		}
	}
	if len(all) > 0 {
		t.Errorf("%d entries follow the last announcement", len(all))
	}
}

// watched is a broker that looks at what the log holds when an announcement is stored.
type watched struct {
	Broker
	stored func()
}

func (w watched) PutAnnouncement(ctx context.Context, epoch uint64, round uint32, payload []byte) error {
	w.stored()
	return w.Broker.PutAnnouncement(ctx, epoch, round, payload)
}

// No device can read an announcement before it and all that it follows from are in the log, under a checkpoint.
func TestNothingIsAnnouncedBeforeItIsLogged(t *testing.T) {
	t.Parallel()
	s := newScene(t, glm.Practical)
	var at []string
	s.config.Bus = watched{s.config.Bus, func() {
		s.log()
		at = append(at, strings.Join(s.kinds(), " "))
	}}
	s.start()
	a, digest := s.announcement(1, 0)
	r, _ := s.honest(a, digest, cohort)
	s.publish(r)
	s.announcement(2, 0)
	s.must(s.stop())
	first := "configuration announcement"
	if want := []string{first, first + " counts learned announcement"}; !slices.Equal(at, want) {
		t.Errorf("announced with the log\n%q, want\n%q", at, want)
	}
}

// Nothing follows from statements without the configuration before them: the analyzer does not go on with such a log.
func TestALogWithoutAConfigurationIsRefused(t *testing.T) {
	t.Parallel()
	s := newScene(t, glm.Practical)
	a := s.Announcement(glm.Practical, cohort)
	signed, _ := s.Sign(a, s.Analyzer)
	s.must(s.Connect(bus.Analyzer).Audit.AppendAudit(s.Context(), wire.KindAnnouncement, signed))
	s.start()
	s.end()
	if err := s.stop(); !errors.Is(err, ErrConfigChanged) || !strings.Contains(err.Error(), "no configuration") {
		t.Errorf("%v", err)
	}
}

// What was logged as learned binds the next process, but for the version of the program that wrote it.
func TestWhatWasLearnedBinds(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*wire.Learned){
		"version":       func(l *wire.Learned) { l.Version = "another version" },
		"iterate":       func(l *wire.Learned) { l.Iterate[0] *= 1 + 0x1p-52 },
		"sum":           func(l *wire.Learned) { l.Sums[0].Values[0] += 0x1p-40 },
		"epsilon alone": func(l *wire.Learned) { l.EpsilonAlone = 1 },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newScene(t, glm.Practical)
			s.config.Version = "this version"
			s.crash = func(step string) error { // after the counts
				if step == before+wire.KindLearned {
					return errCrash
				}
				return nil
			}
			s.start()
			a, digest := s.announcement(1, 0)
			r, _ := s.honest(a, digest, cohort)
			s.publish(r)
			s.end()
			if err := s.stop(); !errors.Is(err, errCrash) {
				t.Fatal(err)
			}
			machine, err := deployment.New(s.config.configuration())
			s.must(err)
			b, err := machine.Next(a.AnalyzerKey, a.Commitment)
			s.must(err)
			machine.Announced(b, digest)
			counts := s.counts(1, 0)
			_, of := s.Sign(counts, s.Analyzer)
			learned, err := machine.Absorb(counts, of)
			s.must(err)
			change(learned)
			signed, _, err := wire.Sign(learned, s.Analyzer)
			s.must(err)
			s.must(s.Connect(bus.Analyzer).Audit.AppendAudit(s.Context(), wire.KindLearned, signed))
			s.crash = nil
			s.start()
			if name == "version" {
				s.announcement(2, 0)
				s.must(s.stop())
			} else {
				s.end()
				if err := s.stop(); !errors.Is(err, ErrConfigChanged) || !strings.Contains(err.Error(), "learned") {
					t.Errorf("%v", err)
				}
			}
			if n := strings.Count(fmt.Sprint(s.kinds()), wire.KindLearned); n != 1 {
				t.Errorf("%d statements of what was learned", n)
			}
		})
	}
}

// A configuration that would announce the same until now is refused all the same, and named: it is in the log.
func TestTheLoggedConfigurationBinds(t *testing.T) {
	t.Parallel()
	s := newScene(t, glm.Practical)
	s.start()
	s.announcement(1, 0)
	s.must(s.stop())
	honest := s.config
	for part, change := range map[string]func(*Config){
		"the learner's settings": func(c *Config) { c.Learner.Practical.Sampling = 0.7 },
		"learner.anytime":        func(c *Config) { c.Anytime = true },
		"the privacy settings":   func(c *Config) { c.Terms.MaxShift = 15 },
	} {
		s.config = honest
		change(&s.config)
		s.start()
		s.end()
		if err := s.stop(); !errors.Is(err, ErrConfigChanged) || !strings.Contains(err.Error(), part+" differ") {
			t.Errorf("%s: %v", part, err)
		}
	}
	if got := s.kinds(); !slices.Equal(got, []string{wire.KindConfiguration, wire.KindAnnouncement}) {
		t.Errorf("the refused configurations logged: %q", got)
	}
}

// An announcement that is in the log binds before any device has seen it.
func TestALoggedAnnouncementBinds(t *testing.T) {
	t.Parallel()
	s := newScene(t, glm.Practical)
	machine, err := deployment.New(s.config.configuration())
	s.must(err)
	a, err := machine.Next(s.AnalyzerKey.Public(), nil)
	s.must(err)
	a.Timing.Jitter += time.Millisecond
	signed, _ := s.Sign(a, s.Analyzer)
	s.must(s.Connect(bus.Analyzer).Audit.AppendAudit(s.Context(), wire.KindAnnouncement, signed))
	s.start()
	s.end()
	if err := s.stop(); !errors.Is(err, ErrConfigChanged) {
		t.Errorf("%v", err)
	}
	if all, err := s.auditor.Announcements.ReadAnnouncements(s.Context()); err != nil || len(all) != 0 {
		t.Errorf("%d announcements, %v", len(all), err)
	}
}

// overtaken is a broker on which another analyzer logs something before this one's first announcement.
type overtaken struct {
	Broker
	first func()
}

func (o overtaken) AppendAuditAfter(ctx context.Context, kind string, signed []byte, last uint64) (uint64, error) {
	if kind == wire.KindAnnouncement {
		o.first()
	}
	return o.Broker.AppendAuditAfter(ctx, kind, signed, last)
}

// Of two analyzers with one key, the one whose announcement is second in the log announces nothing to devices. One that
// starts later announces the first.
func TestTheSecondInTheLogAnnouncesNothing(t *testing.T) {
	t.Parallel()
	s := newScene(t, glm.Practical)
	own := s.config.Bus
	rivalKey := testbed.NewKey(t)
	s.config.Bus = overtaken{own, func() {
		machine, err := deployment.New(s.config.configuration())
		s.must(err)
		a, err := machine.Next(rivalKey.Public(), nil)
		s.must(err)
		signed, _ := s.Sign(a, s.Analyzer)
		s.must(s.Connect(bus.Analyzer).Audit.AppendAudit(s.Context(), wire.KindAnnouncement, signed))
	}}
	s.start()
	s.end()
	if err := s.stop(); !errors.Is(err, ErrConfigChanged) || !strings.Contains(err.Error(), "first in the audit log") {
		t.Fatalf("behind another analyzer: %v", err)
	}
	if all, err := s.auditor.Announcements.ReadAnnouncements(s.Context()); err != nil || len(all) != 0 {
		t.Fatalf("%d announcements, %v", len(all), err)
	}
	s.config.Bus, s.config.Keys = own, []*seal.HPKEKey{s.AnalyzerKey, rivalKey}
	s.start()
	if a, _ := s.announcement(1, 0); !bytes.Equal(a.AnalyzerKey, rivalKey.Public()) {
		t.Error("announced is not the first in the log")
	}
	s.must(s.stop())
}

package analyzer

import (
	"bytes"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/riffle-dp/riffle/internal/testing/testbed"
	"github.com/riffle-dp/riffle/pkg/glm"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/seal"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// Hand-made releases are counted exactly, in both profiles, to the last policy; and every policy is what a learner makes of the sums
// of those who reported, not of those who were planned.
func TestCountsAreExact(t *testing.T) {
	t.Parallel()
	for _, profile := range []glm.Profile{glm.Practical, glm.Paper} {
		t.Run(string(profile), func(t *testing.T) {
			t.Parallel()
			s := newScene(t, profile)
			s.start()
			learner, err := glm.NewLearner(s.config.Learner)
			s.must(err)
			follows := func(a *plan.Announcement) {
				t.Helper()
				step := learner.Next()
				if !reflect.DeepEqual(a.Policy, step.Policy) {
					t.Errorf("round %d of epoch %d: the policy is\n%v\nthe learner's is\n%v", a.Round, a.Epoch, a.Policy, step.Policy)
				}
			}
			released := 0
			for epoch := uint64(1); ; epoch++ {
				a, _ := s.announcement(epoch, 0)
				follows(a)
				if a.Final {
					break
				}
				for round := range uint32(len(a.Plan.Rounds)) {
					a, digest := s.announcement(epoch, round)
					follows(a)
					r, ones := s.honest(a, digest, int(a.Cohort.Minimum))
					s.publish(r)
					c := s.counts(epoch, round)
					for i := range ones {
						if !reflect.DeepEqual(c.Releases[i].Ones, ones[i]) || c.Reports != a.Cohort.Minimum || c.Destroyed {
							t.Errorf("epoch %d, round %d, release %d: counted %v of %d reports, published %v", epoch, round, i, c.Releases[i].Ones, c.Reports, ones[i])
						}
					}
					released += int(r.manifest.Messages)
					var sums []glm.Aggregate
					for i, e := range a.Encodings {
						sum, err := e.Decode(ones[i], uint64(a.Cohort.Minimum))
						s.must(err)
						sums = append(sums, glm.Aggregate{
							Kind: a.Plan.Rounds[round].Releases[i].Statistic, Sum: sum,
							Variance: e.Variance(uint64(a.Cohort.Minimum)), Reports: int(a.Cohort.Minimum),
						})
					}
					s.must(learner.Absorb(sums))
				}
			}
			if b := s.analyzer.c.Messages.Balance(); int(b.Released) != released || int(b.Received) != released {
				t.Errorf("%d messages, account %+v", released, b)
			}
			testbed.Eventually(t, "final", func() bool { return s.analyzer.Progress().Final }) // the analyzer reads back what it announced
			p := s.analyzer.Progress()
			if !p.Final || len(p.Releases) == 0 || !(p.Releases[0].Epsilon > 0 && p.Releases[0].Epsilon <= 4) {
				t.Errorf("progress %+v", p)
			}
			s.must(s.stop())
		})
	}
}

// A release that is not what announcement and manifest promise is rejected as a whole: its counts are published as destroyed, the
// policy stays, and a new cohort is asked for.
func TestRejectedReleases(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(s *scene, a *plan.Announcement, digest [32]byte, r *release) *release{
		"a chunk is missing": func(_ *scene, _ *plan.Announcement, _ [32]byte, r *release) *release {
			r.chunks[1] = nil
			return r
		},
		"a chunk is another round's": func(s *scene, _ *plan.Announcement, _ [32]byte, r *release) *release {
			c, err := wire.ParseChunk(r.chunks[1])
			s.must(err)
			c.Round++
			r.chunks[1], err = wire.BuildChunk(*c)
			s.must(err)
			return r
		},
		"a chunk is junk": func(_ *scene, _ *plan.Announcement, _ [32]byte, r *release) *release {
			r.chunks[1] = []byte("junk")
			return r
		},
		"a chunk is not the manifest's": func(s *scene, a *plan.Announcement, digest [32]byte, r *release) *release {
			other, _ := s.honest(a, digest, int(r.manifest.Reports))
			r.chunks[1] = other.chunks[1]
			return r
		},
		"chunks are swapped": func(_ *scene, _ *plan.Announcement, _ [32]byte, r *release) *release {
			r.manifest.ChunksDigest = bytes.Repeat([]byte{7}, 32)
			return r
		},
		"another announcement": func(_ *scene, _ *plan.Announcement, _ [32]byte, r *release) *release {
			r.manifest.Announcement = make([]byte, 32)
			return r
		},
		"too few reports": func(s *scene, a *plan.Announcement, digest [32]byte, _ *release) *release {
			few, _ := s.honest(a, digest, int(a.Cohort.Minimum)-1)
			return few
		},
		"more reports than slots": func(s *scene, a *plan.Announcement, digest [32]byte, _ *release) *release {
			many, _ := s.honest(a, digest, int(a.Cohort.Size)+1)
			many.manifest.Enrolled++
			return many
		},
		"fewer messages than reports hold": func(s *scene, a *plan.Announcement, digest [32]byte, r *release) *release {
			honest, _ := s.honest(a, digest, int(a.Cohort.Minimum))
			honest.manifest.Reports *= 2
			honest.manifest.Enrolled = honest.manifest.Reports
			return honest
		},
		"a message does not open": func(s *scene, a *plan.Announcement, digest [32]byte, r *release) *release {
			other := digest
			other[3] ^= 1
			return s.replace(a, digest, 1, func() []byte { return s.one(a.AnalyzerKey, other, 0, 0) })
		},
		"a message names no coordinate": func(s *scene, a *plan.Announcement, digest [32]byte, r *release) *release {
			return s.replace(a, digest, 1, func() []byte { return s.one(a.AnalyzerKey, digest, 0, 999) })
		},
		"a message names no release": func(s *scene, a *plan.Announcement, digest [32]byte, r *release) *release {
			return s.replace(a, digest, 1, func() []byte { return s.one(a.AnalyzerKey, digest, 9, 0) })
		},
		"a coordinate has too many messages": func(s *scene, a *plan.Announcement, digest [32]byte, r *release) *release {
			return s.replace(a, digest, 30, func() []byte { return s.one(a.AnalyzerKey, digest, 0, 0) })
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newScene(t, glm.Practical)
			s.start()
			a, digest := s.announcement(1, 0)
			r, _ := s.honest(a, digest, int(a.Cohort.Size))
			s.publish(change(s, a, digest, r))
			if c := s.counts(1, 0); !c.Destroyed || len(c.Releases) != 0 {
				t.Errorf("counts %v", c)
			}
			next, _ := s.announcement(2, 0)
			if next.Policy.Family != a.Policy.Family || !reflect.DeepEqual(next.Policy.Theta, a.Policy.Theta) || next.Policy.Epoch != a.Policy.Epoch {
				t.Errorf("the policy changed from %v to %v", a.Policy, next.Policy)
			}
			s.must(s.stop())
		})
	}
}

// one seals a message of the test's own choice.
func (s *scene) one(key []byte, digest [32]byte, release uint8, coordinate uint16) []byte {
	s.t.Helper()
	sealer, err := seal.NewBitSealer(key, digest)
	s.must(err)
	b, err := sealer.AppendSeal(nil, release, coordinate, true)
	s.must(err)
	return b
}

// replace is an honest release of a whole cohort in which n messages are others.
func (s *scene) replace(a *plan.Announcement, digest [32]byte, n int, by func() []byte) *release {
	s.t.Helper()
	all, _ := bits(s.t, a.Encodings, int(a.Cohort.Size), half)
	r := s.seal(a, digest, all, int(a.Cohort.Size), len(all))
	chunk, err := wire.ParseChunk(r.chunks[0])
	s.must(err)
	for i := range n {
		copy(chunk.Bits[i*seal.BitSize:], by())
	}
	return s.cut(a, digest, chunk.Bits, int(a.Cohort.Size), 70)
}

// By default the plan counts on one dishonest report, and as many bad messages as it holds are borne: they count as zeros, and are
// accounted by what is wrong with them. One more is too many, and so are two reports' worth.
func TestDishonestMessagesAreBorne(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		bad     func(perReport int) int
		refused bool
	}{
		"one malformed message":       {func(int) int { return 1 }, false},
		"a malformed report":          {func(n int) int { return n }, false},
		"a report and one message":    {func(n int) int { return n + 1 }, true},
		"two malformed reports":       {func(n int) int { return 2 * n }, true},
		"one message, nobody at most": {func(int) int { return 1 }, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newScene(t, glm.Practical)
			s.config.Terms.DishonestReports = DefaultSettings().terms().DishonestReports
			if strings.Contains(name, "nobody") {
				s.config.Terms.DishonestReports = 0
			}
			s.start()
			a, digest := s.announcement(1, 0)
			if want := uint32(s.config.Terms.DishonestReports); a.Cohort.MaxDishonest != want {
				t.Fatalf("cohort %v, want %d dishonest", a.Cohort, want)
			}
			// What is borne is within what was planned: a device that believes nothing finds the promise kept.
			if g, err := plan.Guarantee(a, 0); err != nil || !(g.Epsilon(s.config.Terms.Delta) <= s.config.Terms.Epsilon) {
				t.Errorf("%+v, %v", g, err)
			}
			n := c.bad(a.ReportMessages())
			other := digest
			other[0] ^= 1
			r := s.replace(a, digest, n, func() []byte { return s.one(a.AnalyzerKey, other, 0, 0) })
			s.publish(r)
			got := s.counts(1, 0)
			if got.Destroyed != c.refused || len(got.Releases) == 0 != c.refused {
				t.Errorf("%d bad messages: %v", n, got)
			}
			if !c.refused && (got.Reports != r.manifest.Reports || testbed.Refused(s.analyzer.c.Messages, Undecryptable) != n) {
				t.Errorf("%d bad messages, account %+v", n, s.analyzer.c.Messages.Balance())
			}
			s.must(s.stop())
		})
	}
}

// A dishonest report can put all its ones on one coordinate where everybody else has ones, too. No more are counted than honest reports
// could bring, and the deployment goes on.
func TestOnesOnOneCoordinateAreBorne(t *testing.T) {
	t.Parallel()
	s := newScene(t, glm.Practical)
	s.config.Terms.DishonestReports = 1
	s.start()
	a, digest := s.announcement(1, 0)
	all, _ := bits(t, a.Encodings, cohort-1, func(release, coordinate int) float64 {
		if release+coordinate == 0 {
			return 1
		}
		return half(release, coordinate)
	})
	all = append(all, slices.Repeat([]bit{{one: true}}, a.ReportMessages())...)
	s.publish(s.seal(a, digest, all, cohort, 70))
	if c := s.counts(1, 0); c.Destroyed || c.Releases[0].Ones[0] != uint64(cohort*a.Encodings[0].MessagesAt(0)) {
		t.Errorf("counts %v", c)
	}
	s.announcement(2, 0)
	s.must(s.stop())
}

// A cohort that the shuffler destroyed changes nothing; the same policy asks for another one.
func TestDestroyedCohort(t *testing.T) {
	t.Parallel()
	s := newScene(t, glm.Practical)
	s.start()
	a, digest := s.announcement(1, 0)
	s.publish(destroyed(a, digest))
	if c := s.counts(1, 0); !c.Destroyed {
		t.Errorf("%v", c)
	}
	next, _ := s.announcement(2, 0)
	if !reflect.DeepEqual(next.Policy.Theta, a.Policy.Theta) {
		t.Error("the policy changed")
	}
	if p := s.analyzer.Progress(); len(p.Releases) != 1 || !p.Releases[0].Destroyed {
		t.Errorf("%+v", p.Releases)
	}
	s.must(s.stop())
}

// A manifest that is not the shuffler's stops the analyzer: the broker holds nothing better and never will.
func TestForeignManifest(t *testing.T) {
	t.Parallel()
	s := newScene(t, glm.Practical)
	s.start()
	a, digest := s.announcement(1, 0)
	signed, _ := s.Sign(destroyed(a, digest).manifest, s.Registrar)
	s.must(s.shuffler.PublishManifest(s.Context(), 1, 0, signed))
	s.end()
	if err := s.stop(); !errors.Is(err, wire.ErrSigner) {
		t.Errorf("%v", err)
	}
}

// A crash after any step: the next process announces byte for byte the same, counts once, and goes on to the same policies as one
// that never crashed.
func TestCrashAfterEveryStep(t *testing.T) {
	t.Parallel()
	for _, profile := range []glm.Profile{glm.Practical, glm.Paper} {
		for _, step := range []string{pastAnnouncing, pastCounting, pastSigning, pastPurging} {
			if testing.Short() && (profile == glm.Paper || step == pastPurging) {
				continue
			}
			t.Run(string(profile)+"/"+step, func(t *testing.T) {
				t.Parallel()
				s := newScene(t, profile)
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
				straight := newScene(t, profile) // the same releases without crashes
				straight.Analyzer, straight.AnalyzerKey, straight.Shuffler = s.Analyzer, s.AnalyzerKey, s.Shuffler
				straight.config.Identity, straight.config.Keys, straight.config.Shuffler = s.config.Identity, s.config.Keys, s.config.Shuffler
				straight.start()
				for epoch := uint64(1); epoch <= 2; epoch++ {
					for round := uint32(0); ; round++ {
						a, digest := straight.announcement(epoch, round)
						r, _ := straight.honest(a, digest, cohort)
						if step == pastAnnouncing && epoch == 1 && round == 0 {
							restart()
						}
						if again, _ := s.announcement(epoch, round); !reflect.DeepEqual(a, again) {
							t.Fatalf("epoch %d, round %d: announced\n%v\ninstead of\n%v", epoch, round, again, a)
						}
						straight.publish(r)
						s.publish(r)
						if epoch == 1 && round == 0 && step != pastAnnouncing {
							restart()
						}
						if !reflect.DeepEqual(s.counts(epoch, round), straight.counts(epoch, round)) {
							t.Fatalf("epoch %d, round %d: counts differ", epoch, round)
						}
						if int(round) == len(a.Plan.Rounds)-1 {
							break
						}
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
				s.must(straight.stop())
			})
		}
	}
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
		if err := s.stop(); !errors.Is(err, ErrConfigChanged) || !strings.Contains(err.Error(), "restore the old configuration") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if all, err := s.auditor.Announcements(s.Context()); err != nil || len(all) != 1 {
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

// A rotated HPKE key does not change what was announced: the old key opens the round under way, the new one is announced next. Without
// the old key the analyzer says which one it misses.
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
	if c := s.counts(1, 0); !reflect.DeepEqual(c.Releases[0].Ones, ones[0]) {
		t.Errorf("%v", c)
	}
	if b, _ := s.announcement(2, 0); !bytes.Equal(b.AnalyzerKey, next.Public()) {
		t.Error("the next epoch is announced with the old key")
	}
	s.must(s.stop())
}

// A configuration for which no plan exists is refused before anything is announced, with what would help.
func TestInfeasibleConfiguration(t *testing.T) {
	t.Parallel()
	s := newScene(t, glm.Practical)
	s.config.Terms.Epsilon, s.config.Terms.VarianceRatio, s.config.Terms.MaxMessages = 0.5, 1.3, 6
	if _, err := New(s.config); err == nil || !strings.Contains(err.Error(), "MaxMessages") {
		t.Errorf("%v", err)
	}
	s.config.Terms = testbed.Terms()
	s.config.Learner.Family = "cauchy"
	if _, err := New(s.config); err == nil || !strings.Contains(err.Error(), "logistic") {
		t.Errorf("%v", err)
	}
	s.config.Learner = testbed.Learner(glm.Practical, cohort)
	s.config.Keys = nil
	if _, err := New(s.config); err == nil {
		t.Error("no key: accepted")
	}
}

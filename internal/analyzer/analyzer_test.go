package analyzer

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/riffle-dp/riffle/internal/role/status"
	"github.com/riffle-dp/riffle/internal/testing/testbed"
	"github.com/riffle-dp/riffle/pkg/glm"
	"github.com/riffle-dp/riffle/pkg/glm/learner"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// Hand-made releases are counted exactly, in both profiles, to the last policy; and every policy is what a learner
// makes of the sums of those who reported, not of those who were planned.
func TestCountsAreExact(t *testing.T) {
	t.Parallel()
	for _, profile := range []glm.Profile{glm.Practical, glm.Paper} {
		t.Run(string(profile), func(t *testing.T) {
			t.Parallel()
			s := newScene(t, profile)
			s.start()
			bandit, err := learner.New(s.config.Learner)
			s.must(err)
			follows := func(a *plan.Announcement) {
				t.Helper()
				step := bandit.Next()
				if !reflect.DeepEqual(a.Policy, step.Policy) {
					t.Errorf("round %d of epoch %d: the policy is\n%v\nthe learner's is\n%v",
						a.Round, a.Epoch, a.Policy, step.Policy)
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
					if !sameOnes(c, ones) || c.Reports != a.Cohort.Minimum {
						t.Errorf("epoch %d, round %d: counted %v, published %v of %d reports",
							epoch, round, c, ones, a.Cohort.Minimum)
					}
					released += int(r.manifest.Messages)
					var sums []learner.Aggregate
					for i, e := range a.Encodings {
						sum, err := e.Decode(ones[i], uint64(a.Cohort.Minimum), 0)
						s.must(err)
						sums = append(sums, learner.Aggregate{
							Kind: a.Plan.Rounds[round].Releases[i].Statistic, Sum: sum,
							Variance: e.Variance(uint64(a.Cohort.Minimum), 0), Reports: int(a.Cohort.Minimum),
						})
					}
					s.must(bandit.Absorb(sums))
				}
			}
			if b := s.analyzer.c.Messages.Balance(); int(b.Released) != released || int(b.Received) != released {
				t.Errorf("%d messages, account %+v", released, b)
			}
			// The analyzer reads back what it announced.
			testbed.Eventually(t, "final", func() bool { return s.analyzer.Progress().Final })
			p := s.analyzer.Progress()
			if !p.Final || len(p.Releases) == 0 || !(p.Releases[0].Epsilon > 0 && p.Releases[0].Epsilon <= 4) {
				t.Errorf("progress %+v", p)
			}
			checkSnapshot(t, s.analyzer, bandit)
			checkInfluence(t, s.analyzer.Snapshot().Releases)
			s.must(s.stop())
		})
	}
}

// checkInfluence demands that every release says what one dishonest device can have done to it, and the newest of them
// number by number.
func checkInfluence(t *testing.T, releases []status.Round) {
	t.Helper()
	for i, r := range releases {
		newest := i == len(releases)-1
		if r.Outcome != status.Released || !(r.Moved > 0) || newest != (len(r.Influence) > 0) {
			t.Errorf("release %d of %d: one device moves it by %v deviations, %d statistics are stated",
				i, len(releases), r.Moved, len(r.Influence))
		}
		for _, of := range r.Influence {
			if slices.Max(of.One)/of.Deviation > r.Moved*(1+1e-12) || len(of.All) != len(of.One) {
				t.Errorf("%+v, at most %v deviations", of, r.Moved)
			}
		}
	}
}

// checkSnapshot holds what an analyzer shows as learned, at the end of its horizon, against the learner.
func checkSnapshot(t *testing.T, z *Analyzer, bandit *learner.Learner) {
	t.Helper()
	l, p := z.Snapshot().Learned, z.Progress()
	final := bandit.Next().Policy
	if l == nil || l.Cohorts != final.Epoch || len(l.Epochs) != final.Epoch || l.Interval == "" {
		t.Fatalf("shown as learned: %+v", l)
	}
	last := l.Epochs[len(l.Epochs)-1]
	if !slices.Equal(last.Theta, final.Theta) || len(last.HalfWidth) != len(final.Theta) {
		t.Errorf("shown is %+v, the last policy is %v", last, final.Theta)
	}
	for i, e := range l.Epochs {
		round := p.Releases[slices.IndexFunc(p.Releases, func(r ReleaseStats) bool { return r.Epoch == e.Epoch })]
		if e.Epoch != uint64(i+1) || float64(e.Epsilon) != round.Epsilon {
			t.Errorf("epoch %d: %+v, released with epsilon %v", i+1, e, round.Epsilon)
		}
	}
}

// A cohort that the shuffler destroyed changes nothing; the same policy asks for another one.
func TestDestroyedCohort(t *testing.T) {
	t.Parallel()
	s := newScene(t, glm.Practical)
	s.start()
	a, digest := s.announcement(1, 0)
	s.publish(destroyedRelease(a, digest))
	if c := s.counts(1, 0); !c.Destroyed {
		t.Errorf("%v", c)
	}
	next, second := s.announcement(2, 0)
	if !reflect.DeepEqual(next.Policy.Theta, a.Policy.Theta) {
		t.Error("the policy changed")
	}
	if p := s.analyzer.Progress(); len(p.Releases) != 1 || !p.Releases[0].Destroyed || p.Learned != nil ||
		p.Releases[0].Refused || p.Releases[0].Epsilon != 0 {
		t.Errorf("%+v", p)
	}
	left := destroyedRelease(next, second)
	left.manifest.Reports, left.manifest.Messages = next.Cohort.Size, uint64(next.Cohort.Size)
	s.publish(left)
	s.announcement(3, 0)
	if p := s.analyzer.Progress(); len(p.Releases) != 2 || p.Releases[1].Refused || !(p.Releases[1].Epsilon > 0) {
		t.Errorf("a part may have left before it was destroyed: %+v", p)
	}
	s.must(s.stop())
}

// Under a manifest that the shuffler did not sign, or signed for another round, nothing is counted, and readiness says
// why.
func TestForeignManifest(t *testing.T) {
	t.Parallel()
	for name, foreign := range map[string]func(s *scene, m *wire.Manifest) (signed []byte, want string){
		"another signer": func(s *scene, m *wire.Manifest) ([]byte, string) {
			signed, _ := s.Sign(m, s.Registrar)
			return signed, wire.ErrSigner.Error()
		},
		"another round": func(s *scene, m *wire.Manifest) ([]byte, string) {
			m.Round = 1
			signed, _ := s.Sign(m, s.Shuffler)
			s.must(s.shuffler.Audit.AppendAudit(s.Context(), "manifest", signed))
			return signed, "it is about round 1 of epoch 1"
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newScene(t, glm.Practical)
			var unmet atomic.Value
			s.config.Notice = func(condition string, err error) { unmet.Store(condition + ": " + fmt.Sprint(err)) }
			s.start()
			a, digest := s.announcement(1, 0)
			signed, want := foreign(s, destroyedRelease(a, digest).manifest)
			s.must(s.shuffler.Mixed.PublishManifest(s.Context(), 1, 0, signed))
			testbed.Eventually(t, "not ready: "+want, func() bool {
				why, _ := unmet.Load().(string)
				return strings.HasPrefix(why, "manifest: ") && strings.Contains(why, want)
			})
			if p := s.analyzer.Progress(); len(p.Releases) != 0 {
				t.Errorf("counted: %+v", p)
			}
			s.must(s.stop())
		})
	}
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

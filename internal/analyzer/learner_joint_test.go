package analyzer

import (
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/riffle-dp/riffle/internal/channel"
	"github.com/riffle-dp/riffle/internal/testing/testbed"
	devices "github.com/riffle-dp/riffle/pkg/channel"
	"github.com/riffle-dp/riffle/pkg/channel/envelope"
	"github.com/riffle-dp/riffle/pkg/deployment"
	"github.com/riffle-dp/riffle/pkg/glm"
	"github.com/riffle-dp/riffle/pkg/glm/family"
	"github.com/riffle-dp/riffle/pkg/glm/learner"
	"github.com/riffle-dp/riffle/pkg/glm/statistic"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/seal"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// newJoint is a scene in which the analyzer reads records, for three cohorts, and its state folder.
func newJoint(t *testing.T) (s *scene, state string) {
	t.Helper()
	if testing.Short() {
		t.Skip("nothing of it runs at the same time as anything else")
	}
	s, state = newCentral(t)
	s.config.Learner = testbed.Learner(glm.Joint, cohort)
	return s, state
}

// readableRelease is a release of records: people decide by the announced policy.
func (s *scene) readableRelease(a *plan.Announcement, digest [32]byte) *release {
	s.t.Helper()
	id, credential := s.Host(1000)
	d, err := envelope.NewDevice(a, digest)
	s.must(err)
	rng := rand.New(rand.NewPCG(a.Epoch, 1))
	var payload []byte
	for i := range uint32(cohort) {
		arms := [][]float64{{rng.Float64() - .5, rng.Float64()}, {rng.Float64(), rng.Float64() - .5}}
		made, err := a.Policy.Decide(arms, rng)
		s.must(err)
		row, err := statistic.NewRow(family.Logistic{}, 2)
		s.must(err)
		vector, err := row.Vector(nil, statistic.Record{
			Arm: arms[made.Arm], Reward: float64(i % 2), Explored: made.Explored,
		})
		s.must(err)
		by := devices.Sender{Identity: id, Credential: credential, Number: 100*uint32(a.Epoch) + i}
		payload, err = d.Append(payload, by, [][]float64{vector}, rng)
		s.must(err)
	}
	return s.sealedRelease(a, digest, payload)
}

// A curator that crashes at any step comes to the same announcements, which anybody can compute from the signed counts
// alone; it draws no noise twice. With the last policy all sealed records are destroyed, and from then on neither they
// nor the key are needed.
func TestJointCrashesAtEveryStep(t *testing.T) {
	t.Parallel()
	s, state := newJoint(t)
	public, err := deployment.NewCurated(s.config.Learner, 0, s.config.Terms) // an auditor
	s.must(err)
	for epoch := uint64(1); epoch <= 3; epoch++ {
		for i, step := range []string{
			afterAnnouncing, before + wire.KindCounts, after + wire.KindCounts, afterPurging, before + wire.KindLearned,
			after + wire.KindLearned,
		} {
			s.crash = func(after string) error {
				if after == step {
					return errCrash
				}
				return nil
			}
			s.start()
			if i == 0 {
				a, digest := s.announcement(epoch, 0)
				want := public.Next().Policy
				if a.Final || !reflect.DeepEqual(&a.Policy, &want) {
					t.Fatalf("epoch %d: announced is\n%+v\nthe log gives\n%+v", epoch, a.Policy, want)
				}
				if c := public.Curator(); !a.Plan.Curator.Equal(&c) {
					t.Fatalf("announced is the curator %+v", a.Plan.Curator)
				}
				s.publish(s.readableRelease(a, digest))
			}
			s.end()
			if err := s.stop(); !errors.Is(err, errCrash) {
				t.Fatalf("epoch %d ended after %s with %v", epoch, step, err)
			}
		}
		c := s.counts(epoch, 0)
		if c.Destroyed || len(c.Releases) != 1 || len(c.Releases[0].Ones) > 0 {
			t.Fatalf("counts %+v", c)
		}
		s.must(public.Absorb(c.Releases[0].Curated))
	}
	s.crash = nil
	s.start()
	a, _ := s.announcement(4, 0)
	if want := public.Next(); !a.Final || !want.Done || !reflect.DeepEqual(&a.Policy, &want.Policy) ||
		a.Policy.Play != glm.PlayGreedy {
		t.Errorf("the last policy is %+v, want %+v", a, want)
	}
	testbed.Eventually(t, "destroyed", func() bool {
		kept, err := filepath.Glob(filepath.Join(state, "sealed-*"))
		return err == nil && len(kept) == 0
	})
	s.must(s.stop())
	other, err := seal.GenerateHPKE()
	s.must(err)
	s.config.Keys = []*seal.HPKEKey{other}
	s.start()
	testbed.Eventually(t, "final", func() bool { return s.analyzer.Progress().Final })
	s.must(s.stop())
}

// A curator whose sealed records are gone stops before it draws noise; a destroyed cohort uses no leaf.
func TestJointNeedsWhatItSealed(t *testing.T) {
	t.Parallel()
	s, state := newJoint(t)
	s.start()
	first, of := s.announcement(1, 0)
	s.publish(s.readableRelease(first, of))
	s.counts(1, 0)
	s.announcement(2, 0)
	s.must(s.stop())
	path := filepath.Join(state, "sealed-1-0")
	whole, err := os.ReadFile(path)
	s.must(err)
	s.must(os.Remove(path))
	s.start()
	a, digest := s.announcement(2, 0)
	r := s.readableRelease(a, digest)
	s.publish(r)
	s.end()
	if err := s.stop(); !errors.Is(err, channel.ErrOldState) {
		t.Errorf("without sealed records: %v", err)
	}
	s.must(os.WriteFile(path, whole, 0o600))
	s.start()
	if c := s.counts(2, 0); c.Destroyed {
		t.Error("the records that came back are not used")
	}
	a, digest = s.announcement(3, 0)
	s.close(destroyedRelease(a, digest))
	final, _ := s.announcement(4, 0)
	if !final.Final || final.Policy.Epoch != 2 || !reflect.DeepEqual(final.Policy.Theta, a.Policy.Theta) {
		t.Errorf("after a destroyed cohort: %+v", final)
	}
	s.must(s.stop())
}

// The profile is refused where nobody may read records, and for what its horizon does not allow.
func TestJointIsRefusedElsewhere(t *testing.T) {
	t.Parallel()
	s, _ := newJoint(t)
	s.config.Anytime = true
	if _, err := New(s.config); !errors.Is(err, learner.ErrExtend) {
		t.Errorf("anytime: %v", err)
	}
	s.config.Anytime = false
	for batch, want := range map[int]string{cohort - 1: "must be at least 12", 37: "at most the 36", -1: "at least"} {
		s.config.Batch = batch
		if _, err := New(s.config); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("batches of %d: %v", batch, err)
		}
	}
	s.config.Batch = 0
	for _, c := range []plan.Channel{"", plan.Shuffle, plan.Shares, plan.Local} {
		s.config.Terms.Channel = c
		if _, err := New(s.config); err == nil || !strings.Contains(err.Error(), "needs the channel central") {
			t.Errorf("channel %q: %v", c, err)
		}
	}
}

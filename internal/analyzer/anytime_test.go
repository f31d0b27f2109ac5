package analyzer

import (
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/riffle-dp/riffle/internal/testing/testbed"
	"github.com/riffle-dp/riffle/pkg/glm"
	"github.com/riffle-dp/riffle/pkg/glm/learner"
)

// With anytime the end of the horizon is not the end: the fourth of three planned cohorts learns from all before it, as
// many are planned as twice the horizon needs, and a process that starts again comes to the same announcements. The
// paper's profile refuses.
func TestAnytimeGoesOnAfterTheHorizon(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("nothing of it runs at the same time as anything else")
	}
	s := newScene(t, glm.Practical)
	s.config.Anytime = true
	s.start()
	const epochs = 5 // a horizon of three cohorts, and two of the six that follow
	for epoch := uint64(1); epoch <= epochs; epoch++ {
		a, digest := s.announcement(epoch, 0)
		if a.Final || a.Policy.Epoch != int(epoch)-1 || a.Cohort.Size != cohort {
			t.Fatalf("epoch %d: final %t, learnt from %d cohorts, for %d people", epoch, a.Final, a.Policy.Epoch,
				a.Cohort.Size)
		}
		r, _ := s.honest(a, digest, cohort)
		s.publish(r)
		s.counts(epoch, 0)
	}
	before, _ := s.announcement(epochs+1, 0)
	if n := s.analyzer.Progress().Epochs; n != 9 {
		t.Errorf("%d cohorts are planned, want 3 and 6", n)
	}
	s.must(s.stop())
	s.start()
	a, digest := s.announcement(epochs+1, 0)
	if !reflect.DeepEqual(a, before) {
		t.Errorf("announced\n%v\ninstead of\n%v", a, before)
	}
	r, _ := s.honest(a, digest, cohort)
	s.publish(r)
	s.announcement(epochs+2, 0) // it goes on after the replay, and would have ended if that gave something else
	s.must(s.stop())

	s.config.Anytime = false // what was announced does not follow from a horizon that ends
	s.start()
	s.end()
	if err := s.stop(); !errors.Is(err, ErrConfigChanged) {
		t.Errorf("without anytime: %v", err)
	}
	s.config.Anytime, s.config.Learner = true, testbed.Learner(glm.Paper, cohort)
	if _, err := New(s.config); !errors.Is(err, learner.ErrExtend) || !strings.Contains(err.Error(), "one horizon") {
		t.Errorf("the paper profile: %v", err)
	}
}

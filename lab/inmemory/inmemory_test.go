package inmemory_test

import (
	"testing"
	"time"

	"github.com/riffle-dp/riffle/internal/testing/testbed"
	"github.com/riffle-dp/riffle/lab/inmemory"
	"github.com/riffle-dp/riffle/pkg/glm"
	"github.com/riffle-dp/riffle/pkg/glm/learner"
	"github.com/riffle-dp/riffle/pkg/plan"
)

// All messages of a release leave, and each part of the work is on the account of the clock.
func TestAReleaseIsMixedInMemory(t *testing.T) {
	learner, err := learner.New(testbed.Learner(glm.Practical, 12))
	if err != nil {
		t.Fatal(err)
	}
	step := learner.Next()
	step.Cohort = 12
	p, err := plan.Propose(step, testbed.Terms())
	if err != nil {
		t.Fatal(err)
	}
	a, ticks := p.Announced(step), time.Duration(0)
	r, err := inmemory.Mix(t.Context(), a, 12, t.TempDir(), func() time.Duration { ticks += time.Second; return ticks })
	if err != nil || r.Messages != 12*a.ReportMessages() || r.Take != 12 || min(r.Scatter, r.Permute, r.Send) < 1 {
		t.Errorf("%+v, %v", r, err)
	}
}

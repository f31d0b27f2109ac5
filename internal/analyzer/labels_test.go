package analyzer

import (
	"slices"
	"testing"

	"github.com/riffle-dp/riffle/internal/role/status"
	"github.com/riffle-dp/riffle/internal/testing/testbed"
	"github.com/riffle-dp/riffle/pkg/glm"
	"github.com/riffle-dp/riffle/pkg/plan"
)

// A shuffler that admits a report with all bits on one coordinate has the round refused, also where the plan expects a
// dishonest report: it does not follow the protocol, since the labels are in the clear. The analyzer had what left, so
// that its status says that it is spent, also after a restart.
func TestARoundWithOtherLabelsIsRefused(t *testing.T) {
	t.Parallel()
	s := newScene(t, glm.Practical)
	s.config.Terms.DishonestReports = 1
	s.start()
	a, digest := s.announcement(1, 0)
	all, _ := bits(a.Encodings, cohort-1, half)
	all = append(all, slices.Repeat([]bit{{one: true}}, a.ReportMessages())...)
	s.publish(s.cut(a, digest, s.seal(a, digest, all...), cohort))
	if c := s.counts(1, 0); !c.Destroyed || len(c.Releases) != 0 {
		t.Errorf("counts %v", c)
	}
	for _, when := range []string{"at once", "after a restart"} {
		s.announcement(2, 0)
		testbed.Eventually(t, "learned", func() bool { return len(s.analyzer.Snapshot().Releases) == 1 })
		g, err := plan.GuaranteeWith(a, cohort)
		s.must(err)
		want, got := g.Epsilon(s.config.Terms.Delta), s.analyzer.Snapshot()
		if r := got.Releases[0]; r.Outcome != status.Refused ||
			float64(r.Epsilon) != want || *got.Budget.Spent != r.Epsilon ||
			r.Messages != cohort*a.ReportMessages() {
			t.Errorf("%s the status says %+v, spent %v; what left reveals %v", when, r, *got.Budget.Spent, want)
		}
		s.must(s.stop())
		s.start()
	}
	s.must(s.stop())
}

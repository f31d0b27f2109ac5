package plan

import (
	"testing"

	"github.com/riffle-dp/riffle/pkg/glm/learner"
)

func firstStep(tb testing.TB, cfg learner.Config) learner.Step {
	tb.Helper()
	l, err := learner.New(cfg)
	if err != nil {
		tb.Fatal(err)
	}
	return l.Next()
}

func BenchmarkPropose(b *testing.B) {
	step := firstStep(b, learner.Config{Dimension: 5, Horizon: 5000})
	terms := Terms{Epsilon: 1, Delta: 1e-6, DropOut: 0.05, MaxMessages: 150, MaxShift: 16}
	for b.Loop() {
		p, err := Propose(step, terms)
		if err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(float64(p.Details.Messages), "messages")
		b.ReportMetric(p.Details.Epsilon, "epsilon")
		b.ReportMetric(p.Details.Releases[1].Deviation, "gradient-deviation")
	}
}

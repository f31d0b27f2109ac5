package planner

import (
	"testing"

	"github.com/riffle-dp/riffle/pkg/plan"
)

func defaults() Options {
	return Options{Users: 5000, Dimension: 5, Family: "logistic", MaxReward: 1, Radius: 3, Epsilon: 1, Delta: 1e-6, DropOut: 0.05, DishonestReports: 1, MinCohort: 50,
		Messages: plan.ByCoordinates, HostMessages: 5000, MaxShift: 16, SealSeconds: 30e-6}
}

// BenchmarkDefault plans the default deployment: what a person waits for.
func BenchmarkDefault(b *testing.B) {
	for b.Loop() {
		if _, err := Run(defaults()); err != nil {
			b.Fatal(err)
		}
	}
}

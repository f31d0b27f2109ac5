package planner

import (
	"testing"

	"github.com/riffle-dp/riffle/pkg/plan"
)

func defaults() Options {
	return Options{Users: 5000, Dimension: 5, Family: "logistic", MaxReward: 1, Radius: 3, Terms: plan.DefaultTerms(),
		HostMessages: 5000, SealSeconds: 30e-6}
}

// BenchmarkDefault plans the default deployment: the time that riffle plan takes.
func BenchmarkDefault(b *testing.B) {
	for b.Loop() {
		if _, err := Run(defaults()); err != nil {
			b.Fatal(err)
		}
	}
}

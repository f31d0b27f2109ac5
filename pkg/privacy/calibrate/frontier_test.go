package calibrate

import (
	"math"
	"testing"

	"github.com/riffle-dp/riffle/pkg/privacy"
)

// A frontier's points are solutions like any others: within the budget, at their ratios, and more precision costs more
// messages.
func TestFrontierHasSolutionsAtItsRatios(t *testing.T) {
	r := Request{Epsilon: 1, Delta: 1e-6, Cohort: 1000, MinCohort: 900,
		Releases: []privacy.Vector{unitVector(6), unitVector(3)}}
	ratios := []float64{1.0001, 1.2, 1.5, 2, 4}
	solutions, err := Frontier(complete(r), ratios)
	if err != nil {
		t.Fatal(err)
	}
	if len(solutions) != 4 { // 1.0001 cannot be met: 900 devices' noise counts, and 1000 devices' is added
		t.Fatalf("%d solutions", len(solutions))
	}
	for i, p := range solutions {
		one := r
		one.VarianceRatio = ratios[i+1]
		alone, err := Bits(complete(one))
		if err != nil {
			t.Fatal(err)
		}
		if !(p.Epsilon <= 1) || p.Messages < alone.Messages {
			t.Errorf("ratio %v: epsilon %v, %d messages, Solve needs %d",
				ratios[i+1], p.Epsilon, p.Messages, alone.Messages)
		}
		for _, rel := range p.Releases {
			if rel.VarianceRatio > ratios[i+1]*(1+1e-9) {
				t.Errorf("ratio %v: %v", ratios[i+1], rel.VarianceRatio)
			}
		}
		if i > 0 && p.Messages > solutions[i-1].Messages {
			t.Errorf("ratio %v costs %d messages, a smaller one %d", ratios[i+1], p.Messages, solutions[i-1].Messages)
		}
	}
}

// With a number of messages instead of a variance ratio the solver spends them: more messages, less variance, never
// more than allowed.
func TestLeastVarianceUnderAMessageLimit(t *testing.T) {
	last := math.Inf(1)
	for _, limit := range []int{45, 80, 150, 300} {
		p, err := Bits(complete(Request{Epsilon: 1, Delta: 1e-6, Cohort: 300, MinCohort: 300, MaxShift: 16,
			MaxMessages: limit,
			Releases:    []privacy.Vector{unitVector(15), unitVector(5)}, Shares: []float64{15, 85}}))
		if err != nil {
			t.Fatal(err)
		}
		worst := math.Max(p.Releases[0].VarianceRatio, p.Releases[1].VarianceRatio)
		t.Logf("%d messages of %d: variance ratio %.3f and %.3f",
			p.Messages, limit, p.Releases[0].VarianceRatio, p.Releases[1].VarianceRatio)
		// One more level of the smaller release costs 5 messages: no more than that may be left.
		if p.Messages > limit || p.Messages < limit-5 || worst >= last {
			t.Errorf("%d messages of %d: ratio %v after %v", p.Messages, limit, worst, last)
		}
		last = worst
	}
}

// A release at the cap leaves its budget to the other, which then has less error than its own share gives it.
func TestUnusedBudgetIsHandedOn(t *testing.T) {
	r := Request{Epsilon: 1, Delta: 1e-6, Cohort: 2000, MinCohort: 2000,
		Releases: []privacy.Vector{unitVector(5), unitVector(15)}, Shares: []float64{0.7, 0.3}, MaxShift: 4,
		NoiseBits: 4}
	with, err := Bits(complete(r))
	if err != nil {
		t.Fatal(err)
	}
	if with.Releases[0].Limit != LimitShift {
		t.Fatalf("the first release is not capped: %+v", with.Releases[0])
	}
	share, err := privacy.MuFor(1, (1-privacy.TailShare)*1e-6)
	if err != nil {
		t.Fatal(err)
	}
	share *= math.Sqrt(0.3)
	if mu := with.Releases[1].Guarantee.Mu; !(mu > 1.1*share) && with.Releases[1].Limit != LimitShift {
		t.Errorf("the second release has mu %v, its share alone is %v", mu, share)
	}
	if with.Unused > 0.01 && with.Releases[1].Limit != LimitShift {
		t.Errorf("%v of the budget is unused", with.Unused)
	}
	r.MaxShift = 1 // both capped: what is left is left, and said
	both, err := Bits(complete(r))
	if err != nil {
		t.Fatal(err)
	}
	if both.Releases[1].Limit != LimitShift || !(both.Unused > 0.5) || !(both.Epsilon < 0.5) {
		t.Errorf("both capped: unused %v, epsilon %v", both.Unused, both.Epsilon)
	}
}

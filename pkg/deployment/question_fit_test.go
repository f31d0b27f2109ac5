package deployment_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/riffle-dp/riffle/pkg/deployment"
	"github.com/riffle-dp/riffle/pkg/glm/statistic"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// The intervals of a regression hold the truth of the people whom panels are drawn from in 95 % of panels or more, and
// there are intervals, in shares, though 3 people of 10 have nothing to report. Of 200 panels at least 181 hold it,
// which fails by chance in 0.3 % at most if 95 % is right; seeds are fixed. Without the noise fewer than 165 would.
func TestRegressionsOfPanelsCoverTheTruth(t *testing.T) {
	const panels, size = 200, 2500
	a, _, err := begin(t, panelOf(plan.Shares, size, 1, 1)).Asking(statistic.Fit, &statistic.Question{Name: "a",
		Of: []statistic.Quantity{{Entries: []int{0}, Low: 0.2, High: 0.9}, ofReward}})
	if err != nil {
		t.Fatal(err)
	}
	src := rand.NewChaCha8([32]byte{12})
	rng := rand.New(src)
	held := make([]int, 2)
	for range panels {
		got := answer(t, a, src, size, func() []statistic.Record { return person(rng) })
		for j, want := range []float64{0, 0.5} { // the reward at 0, and per unit of the arm's first number
			v := got.Values[j]
			if v.Unbounded {
				t.Fatalf("no interval: %+v", v)
			}
			if v.Low <= want && want <= v.High {
				held[j]++
			}
		}
	}
	for j, n := range held {
		if n < 181 {
			t.Errorf("interval %d holds the truth in %d of %d panels", j, n, panels)
		}
	}
}

// Where a report holds up to four decisions, which may be alike, the intervals of sampling are twice as long as where
// it holds one: a quarter of the decisions counts.
func TestRegressionsCountDecisionsThatMayBeAlike(t *testing.T) {
	q := &statistic.Question{Name: "a", Of: []statistic.Quantity{ofArm, ofReward}}
	var half [2]float64
	for i, decisions := range []int{1, 4} {
		a, _, err := begin(t, panelOf(plan.Shares, 2500, 1, decisions)).Asking(statistic.Fit, q)
		if err != nil {
			t.Fatal(err)
		}
		s := statistic.Statistic{Kind: statistic.Fit, Family: familyOf(t, a), ArmDim: 2, Question: q}
		sum := wire.Sum{Values: make([]float64, s.Dim()), Variance: make([]float64, s.Dim())}
		rng := rand.New(rand.NewPCG(1, 2))
		for range 3000 {
			for _, r := range person(rng) {
				for j, v := range made(s.Vector(nil, r)) {
					sum.Values[j] += v
				}
			}
		}
		v := made(deployment.AnswerOf(a, []wire.Sum{sum}, 2500)).Values[1]
		half[i] = v.High - v.Low
	}
	if ratio := half[1] / half[0]; math.Abs(ratio-2) > 0.01 {
		t.Errorf("the interval is %v times as long, want 2", ratio)
	}
}

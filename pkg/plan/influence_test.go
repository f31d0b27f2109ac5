package plan

import (
	"math"
	"testing"

	"github.com/riffle-dp/riffle/pkg/glm/learner"
)

// In a deployment of shuffle that was begun before labels a dishonest device can spend all bits of its report on one
// coordinate, since a bit names its coordinate under the seal: the poison counts them all, unless the plan expects no
// dishonest report and one bit too many has the round refused. With labels, as by default, it counts a coordinate's own
// bits in both cases, and is less than one deviation.
func TestPoisonOfShuffleCountsWhatPasses(t *testing.T) {
	step := stepAt(t, learner.Config{Dimension: 5, Horizon: 5000}, 179, 0.7)
	p, err := Propose(step, DefaultTerms())
	if err != nil {
		t.Fatal(err)
	}
	a := p.Announced(step)
	want, own := 0.0, 0.0
	for _, e := range a.Encodings {
		deviation := math.Sqrt(e.Variance(179, 0)[0]) * e.Scale // levels
		mean := float64(e.NoiseBits) * e.Bias.Float()
		want = max(want, (float64(a.ReportMessages())-mean)/deviation)
		for j := range e.Coordinates {
			own = max(own, (float64(e.MessagesAt(j))-mean)/deviation)
		}
	}
	if got := a.Poison(); math.Abs(got-own) > 1e-9 || got >= 1 {
		t.Errorf("poison %v, want %v, and below 1 deviation", got, own)
	}
	a.Plan.Labelled = false
	if got := a.Poison(); math.Abs(got-want) > 1e-9 || got < 5 {
		t.Errorf("poison %v, want %v, and above 5 deviations", got, want)
	}
	a.Cohort.MaxDishonest = 0
	for _, a.Plan.Labelled = range []bool{false, true} {
		if got := a.Poison(); math.Abs(got-own) > 1e-9 {
			t.Errorf("poison %v without a report to spare, want %v", got, own)
		}
	}
}

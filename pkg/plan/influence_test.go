package plan

import (
	"math"
	"testing"

	"github.com/riffle-dp/riffle/pkg/glm/learner"
)

// A dishonest device of shuffle can do no more than set all of a coordinate's own bits, which is less than one
// deviation, whether the plan expects dishonest reports or none.
func TestPoisonOfShuffleCountsWhatPasses(t *testing.T) {
	step := stepAt(t, learner.Config{Dimension: 5, Horizon: 5000}, 179, 0.7)
	p, err := Propose(step, DefaultTerms())
	if err != nil {
		t.Fatal(err)
	}
	a := p.Announced(step)
	want := 0.0
	for _, e := range a.Encodings {
		deviation := math.Sqrt(e.Variance(179, 0)[0]) * e.Scale // levels
		mean := float64(e.NoiseBits) * e.Bias.Float()
		for j := range e.Coordinates {
			want = max(want, (float64(e.MessagesAt(j))-mean)/deviation)
		}
	}
	for _, a.Cohort.MaxDishonest = range []uint32{a.Cohort.MaxDishonest, 0} {
		if got := a.Poison(); math.Abs(got-want) > 1e-9 || got >= 1 {
			t.Errorf("poison %v, want %v, and below 1 deviation", got, want)
		}
	}
}

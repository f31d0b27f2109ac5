package experiment

import (
	"math"
	"strings"
	"testing"

	"github.com/riffle-dp/riffle/internal/play"
	"github.com/riffle-dp/riffle/internal/population"
)

// byHand is an entry of two seeds with the given mean rewards and last policies.
func byHand(values, finals [2]float64) *entry {
	x := &entry{world: &arena{World: World{Name: "hand", Half: Tuning}}, refusals: make([]error, 2)}
	for s := range 2 {
		x.results = append(x.results, &result{Score: play.Score{Value: values[s]}, Final: &finals[s]})
	}
	return x
}

// Two seeds by hand. Gains of the whole are 0.4 and 0.2 over the constant, those while learning 0.1 and 0.05, those at
// the end 0.3 and -0.1: shares 0.15/0.6 and 0.2/0.6, whose pairs are off by nothing and by +-(0.3 - 0.4/3).
func TestSharesByHand(t *testing.T) {
	best := 0.9
	measures := []*yardsticks{
		{Constant: 0.4, EndConstant: 0.5, Uniform: 0.3, EndUniform: 0.2, EndBest: &best},
		{Constant: 0.45, EndConstant: 0.6, Uniform: 0.35, EndUniform: 0.3, EndBest: &best},
	}
	for _, m := range measures {
		m.Info = population.Info{Family: "logistic", MaxReward: 1, Dim: 6, Arms: 3, People: 100}
	}
	learner := byHand([2]float64{0.5, 0.5}, [2]float64{0.8, 0.5})
	for _, c := range []struct {
		greedy        [2]float64
		over          string
		learning, end float64
		learningSE    float64
		endSE         float64
		below         int
	}{
		{[2]float64{0.9, 0.8}, OverConstant, 0.15 / 0.6, 0.2 / 0.6, 0, (0.3 - 0.4/3) / 0.3, 1},
		// 0.005 over the constant is too little to divide by; over uniform play it is 0.305 in each seed.
		{[2]float64{0.505, 0.605}, OverUniform, 0.35 / 0.61, 0.8 / 0.61, 0.025 / 0.305, 0.2 / 0.305, 0},
		// 0.35 and 0.05 over the constant are less than two standard errors, 0.65 and 0.35 over uniform play are more.
		{[2]float64{0.85, 0.65}, OverUniform, 0.35, 0.8, 0.0275 / 0.5, 0.08 / 0.5, 0},
		// A learner that is stuck: what can be gained is 0.7 and 0.6.
		{[2]float64{0.2, 0.3}, OverBest, 0.35 / 1.3, 0.8 / 1.3, 0, 0, 0},
	} {
		r := learner.row(byHand([2]float64{}, c.greedy).results, measures)
		if r.Over != c.over || r.Learning == nil || r.End == nil || r.Below != c.below {
			t.Fatalf("greedy %v: %+v", c.greedy, r)
		}
		if math.Abs(*r.Learning-c.learning) > 1e-12 || math.Abs(*r.End-c.end) > 1e-12 {
			t.Errorf("greedy %v: shares %v and %v, want %v and %v", c.greedy, *r.Learning, *r.End, c.learning, c.end)
		}
		if c.over != OverBest && (math.Abs(*r.LearningSE-c.learningSE) > 1e-12 || math.Abs(*r.EndSE-c.endSE) > 1e-12) {
			t.Errorf("greedy %v: standard errors %v and %v, want %v and %v", c.greedy, *r.LearningSE, *r.EndSE,
				c.learningSE, c.endSE)
		}
	}
	for _, m := range measures { // labels: nobody knows what the best is
		m.EndBest = nil
	}
	if r := learner.row(byHand([2]float64{}, [2]float64{0.2, 0.3}).results, measures); r.Over != "" || r.End != nil {
		t.Errorf("a share of nothing: %+v", r)
	}
}

// One seed has shares and no standard errors.
func TestOneSeedHasNoStandardError(t *testing.T) {
	x := byHand([2]float64{0.5, 0}, [2]float64{0.8, 0})
	m := []*yardsticks{{Constant: 0.4, EndConstant: 0.5, Info: population.Info{Family: "logistic", MaxReward: 1}}}
	r := x.row(byHand([2]float64{}, [2]float64{0.9, 0}).results, m)
	if r.End == nil || math.Abs(*r.End-0.75) > 1e-12 || r.LearningSE != nil || r.EndSE != nil {
		t.Errorf("%+v", r)
	}
	b := &Bakeoff{Rows: []ShareRow{r}}
	b.summarise()
	var out strings.Builder
	if err := b.WriteTable(&out, false); err != nil || strings.Contains(out.String(), "±") {
		t.Errorf("%v: %s", err, out.String())
	}
}

// A mean over worlds counts a share above 1 as 1, and what is worst is named.
func TestSummaryByHand(t *testing.T) {
	v := func(x float64) *float64 { return &x }
	b := &Bakeoff{Rows: []ShareRow{
		{World: "a", Half: Tuning, Algorithm: "x", Seeds: 4, Learning: v(0.5), LearningSE: v(0.3), End: v(1.7),
			EndSE: v(0), Below: 1},
		{World: "b", Half: Tuning, Algorithm: "x", Seeds: 4, Learning: v(-0.5), LearningSE: v(0.4), End: v(0.4),
			EndSE: v(0.2), Below: 3},
		{World: "c", Half: Tuning, Algorithm: "x", Seeds: 4, Refused: "no"},
		{World: "d", Half: HeldOut, Algorithm: "x", Seeds: 4, Learning: v(0.25), LearningSE: v(0), End: v(0.5),
			EndSE: v(0)},
	}}
	b.summarise()
	want := []ShareSummary{
		{Algorithm: "x", Half: Tuning, Worlds: 2, Refused: 1, Learning: 0, LearningSE: 0.25, LearningLeast: -0.5,
			LearningWorld: "b", End: 0.7, EndSE: 0.1, EndLeast: 0.4, EndWorld: "b", Losing: 1, Runs: 8, Below: 4,
			BelowMost: 3, BelowWorld: "b"},
		{Algorithm: "x", Half: HeldOut, Worlds: 1, Learning: 0.25, LearningLeast: 0.25, LearningWorld: "d", End: 0.5,
			EndLeast: 0.5, EndWorld: "d", Runs: 4},
	}
	if len(b.Summary) != len(want) {
		t.Fatalf("%+v", b.Summary)
	}
	for i, s := range b.Summary {
		if s != want[i] {
			t.Errorf("%+v, want %+v", s, want[i])
		}
	}
}

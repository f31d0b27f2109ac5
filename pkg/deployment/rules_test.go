package deployment

import (
	"math"
	"strings"
	"testing"

	"github.com/riffle-dp/riffle/pkg/glm"
	"github.com/riffle-dp/riffle/pkg/glm/family"
	"github.com/riffle-dp/riffle/pkg/glm/learner"
	"github.com/riffle-dp/riffle/pkg/glm/statistic"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// A control group twice as large as announced, whose rewards are rare, is told with its probability, over all epochs;
// one of the announced size is not, and neither is anything before there are sums.
func TestAWrongShareIsTold(t *testing.T) {
	const people, control, mean = 1e5, 0.1, 0.05
	for share, want := range map[float64]bool{0.1: false, 0.2: true} {
		conf := wire.Configuration{Learner: learner.Config{Profile: glm.Practical, Family: family.NameLogistic,
			MaxReward: 1,
			Dimension: 2, Radius: 2, Horizon: 1000, Epsilon: 1, Delta: 1e-6, MinCohort: 50,
			Practical: learner.PracticalConfig{Panel: 100, Control: control}}}
		l, err := learner.New(conf.Learner)
		if err != nil {
			t.Fatal(err)
		}
		m := &Machine{c: conf, learner: l}
		if text := m.WrongShare(); text != "" {
			t.Errorf("before there are sums: %s", text)
		}
		err = m.compare(l, learner.Aggregate{
			Kind: statistic.Rewards, Reports: people, Variance: make([]float64, 3),
			Sum: []float64{(1 - share) * people * (mean - 0.5), share * people * (mean - 0.5),
				people * math.Sqrt(3) / 2},
		}, new(wire.Learned))
		if text := m.WrongShare(); err != nil || (text != "") != want ||
			want && !strings.Contains(text,
				"with the announced share 0.1, sums like these had a probability of at most") {
			t.Errorf("a share of %v: %q, %v", share, text, err)
		}
	}
}

// The rules look at the last epochs alone, all of them together. The lifts are of 10^5 decisions each without noise, so
// that half an interval is about 0.01.
func TestRulesLookAtTheirWindow(t *testing.T) {
	const people, control = 1e5, 0.2
	floor := -0.05
	for _, c := range []struct {
		window int
		lifts  []float64
		acts   int // from 1: at which it stops; 0: never
	}{
		{1, []float64{0.3, -0.04, -0.08}, 3}, {2, []float64{0.3, -0.1, -0.1}, 3}, {2, []float64{-0.3, 0.3, 0.3}, 0},
		{2, []float64{-0.3}, 0}, {3, []float64{0.3, -0.2, -0.2}, 0}, {3, []float64{0.3, -0.2, -0.2, -0.2}, 4},
	} {
		conf := wire.Configuration{
			Learner: learner.Config{Profile: glm.Practical, Family: family.NameLogistic, MaxReward: 1, Dimension: 2,
				Radius:  2,
				Horizon: 1000, Epsilon: 1, Delta: 1e-6, MinCohort: 50,
				Practical: learner.PracticalConfig{Panel: 100, Control: control}},
			Rules: plan.Rules{Stop: &floor, Window: c.window},
		}
		l, err := learner.New(conf.Learner)
		if err != nil {
			t.Fatal(err)
		}
		m := &Machine{c: conf, learner: l}
		for i, lift := range c.lifts {
			var out wire.Learned
			err := m.compare(l, learner.Aggregate{
				Kind: statistic.Rewards, Reports: people, Variance: make([]float64, 3),
				Sum: []float64{(1 - control) * people * lift, 0, people * math.Sqrt(3) / 2},
			}, &out)
			if err != nil || math.Abs(out.Lift.Lift-lift) > 1e-9 || out.Total.Reports != uint64(i+1)*people {
				t.Fatalf("lift %+v, %+v: %v", out.Lift, out.Total, err)
			}
			if (out.Action == wire.ActionStop) != (i+1 == c.acts) {
				t.Errorf("window %d, lifts %v: after epoch %d the rules did %q", c.window, c.lifts, i+1, out.Action)
			}
		}
	}
}

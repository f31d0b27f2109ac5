package statistic_test

import (
	"errors"
	"math"
	"testing"

	"github.com/riffle-dp/riffle/pkg/glm/family"
	"github.com/riffle-dp/riffle/pkg/glm/statistic"
)

// A report of more decisions than its plan allows is none: their sum, divided by the most, would leave the bounds. As
// many as the plan allows are one.
func TestAReportHoldsNoMoreThanItsDecisions(t *testing.T) {
	s, err := statistic.NewRewards(family.Logistic{}, 2)
	if err != nil {
		t.Fatal(err)
	}
	record := statistic.Record{Arm: []float64{1, 0}, Reward: 1}
	if v, err := s.Report(nil, []statistic.Record{record, record, record}, 2); !errors.Is(err,
		statistic.ErrDimension) || v != nil {
		t.Errorf("three decisions in a report of two: %v, %v", v, err)
	}
	if v, err := s.Report(nil, []statistic.Record{record, record}, 2); err != nil || v[0] != 0.5 {
		t.Errorf("two decisions in a report of two: %v, %v", v, err)
	}
}

// The rewards of two records are no farther apart than is stated, whichever group they are in and whether a reward
// came; and two of them are as far apart.
func TestRewardsMoveAsFarAsStated(t *testing.T) {
	for _, f := range []family.Family{family.Logistic{}, family.Linear{}} {
		s, err := statistic.NewRewards(f, 1)
		if err != nil {
			t.Fatal(err)
		}
		b, err := s.Bounds()
		if err != nil {
			t.Fatal(err)
		}
		var all [][]float64
		for _, r := range []statistic.Record{{Null: true}, {Reward: f.MinReward()}, {Reward: f.MaxReward()},
			{Reward: f.MinReward(), Control: true}, {Reward: f.MaxReward(), Control: true}} {
			r.Arm = []float64{1}
			v, err := s.Vector(nil, r)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, v)
		}
		most := 0.0
		for _, v := range all {
			for _, w := range all {
				most = max(most, math.Hypot(math.Hypot(v[0]-w[0], v[1]-w[1]), v[2]-w[2]))
			}
		}
		if most > b.Diameter || most < b.Diameter*(1-1e-6) {
			t.Errorf("%s: rewards are up to %v apart, stated are %v", f.Name(), most, b.Diameter)
		}
	}
}

// Opposite arms with the two ends of the rewards are as far apart as is stated, in every dimension: sqrt 8 for rewards
// in [-1, 1], sqrt 5 for rewards in [0, 1].
func TestPairsMoveAsFarAsStated(t *testing.T) {
	for _, c := range []struct {
		family family.Family
		want   float64
	}{{family.Linear{}, math.Sqrt(8)}, {family.Logistic{}, math.Sqrt(5)}} {
		for d := 1; d <= 3; d++ {
			s, err := statistic.NewPair(c.family, d)
			if err != nil {
				t.Fatal(err)
			}
			b, err := s.Bounds()
			if err != nil {
				t.Fatal(err)
			}
			arm, opposite := make([]float64, d), make([]float64, d)
			arm[d-1], opposite[d-1] = 1, -1
			u, err := s.Vector(nil, statistic.Record{Arm: arm, Reward: c.family.MaxReward()})
			if err != nil {
				t.Fatal(err)
			}
			v, err := s.Vector(nil, statistic.Record{Arm: opposite, Reward: c.family.MinReward()})
			if err != nil {
				t.Fatal(err)
			}
			if got := distance(u, v); math.Abs(got-c.want) > 1e-12 || got > b.Diameter || b.Diameter > got*(1+1e-8) {
				t.Errorf("%s, %d dimensions: %v apart, the diameter is %v, want %v", c.family.Name(), d, got,
					b.Diameter, c.want)
			}
		}
	}
}

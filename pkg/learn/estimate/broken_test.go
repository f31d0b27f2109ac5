package estimate_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/riffle-dp/riffle/pkg/glm/family"
	"github.com/riffle-dp/riffle/pkg/glm/statistic"
	"github.com/riffle-dp/riffle/pkg/learn"
	"github.com/riffle-dp/riffle/pkg/learn/estimate"
)

func distance(a, b []float64) float64 {
	sum := 0.0
	for i := range a {
		sum += (a[i] - b[i]) * (a[i] - b[i])
	}
	return math.Sqrt(sum)
}

// broken are records that no honest device has.
func broken(d int) []learn.Record {
	arm := func(v float64) []float64 { return slices.Repeat([]float64{v}, d) }
	out := []learn.Record{{}, {Arm: make([]float64, d+1), Reward: 1}, {Arm: make([]float64, d-1), Reward: 1}}
	for _, v := range []float64{math.NaN(), math.Inf(1), math.Inf(-1), 1.7e308, -1.7e308, 1e-320, 0.5} {
		for _, y := range []float64{math.NaN(), math.Inf(1), math.Inf(-1), 1.7e308, 1} {
			out = append(out, learn.Record{Arm: arm(v), Reward: y})
		}
	}
	return out
}

// Of a record that is no record, too, a statistic gives as many finite numbers as it says, within its bounds: a sum
// with NaN in it would show the record whatever the noise.
func TestStatisticsOfBrokenRecords(t *testing.T) {
	const d = 3
	// Algorithm 6 projects nothing.
	far, err := learn.Announced(statistic.Statistic{Kind: statistic.ClippedGradient, Family: family.Linear{},
		Theta: []float64{1e9, -1e9, 1e9}, ArmDim: d})
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range []learn.Statistic{estimate.Moments(d), far} {
		var all [][]float64
		for _, r := range broken(d) {
			v := s.Vector(nil, r)
			if len(v) != s.Dim() {
				t.Fatalf("%s of %+v has %d coordinates, not %d", s.Name, r, len(v), s.Dim())
			}
			for j, x := range v {
				if !(x >= s.Lower[j]-1e-12 && x <= s.Upper[j]+1e-12) {
					t.Fatalf("%s of %+v: coordinate %d is %v, outside [%v, %v]", s.Name, r, j, x, s.Lower[j],
						s.Upper[j])
				}
			}
			all = append(all, v)
		}
		for _, v := range all {
			for _, w := range all {
				if !(distance(v, w) <= s.Diameter) {
					t.Fatalf("%s: %v and %v are more than %v apart", s.Name, v, w, s.Diameter)
				}
			}
		}
	}
}

// A broken record does not stop a curator, whose refusal would show it, and moves the estimate by no more than any
// other record: the estimates are those of Algorithm 5 without noise, for which the bound is 2 (R+1)/N.
func TestCuratorsOfBrokenRecords(t *testing.T) {
	const d, people = 3, 20
	rng := rand.New(rand.NewPCG(5, 6))
	s := descentSetting(d, math.Inf(1), 1)
	s.Options = map[string]float64{"batches": 2}
	records := make([]learn.Record, people)
	for i := range records {
		records[i] = hostile(d, rng)
	}
	usual := theta(t, estimate.ImproperJoint, s, records)
	for _, r := range broken(d) {
		others := slices.Clone(records)
		others[3] = r
		if moved := distance(usual, theta(t, estimate.ImproperJoint, s, others)); !(moved <= 2*3/10.) {
			t.Errorf("%+v moves the estimate by %v", r, moved)
		}
	}
	s.Options = map[string]float64{"steps": 3}
	for _, r := range broken(d) {
		others := slices.Clone(records)
		others[3] = r
		if got := theta(t, estimate.NoisyDescent, s, others); !(distance(usual, got) < 10) {
			t.Errorf("%+v makes the estimate %v", r, got)
		}
	}
}

package deployment_test

import (
	"math/rand/v2"
	"testing"

	"github.com/riffle-dp/riffle/pkg/deployment"
	"github.com/riffle-dp/riffle/pkg/glm/statistic"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// A quantity that is nearly the same for everyone has the interval of the noise at least: noise in the sum of squares
// does not make it shorter, or a point. Of 4000 panels in which the sum of reports has noise of deviation 1, the
// intervals of 3700 or more must hold the truth. Where 95 % do, fewer hold it with a probability below 1e-12; where the
// sampling that is estimated may be below 0, 73 % hold it, and the others are one point (seen).
func TestAnswersHoldWhereNothingVaries(t *testing.T) {
	const panels, people, truth = 4000, 400.0, 0.5
	for _, decisions := range []int{1, 5} {
		a, _, err := begin(t, panelOf(plan.Shares, 400, 1, decisions)).Asking(statistic.Mean, meanOf("a"))
		if err != nil {
			t.Fatal(err)
		}
		k := float64(decisions)
		n, count := people*k, statistic.MeanCount(2)
		rng, held := rand.New(rand.NewPCG(7, uint64(decisions))), 0
		for range panels {
			sum := wire.Sum{Values: []float64{n * truth, n * truth * truth, 0, 0, n * count}}
			for j := range sum.Values {
				sum.Values[j] += k * rng.NormFloat64()
				sum.Variance = append(sum.Variance, k*k)
			}
			got, err := deployment.AnswerOf(a, []wire.Sum{sum}, uint32(people))
			if err != nil {
				t.Fatal(err)
			}
			switch v := got.Values[0]; {
			case !(v.Low < v.High):
				t.Fatalf("an interval with noise is one point, %v", v.Low)
			case v.Low <= truth && truth <= v.High:
				held++
			}
		}
		if held < 3700 {
			t.Errorf("with %d decisions of a person intervals hold the truth in %d of %d panels", decisions, held,
				panels)
		}
	}
}

// What people read has four digits, whole numbers from 1000 on, and dashes where there is no interval.
func TestNumbersOfAnswersAreSpelt(t *testing.T) {
	for want, e := range map[[3]string]deployment.Estimated{
		{"0.1235", "-1000", "12346"}: {Value: 0.12345678, Low: -1000.4, High: 12345.6},
		{"-", "-", "-"}:              {Value: 3, Unbounded: true},
	} {
		value, low, high := e.Spell()
		if got := [3]string{value, low, high}; got != want {
			t.Errorf("%+v is spelt %q, want %q", e, got, want)
		}
	}
}

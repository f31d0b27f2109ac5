package contract

import (
	"math"
	"testing"

	"github.com/riffle-dp/riffle/internal/testing/testbed"
	"github.com/riffle-dp/riffle/pkg/glm"
	"github.com/riffle-dp/riffle/pkg/plan"
)

// What real devices, a shuffler and an analyzer release through each channel is distributed as the plan says, the noise
// of servers included.
//
// Three cohorts of twelve, 5 coordinates each: 15 standardised errors in each channel. Their sum of squares is close to
// chi-square with 15 degrees of freedom; it leaves [0.9, 60] with probability below 1e-5. Their sum over sqrt(15)
// passes 5 with probability 6e-7. Power: noise that is removed twice, or not at all, moves each error by the root of
// the number of noise bits, and that is above 5 in each of these plans.
func TestEveryChannelReleasesItsSums(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("twelve people in each of nine cohorts")
	}
	for name, change := range map[string]func(*plan.Terms){
		"shuffle with the shuffler's noise": func(terms *plan.Terms) {
			terms.Channel, terms.ServerNoise = plan.Shuffle,
				0.5
		},
		"local":   func(terms *plan.Terms) { terms.Channel = plan.Local },
		"central": func(terms *plan.Terms) { terms.Channel = plan.Central },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			terms := testbed.Terms()
			change(&terms)
			if terms.Channel != plan.Shuffle { // numbers have no messages to save
				terms.MaxShift, terms.VarianceRatio = 0, 0
			}
			z, _ := errorsOf(t, glm.Practical, terms)
			sum, squares := 0.0, 0.0
			for _, v := range z {
				sum, squares = sum+v, squares+v*v
			}
			n := float64(len(z))
			t.Logf("%d errors, sum/sqrt(n) %.2f, chi-square %.1f", len(z), sum/math.Sqrt(n), squares)
			if len(z) != 15 || math.Abs(sum)/math.Sqrt(n) > 5 || squares < 0.9 || squares > 60 {
				t.Errorf("%d errors, sum/sqrt(n) %.2f, chi-square %.1f", len(z), sum/math.Sqrt(n), squares)
			}
		})
	}
}

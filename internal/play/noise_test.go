package play_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/riffle-dp/riffle/internal/play"
	"github.com/riffle-dp/riffle/pkg/channel/simulated"
	"github.com/riffle-dp/riffle/pkg/glm/learner"
	"github.com/riffle-dp/riffle/pkg/learn"
	"github.com/riffle-dp/riffle/pkg/plan"
)

// near fails where the mean square of standardised draws is not 1, within six standard errors (false alarm 2e-9 for
// each, seeds fixed). Half of a variance lies 15 of them off with 2000 draws.
func near(t *testing.T, what string, squares, fourths float64, draws int) {
	t.Helper()
	mean := squares / float64(draws)
	spread := math.Sqrt(max(1, fourths/float64(draws)-mean*mean) / float64(draws))
	if math.Abs(mean-1) > 6*spread || draws < 2000 {
		t.Errorf("%s: the noise has %.3f of the variance that is stated, in %d draws", what, mean, draws)
	}
}

// Each report of the trust local has noise of its own in every coordinate, as much as sums state of one report, in the
// law of zCDP and in the pure one. In the clear there is none.
func TestReportsHaveTheirNoise(t *testing.T) {
	const people = 1200
	for _, pure := range []bool{false, true} {
		q := twoSums(people)
		q.Form, q.Pure = learn.Reports, pure
		records := fewKinds(people, true)
		for i := range records {
			records[i] = records[0] // so that the order of reports does not matter
		}
		exact := answered(t, channel(play.Clear, 1), q, records)
		noised := answered(t, channel(plan.Local, 1), q, records)
		one := q
		one.Form, one.People = learn.Sums, 1
		stated := answered(t, channel(plan.Local, 1), one, records[:1])
		if len(noised.Reports) != people {
			t.Fatalf("%d reports", len(noised.Reports))
		}
		var squares, fourths float64
		draws := 0
		for n, report := range noised.Reports {
			for i, values := range report {
				for j, v := range values {
					z := (v - exact.Reports[n][i][j]) / math.Sqrt(stated.Sums[i].Variance[j])
					squares, fourths, draws = squares+z*z, fourths+z*z*z*z, draws+1
				}
			}
		}
		near(t, "pure "+map[bool]string{true: "reports", false: "no, reports"}[pure], squares, fourths, draws)
		if slices.EqualFunc(exact.Reports[0], exact.Reports[1], slices.Equal) == false {
			t.Error("exact reports of one record differ")
		}
	}
}

// A planned channel has the noise of its plan, devices' and servers', in every channel: the sums of a cohort of null
// records vary by it. (Rounding adds at most a quarter of a level squared for each report, which is little beside it.)
func TestPlannedChannelsHaveTheNoiseOfTheirPlan(t *testing.T) {
	if testing.Short() { // nothing of it runs at the same time as anything else
		t.Skip("without a second goroutine")
	}
	learner, err := learner.New(config)
	if err != nil {
		t.Fatal(err)
	}
	step := learner.Next()
	for _, c := range plan.Channels() {
		for _, server := range []float64{0, 1} {
			terms := plan.DefaultTermsFor(c)
			if terms.ServerNoise = server; server > 0 && c == plan.Local {
				continue
			}
			made, _, err := play.Planned(terms)(step)
			if err != nil {
				t.Fatalf("%s, server noise %v: %v", c, server, err)
			}
			null := simulated.Report{}
			for _, s := range step.Statistics[0] {
				null = append(null, make([]float64, s.Dim()))
			}
			proposal, err := plan.Propose(step, terms)
			if err != nil {
				t.Fatal(err)
			}
			src := rand.NewChaCha8([32]byte{25, 6})
			var squares, fourths float64
			draws := 0
			for draws < 2400 {
				all, err := made.Aggregate(func(yield func(simulated.Report) bool) {
					for range step.Cohort {
						if !yield(null) {
							return
						}
					}
				}, src)
				if err != nil {
					t.Fatal(err)
				}
				for i, a := range all {
					e, r := proposal.Encodings[i], proposal.Plan.Rounds[0].Releases[i]
					p := e.Bias.Float()
					bits := float64(a.Reports)*float64(r.NoiseBits) + float64(r.ServerNoise())
					deviation := math.Sqrt(bits*p*(1-p)) / e.Scale
					for _, v := range a.Sum {
						z := v / deviation
						squares, fourths, draws = squares+z*z, fourths+z*z*z*z, draws+1
					}
				}
			}
			near(t, string(c), squares, fourths, draws)
		}
	}
}

package learner_test

import (
	"math/rand/v2"
	"testing"

	"github.com/riffle-dp/riffle/pkg/channel/simulated"
	"github.com/riffle-dp/riffle/pkg/glm/family"
	"github.com/riffle-dp/riffle/pkg/glm/learner"
	"github.com/riffle-dp/riffle/pkg/glm/statistic"
)

// cohort plays a comparison in which a decision is in the control group with a share that need not be the announced
// one, and every reward is 1 with the same probability.
func (c comparison) cohort(t *testing.T, s statistic.Statistic, ch simulated.Channel, share, mean float64,
	src *rand.Rand) learner.Lift {
	t.Helper()
	report := make(simulated.Report, 1)
	records := make([]statistic.Record, c.most)
	released, err := ch.Aggregate(func(yield func(simulated.Report) bool) {
		for range c.people {
			for i := range records {
				records[i] = statistic.Record{Arm: []float64{1}, Control: src.Float64() < share}
				if src.Float64() < mean {
					records[i].Reward = 1
				}
			}
			var err error
			if report[0], err = s.Report(report[0], records, c.most); err != nil {
				t.Fatal(err)
			}
			if !yield(report) {
				return
			}
		}
	}, src)
	if err != nil {
		t.Fatal(err)
	}
	return newLift(t, c.inDecisions(s, released[0]), c.control)
}

// A control group of the announced share is called chance, with and without noise and with rewards that are all at one
// end of their range, where the bound is met with equality: of 4600 none is below ShareLevel, where 0.5 are allowed on
// average. A test that takes the normal distribution for the coins' finds two of the first row, and one without the
// noise hundreds. A group twice as large as announced is found in nearly every deployment of rare rewards, and so is
// one of a fifth that does not exist; where half of the rewards are 1 nothing can be found, which the comment on Chance
// says.
func TestAShareThatCannotBeChanceIsFound(t *testing.T) {
	statistic, err := statistic.NewRewards(family.Logistic{}, 1)
	if err != nil {
		t.Fatal(err)
	}
	for i, of := range []struct {
		comparison
		share, mean float64
		cohorts     int // in one deployment
		runs        int
		least, most int // deployments that are found
	}{
		{comparison{people: 50, most: 1, control: 0.005}, 0.005, 0, 1, 3000, 0, 0},
		{comparison{people: 250, most: 1, control: 0.05}, 0.05, 0, 1, 500, 0, 0},
		{comparison{people: 250, most: 1, control: 0.05}, 0.05, 1, 1, 500, 0, 0},
		{comparison{people: 250, most: 1, epsilon: 1, control: 0.1}, 0.1, 0, 1, 500, 0, 0},
		{comparison{people: 250, most: 7, epsilon: 4, control: 0.2}, 0.2, 0.02, 4, 100, 0, 0},
		{comparison{people: 250, most: 1, control: 0.1}, 0.2, 0.05, 4, 50, 49, 50},
		{comparison{people: 250, most: 1, epsilon: 4, control: 0.1}, 0.2, 0.05, 20, 20, 19, 20},
		{comparison{people: 250, most: 1, epsilon: 4, control: 0.2}, 0, 0.02, 20, 20, 19, 20},
		{comparison{people: 250, most: 1, epsilon: 4, control: 0.1}, 0.2, 0.5, 12, 20, 0, 0},
	} {
		ch := of.channel(t, statistic)
		src := rand.New(rand.NewChaCha8([32]byte{byte(i), 25}))
		found := 0
		for range of.runs {
			var total learner.Lift
			for range of.cohorts {
				total = total.Add(of.cohort(t, statistic, ch, of.share, of.mean, src))
			}
			if total.Chance() < learner.ShareLevel {
				found++
			}
		}
		if found < of.least || found > of.most {
			t.Errorf("%+v: %d deployments are found", of, found)
		}
	}
	if p := (learner.Lift{}).Chance(); p != 1 {
		t.Errorf("no cohort has the probability %v", p)
	}
}

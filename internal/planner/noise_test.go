package planner

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/riffle-dp/riffle/pkg/channel/simulated"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/privacy/calibrate"
)

// Mean messages go where they help: small cohorts get more than large ones, and the mean is kept.
func TestMeanMessagesGoToSmallCohorts(t *testing.T) {
	serial(t)
	o := defaults()
	o.MaxMessages, o.MeanMessages = 0, 100
	r, err := Run(o)
	if err != nil {
		t.Fatal(err)
	}
	if r.MeanMessages > 100 || r.MeanMessages < 85 {
		t.Errorf("the mean is %v of 100", r.MeanMessages)
	}
	if first, last := r.Cohorts[0].MessagesPerUser, r.Cohorts[len(r.Cohorts)-1].MessagesPerUser; first <= last {
		t.Errorf("the first cohort has %d messages each, the last %d", first, last)
	}
}

// A searched division of the budget has no more noise in an estimate than the learner's.
func TestSearchedShareHasLeastNoise(t *testing.T) {
	serial(t)
	o := defaults()
	o.Cohorts = []int{500}
	info, err := o.information()
	if err != nil {
		t.Fatal(err)
	}
	noise := func(share float64) float64 {
		o := o
		o.HessianShare = share
		tasks, _, err := o.tasks(new(plan.Proposer))
		if err != nil {
			t.Fatal(err)
		}
		tasks[0].request.MaxMessages, err = o.limit(tasks[0])
		if err != nil {
			t.Fatal(err)
		}
		p, err := calibrate.Bits(tasks[0].request)
		if err != nil {
			t.Fatal(err)
		}
		return info.noise(p)
	}
	o.HessianShare = SearchShare
	r, err := Run(o)
	if err != nil {
		t.Fatal(err)
	}
	if found, usual := noise(r.HessianShare), noise(0); !(found <= usual) {
		t.Errorf("share %v has noise %v, the learner's %v", r.HessianShare, found, usual)
	}
}

// The predicted error is that of the protocol. Every entry is placed half way between two levels, where rounding has
// its largest variance, so that the prediction is exact: errors of rounds*coordinates sums are independent and nearly
// Gaussian, their mean square over the predicted variance has mean 1 and standard deviation
// sqrt(2/(rounds*coordinates)). The limits are 5 standard deviations: a false alarm has probability 6e-7 per release.
// An error of 9 % in the prediction, half of a noise bit, is found with probability 0.99.
func TestPredictedErrorIsTheProtocols(t *testing.T) {
	if testing.Short() {
		t.Skip("simulates a few hundred cohorts")
	}
	o := defaults()
	o.Cohorts = []int{120}
	tasks, _, err := o.tasks(new(plan.Proposer))
	if err != nil {
		t.Fatal(err)
	}
	task := tasks[0]
	task.request.MaxMessages, err = o.limit(task)
	if err != nil {
		t.Fatal(err)
	}
	p, err := calibrate.Bits(task.request)
	if err != nil {
		t.Fatal(err)
	}
	c := simulated.Integer{MinCohort: task.request.MinCohort}
	var report simulated.Report
	for _, rel := range p.Releases {
		c.Encodings = append(c.Encodings, rel.Encoding)
		x := make([]float64, len(rel.Encoding.Coordinates))
		for j, k := range rel.Encoding.Coordinates {
			x[j] = k.Offset + (float64(k.Levels/2)+0.5)/rel.Encoding.Scale
			if k.Levels == 1 {
				x[j] = k.Offset + 0.5/rel.Encoding.Scale
			}
		}
		report = append(report, x)
	}
	const rounds = 3000
	src := rand.NewChaCha8([32]byte{7})
	squares, sums := make([]float64, len(p.Releases)), make([]float64, len(p.Releases))
	for range rounds {
		got, err := c.Aggregate(func(yield func(simulated.Report) bool) {
			for range task.size {
				if !yield(report) {
					return
				}
			}
		}, src)
		if err != nil {
			t.Fatal(err)
		}
		for i, a := range got {
			for j, v := range a.Sum {
				e := v - float64(task.size)*report[i][j]
				squares[i] += e * e
				sums[i] += e
			}
		}
	}
	for i, rel := range p.Releases {
		n := float64(rounds * len(rel.Encoding.Coordinates))
		ratio, spread := squares[i]/n/(rel.Deviation*rel.Deviation), math.Sqrt(2/n)
		t.Logf("%s: measured variance over predicted %.4f, one standard deviation is %.4f", rel.Statistic, ratio,
			spread)
		if math.Abs(ratio-1) > 5*spread {
			t.Errorf("%s: measured variance is %v times the predicted one", rel.Statistic, ratio)
		}
		if bias := sums[i] / n / rel.Deviation * math.Sqrt(n); math.Abs(bias) > 5 {
			t.Errorf("%s: sums are off by %v standard errors on average", rel.Statistic, bias)
		}
	}
}

package experiment

import (
	"math"

	"github.com/riffle-dp/riffle/internal/play"
	"github.com/riffle-dp/riffle/pkg/plan"
)

// compare fills in how rows of named channels compare with the one that is called central.
func compare(rows []Row) {
	for i := range rows {
		r := &rows[i]
		if r.Trust == "" {
			continue
		}
		for _, c := range rows {
			if c.Algorithm != string(plan.Central) || c.Trust != plan.Central || c.Environment != r.Environment ||
				c.Horizon != r.Horizon || *c.Epsilon != *r.Epsilon || !(c.Regret > 0) {
				continue
			}
			r.OverCentral, r.OverCentralSE = overPairs(r.Regrets, c.Regrets)
		}
	}
}

// overPairs is the ratio of the means of two lists, seed by seed, and its standard error: that of the mean of
// a - ratio*b, over the mean of b.
func overPairs(a, b []float64) (ratio, se float64) {
	meanA, _ := play.MeanAndError(a)
	meanB, _ := play.MeanAndError(b)
	ratio = meanA / meanB
	gaps := make([]float64, len(a))
	for i := range a {
		gaps[i] = a[i] - ratio*b[i]
	}
	_, se = play.MeanAndError(gaps)
	return ratio, math.Abs(se / meanB)
}

// Price sets the CPU seconds of all rows whose channel is named. cpu says how long a person's device and both servers
// take for the work.
func Price(rows []Row, cpu func(play.Work) (device, servers float64, err error)) error {
	for i := range rows {
		r := &rows[i]
		if r.spent == nil {
			continue
		}
		var people float64
		for _, c := range r.spent {
			device, servers, err := cpu(c.Work)
			if err != nil {
				return err
			}
			people += float64(c.People)
			r.DeviceCPU += float64(c.People) * device
			r.ServerCPU += float64(c.People) * servers
		}
		if people > 0 {
			r.DeviceCPU, r.ServerCPU = r.DeviceCPU/people, r.ServerCPU/people
		}
	}
	return nil
}

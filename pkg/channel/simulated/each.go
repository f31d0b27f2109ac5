package simulated

import (
	"fmt"
	"iter"
	"slices"

	"github.com/riffle-dp/riffle/pkg/protocol"
)

// Each is what a channel brings back of every report by itself, for one statistic: what counts of pairs hold
// (plan.Plan.Pairs), in the order of the cohort. All of them together, summed, have the law of what Aggregate returns.
// It is for Exact, Integer in the channel local, and GaussianLocal: a curator's or server's noise is on sums alone.
func Each(c Channel, cohort iter.Seq[Report], src protocol.Source) (each [][]float64, all Aggregate, err error) {
	least := 1
	if i, ok := c.(Integer); ok {
		if slices.ContainsFunc(i.ServerNoise, func(n uint64) bool { return n > 0 }) {
			return nil, Aggregate{}, fmt.Errorf("%w: servers add noise to sums, not to each report", ErrChannel)
		}
		least, i.MinCohort = i.MinCohort, 1
		c = i
	}
	for report := range cohort {
		if len(report) != 1 {
			return nil, Aggregate{}, fmt.Errorf("%w: %d vectors, want one", ErrReport, len(report))
		}
		one, err := c.Aggregate(func(yield func(Report) bool) { yield(report) }, src)
		if err != nil {
			return nil, Aggregate{}, err
		}
		if all.Reports == 0 {
			all.Sum, all.Variance = make([]float64, len(one[0].Sum)), make([]float64, len(one[0].Sum))
		}
		for j, v := range one[0].Sum {
			all.Sum[j] += v
			all.Variance[j] += one[0].Variance[j]
		}
		each, all.Reports = append(each, slices.Clone(one[0].Sum)), all.Reports+1
	}
	if all.Reports < least {
		return nil, Aggregate{}, fmt.Errorf("%w: %d reports, the minimum is %d; the cohort is destroyed", ErrCohort,
			all.Reports, least)
	}
	return each, all, nil
}

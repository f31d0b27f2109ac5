package simulated

import (
	"fmt"
	"iter"

	"github.com/riffle-dp/riffle/pkg/protocol"
)

// Exact returns the sums as they are. It protects nothing; it is the non-private reference.
type Exact struct{}

// Aggregate implements Channel. It draws nothing from src, which may be nil. The first report sets the dimensions.
func (Exact) Aggregate(cohort iter.Seq[Report], _ protocol.Source) ([]Aggregate, error) {
	var aggregates []Aggregate
	var dims []int
	reports := 0
	for report := range cohort {
		if aggregates == nil {
			for _, x := range report {
				aggregates = append(aggregates,
					Aggregate{Sum: make([]float64, len(x)), Variance: make([]float64, len(x))})
				dims = append(dims, len(x))
			}
		}
		if err := checkReport(report, dims, reports); err != nil {
			return nil, err
		}
		for s, x := range report {
			for j, value := range x {
				aggregates[s].Sum[j] += value
			}
		}
		reports++
	}
	if reports == 0 {
		return nil, fmt.Errorf("%w: no reports", ErrCohort)
	}
	for s := range aggregates {
		aggregates[s].Reports = reports
	}
	return aggregates, nil
}

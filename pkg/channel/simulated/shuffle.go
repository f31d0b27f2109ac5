package simulated

import (
	"fmt"
	"iter"

	"github.com/riffle-dp/riffle/pkg/protocol"
)

// Shuffle is the vector-summation protocol of the seed paper (Algorithms 4 to 6) for all statistics of a cohort,
// without its messages. Every vector is rounded by the code that a device runs, and the noise bits of the cohort, whose
// sum is all that an analyzer ever learns of them, are drawn at once from the exact binomial law of that sum. What
// comes back has the distribution of a run of the three processes with the same encodings, to the last digit.
//
// It draws the noise of all reports. What an accountant may count on is less: the noise of the honest ones.
type Shuffle struct {
	// Encodings has one entry per statistic.
	Encodings []protocol.Encoding
	// MinCohort is the least number of reports that is released, at least 1.
	MinCohort int
}

// Aggregate implements Channel. Entries of a vector outside their coordinate's range are clamped into it. A cohort
// below MinCohort is destroyed: ErrCohort, and no sums. Variance is the worst case over rounding fractions
// (Encoding.Variance).
func (c Shuffle) Aggregate(cohort iter.Seq[Report], src protocol.Source) ([]Aggregate, error) {
	if err := c.validate(); err != nil {
		return nil, err
	}
	dims := make([]int, len(c.Encodings))
	ones := make([][]uint64, len(c.Encodings))
	for s, e := range c.Encodings {
		dims[s] = len(e.Coordinates)
		ones[s] = make([]uint64, dims[s])
	}
	var levels []uint32
	reports := 0
	for report := range cohort {
		if err := checkReport(report, dims, reports); err != nil {
			return nil, err
		}
		for s, x := range report {
			var err error
			if levels, err = c.Encodings[s].Round(levels, x, src); err != nil {
				return nil, fmt.Errorf("report %d, statistic %d: %w", reports, s, err)
			}
			for j, level := range levels {
				ones[s][j] += uint64(level)
			}
		}
		reports++
	}
	if reports < c.MinCohort {
		return nil, fmt.Errorf("%w: %d reports, the minimum is %d; the cohort is destroyed", ErrCohort,
			reports, c.MinCohort)
	}
	aggregates := make([]Aggregate, len(c.Encodings))
	for s, e := range c.Encodings {
		if err := e.AddNoise(ones[s], uint64(reports), src); err != nil {
			return nil, fmt.Errorf("statistic %d: %w", s, err)
		}
		sum, err := e.Decode(ones[s], uint64(reports))
		if err != nil {
			return nil, fmt.Errorf("statistic %d: %w", s, err)
		}
		aggregates[s] = Aggregate{Sum: sum, Variance: e.Variance(uint64(reports)), Reports: reports}
	}
	return aggregates, nil
}

func (c Shuffle) validate() error {
	if len(c.Encodings) == 0 {
		return fmt.Errorf("%w: no encodings", ErrChannel)
	}
	if c.MinCohort < 1 {
		return fmt.Errorf("%w: minimum cohort %d; it must be at least 1", ErrChannel, c.MinCohort)
	}
	for s, e := range c.Encodings {
		if err := e.Validate(); err != nil {
			return fmt.Errorf("%w: statistic %d: %w", ErrChannel, s, err)
		}
	}
	return nil
}

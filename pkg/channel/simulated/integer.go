package simulated

import (
	"fmt"
	"iter"

	"github.com/riffle-dp/riffle/pkg/protocol"
)

// Integer is each of the four channels of the roles, for all statistics of a cohort and without its messages. In every
// one of them a device i sends, for a coordinate, the integer
//
//	e_i = floor(v_i) + Bernoulli(v_i - floor(v_i)) + Bin(b, p)
//
// where v_i is its value in levels, b the noise bits of a device and p their bias; servers add Bin(S, p) once; and the
// analyzer has nothing but the sum. The channels differ in b and S, which the plan fixes, in who sees what on the way,
// and in what it costs:
//
//	shuffle   b > 0, S of the shuffler: bits that are permuted (seed paper, Algorithms 4 to 6)
//	shares    b > 0, S of both servers: shares of the integers that are added up
//	local     b > 0 so large that a single device's noise is enough, S = 0
//	central   b = 0, S of the analyzer
//
// What comes back has the distribution of a run of the processes with the same encodings, to the last digit: the
// learner of a simulation cannot tell it from theirs.
//
// Proof. The noise bits of all devices and servers and the coins of rounding are independent, and the noise bits have
// one law, Bernoulli(p). Given the cohort's vectors, the sum over i of e_i, plus the servers' noise, is therefore the
// sum of the rounded levels, which are drawn here one device at a time by the code that a device runs
// (Encoding.Round), plus the number of ones among n b + S such bits, for n reports. That number is Bin(n b, p) +
// Bin(S, p), drawn here at once, with no rounding, from exactly that law (protocol.Binomial). Coordinates and
// statistics have noise bits of their own, so that their joint law is the product, here as there. In the channel
// local the analyzer sees every e_i, and in central every rounded level, but the sum is all that it decodes: Decode
// takes nothing else. No channel cuts off a sum: a message has room for levels and noise bits of a coordinate, and
// every counter for those of a cohort. Reports of the roles are refused or drop out for reasons that do not depend on
// these draws, and the cohort here is the reports that are left.
//
// Integer draws the noise of all reports. What an accountant may count on is less: the noise of the honest ones.
type Integer struct {
	// Encodings has one entry per statistic.
	Encodings []protocol.Encoding
	// ServerNoise is the number of noise bits that servers add once to each coordinate, of the bias of the encoding:
	// one entry per statistic. Nil: none.
	ServerNoise []uint64
	// MinCohort is the least number of reports that is released, at least 1.
	MinCohort int
}

// Aggregate implements Channel. Entries of a vector outside their coordinate's range are clamped into it. A cohort
// below MinCohort is destroyed: ErrCohort, and no sums. Variance is the worst case over rounding fractions
// (Encoding.Variance).
func (c Integer) Aggregate(cohort iter.Seq[Report], src protocol.Source) ([]Aggregate, error) {
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
		return nil, fmt.Errorf("%w: %d reports, the minimum is %d; the cohort is destroyed", ErrCohort, reports,
			c.MinCohort)
	}
	aggregates := make([]Aggregate, len(c.Encodings))
	for s, e := range c.Encodings {
		if err := e.AddNoise(ones[s], uint64(reports), src); err != nil {
			return nil, fmt.Errorf("statistic %d: %w", s, err)
		}
		var servers uint64
		if c.ServerNoise != nil {
			servers = c.ServerNoise[s]
		}
		if err := e.AddServerNoise(ones[s], servers, src); err != nil {
			return nil, fmt.Errorf("statistic %d: %w", s, err)
		}
		sum, err := e.Decode(ones[s], uint64(reports), servers)
		if err != nil {
			return nil, fmt.Errorf("statistic %d: %w", s, err)
		}
		aggregates[s] = Aggregate{Sum: sum, Variance: e.Variance(uint64(reports), servers), Reports: reports}
	}
	return aggregates, nil
}

func (c Integer) validate() error {
	if len(c.Encodings) == 0 {
		return fmt.Errorf("%w: no encodings", ErrChannel)
	}
	if c.ServerNoise != nil && len(c.ServerNoise) != len(c.Encodings) {
		return fmt.Errorf("%w: server noise for %d statistics of %d", ErrChannel, len(c.ServerNoise), len(c.Encodings))
	}
	if c.MinCohort < 1 {
		return fmt.Errorf("%w: minimum cohort %d; it must be at least 1", ErrChannel, c.MinCohort)
	}
	for s, e := range c.Encodings {
		if err := e.Validate(); err != nil {
			return fmt.Errorf("%w: statistic %d: %w", ErrChannel, s, err)
		}
		if c.ServerNoise != nil && c.ServerNoise[s] > 0 && e.Bias == 0 {
			return fmt.Errorf("%w: statistic %d: %d noise bits of servers of bias 0 are no noise", ErrChannel, s,
				c.ServerNoise[s])
		}
	}
	return nil
}

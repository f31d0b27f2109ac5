// Package simulated has channels of different trust in one process: each brings the sums of a cohort's statistics back
// to a learner.
//
// Trust is a channel, not an algorithm. A device turns its record into one vector per statistic, each of a known range
// and diameter; a channel returns their sums, with an error of mean zero and known variance; the learner does not know
// which channel it was.
//
//	Integer           the four channels of the roles, shuffle, shares, local and central, by the noise of their plan
//	Exact             everyone sees everything: no privacy at all
//	GaussianCentral   a trusted curator with floating-point Gaussian noise: a yardstick
//	GaussianLocal     floating-point Gaussian noise of every device: a yardstick
//
// A channel here is a simulation: it sees the vectors that it is given. Integer draws its noise exactly as the
// processes do, from random words and integers, with the same code. The Gaussian yardsticks draw floating-point
// noise, which is good for comparing errors and not for protecting anyone (Mironov, "On significance of the least
// significant bits for differential privacy", 2012); nothing but comparisons that name them uses them.
package simulated

import (
	"errors"
	"fmt"
	"iter"
	"math"

	"github.com/riffle-dp/riffle/pkg/protocol"
)

// A Report is what one device contributes: one vector per statistic, in the order of the channel's statistics, in data
// units. The null record is a report of zero vectors.
type Report = [][]float64

// Aggregate is what a channel brings back of one statistic.
type Aggregate struct {
	Sum []float64 // unbiased estimate of the sum of the cohort's vectors, data units
	// Variance of Sum's error, per coordinate, squared data units: an upper bound for Integer, exact for the others.
	Variance []float64
	Reports  int // reports that were summed
}

// Channel aggregates the reports of a cohort. Reports are taken one at a time and not kept, so that a cohort of any
// size can be generated on the way; the iterator may reuse their memory. A round in which devices answer again, at
// another public iterate, is another call. All randomness comes from src.
//
// Aggregate returns one Aggregate per statistic, or an error and nothing: ErrReport if a report has the wrong shape or
// a number that is not finite, ErrCohort if there are too few of them.
type Channel interface {
	Aggregate(cohort iter.Seq[Report], src protocol.Source) ([]Aggregate, error)
}

var (
	// ErrReport is wrapped by errors about a report that does not fit the channel.
	ErrReport = errors.New("channel: invalid report")
	// ErrCohort is wrapped by errors about cohorts that must not be released.
	ErrCohort = errors.New("channel: cohort too small")
	// ErrChannel is wrapped by errors about a channel's own parameters.
	ErrChannel = errors.New("channel: invalid parameters")
)

// checkReport refuses a report unless it has finite vectors of these dimensions.
func checkReport(report Report, dims []int, number int) error {
	if len(report) != len(dims) {
		return fmt.Errorf("%w: report %d has %d vectors for %d statistics", ErrReport, number, len(report), len(dims))
	}
	for s, x := range report {
		if len(x) != dims[s] {
			return fmt.Errorf("%w: report %d has %d entries for statistic %d of dimension %d", ErrReport, number,
				len(x), s, dims[s])
		}
		for j, value := range x {
			if math.IsNaN(value) || math.IsInf(value, 0) {
				return fmt.Errorf("%w: report %d, statistic %d, entry %d is not a finite number", ErrReport, number, s,
					j)
			}
		}
	}
	return nil
}

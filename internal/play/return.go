package play

import (
	"math"

	"gonum.org/v1/gonum/stat"
)

// The rate of regret before a change is that of the seven periods before it. It is reached again when the mean of three
// periods is at most a quarter above it, or above it by a hundredth of a reward of 1.
const (
	ratePeriods = 7
	meanPeriods = 3
	rateFactor  = 1.25
	rateAllowed = 0.01
	learnedMost = 0.5 // of the rate of the first periods: above it nothing was learned before the change
)

// Return compares how long learning took, from the first period and from the one of a change, by the mean regret of a
// decision in each period of a run: after how many periods the rate that held just before the change is reached, and
// then kept for three periods. Nil: never, or there is no change, or it comes too early or too late to say, or the rate
// just before it is not half of that of the first periods, so that there is nothing to return to.
func Return(regret []float64, change int) (learned, returned *int) {
	if change < ratePeriods+meanPeriods || change+meanPeriods > len(regret) {
		return nil, nil
	}
	rate := stat.Mean(regret[change-ratePeriods:change], nil)
	if rate > learnedMost*stat.Mean(regret[:meanPeriods], nil) {
		return nil, nil
	}
	most := math.Max(rateFactor*rate, rate+rateAllowed)
	reach := func(periods []float64) *int {
		for i := 0; i+meanPeriods <= len(periods); i++ {
			if stat.Mean(periods[i:i+meanPeriods], nil) <= most {
				return &i
			}
		}
		return nil
	}
	return reach(regret[:change]), reach(regret[change:])
}

// MeanAndError is the mean of the values of several runs and its standard error, which is 0 of one run.
func MeanAndError(values []float64) (mean, se float64) {
	if len(values) < 2 {
		return stat.Mean(values, nil), 0
	}
	mean, deviation := stat.MeanStdDev(values, nil)
	return mean, stat.StdErr(deviation, float64(len(values)))
}

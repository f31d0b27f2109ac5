package plan

import "time"

// The terms of a deployment that sets no others. Package analyzer documents the setting that changes each.
const (
	DefaultEpsilon   = 1.0
	DefaultDelta     = 1e-6
	DefaultDropOut   = 0.05 // share of a cohort that may fail to report
	DefaultMinCohort = 50   // reports
	DefaultTail      = 1e-9 // part of delta for panels with more dishonest devices than are counted
	DefaultMaxShift  = 16.0 // levels

	// DefaultDishonestReports keeps a single device from destroying a cohort.
	DefaultDishonestReports = 1

	// DefaultMinEpoch is the least length of an epoch that people count on where a budget may begin anew every period
	// and they chose none: most habits return with the day, and a period of 52 is then 52 days at least.
	DefaultMinEpoch = 24 * time.Hour
)

// DefaultTerms returns these terms for the channel Shuffle, with a limit on messages that follows the numbers released
// (ByCoordinates).
func DefaultTerms() Terms { return DefaultTermsFor(Shuffle) }

// DefaultTermsFor returns the default terms of a deployment with the given channel. Where devices send numbers there
// are no messages and no shifts to limit.
func DefaultTermsFor(c Channel) Terms {
	t := Terms{
		Epsilon: DefaultEpsilon, Delta: DefaultDelta, DropOut: DefaultDropOut,
		DishonestReports: DefaultDishonestReports, MinCohort: DefaultMinCohort, MaxMessages: ByCoordinates,
		MaxShift: DefaultMaxShift, Channel: c,
	}
	if c != Shuffle {
		t.MaxMessages, t.MaxShift = 0, 0
	}
	return t
}

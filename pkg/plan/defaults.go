package plan

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
)

// DefaultTerms returns these terms for the channel Shuffle, with a limit on messages that follows the numbers released
// (ByCoordinates).
func DefaultTerms() Terms { return DefaultTermsFor(Shuffle) }

// DefaultTermsFor returns the default terms of a deployment with the given channel. Where devices send numbers there are
// no messages and no shifts to limit.
func DefaultTermsFor(c Channel) Terms {
	t := Terms{
		Epsilon: DefaultEpsilon, Delta: DefaultDelta, DropOut: DefaultDropOut,
		DishonestReports: DefaultDishonestReports, MinCohort: DefaultMinCohort, MaxMessages: ByCoordinates,
		MaxShift: DefaultMaxShift, Channel: c, Labelled: c == Shuffle,
	}
	if c != Shuffle {
		t.MaxMessages, t.MaxShift = 0, 0
	}
	return t
}

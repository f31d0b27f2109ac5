package plan

// DefaultTerms returns the terms of a deployment that sets no others. Package analyzer documents the setting that
// changes each.
func DefaultTerms() Terms {
	return Terms{
		Epsilon: 1, Delta: 1e-6, DropOut: 0.05, MinCohort: 50, MaxMessages: ByCoordinates, MaxShift: 16,
		DishonestReports: 1, // a single device cannot destroy a cohort
	}
}

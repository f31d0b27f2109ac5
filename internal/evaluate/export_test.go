package evaluate

// Diagnose says how far the log supports the target.
func Diagnose(log []Decision, target Target) (*Overlap, error) {
	probabilities, err := propensities(log, target)
	if err != nil {
		return nil, err
	}
	return overlap(log, probabilities)
}

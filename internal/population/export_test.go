package population

// SyntheticParameter returns the true parameter of the population that the options give.
func SyntheticParameter(o SyntheticOptions) ([]float64, error) {
	s, err := newSynthetic(o)
	if err != nil {
		return nil, err
	}
	return s.theta, nil
}

package baseline

// Constant plays the same arm for everybody. The best one is known only in hindsight: population.BestConstant.
type Constant int

// Choose implements simulate.Player. A person without the arm gets the first one.
func (c Constant) Choose(arms [][]float64) (int, error) {
	if int(c) < len(arms) {
		return int(c), nil
	}
	return 0, nil
}

// Learn implements simulate.Player.
func (Constant) Learn(float64) error { return nil }

package glm

// Probabilities is ProbabilitiesFor without exclusions, with the first arm as the default.
func (p *Policy) Probabilities(arms [][]float64) ([]float64, error) {
	return p.ProbabilitiesFor(arms, Choice{})
}

// ProbabilitiesFor returns the probability with which DecideFor plays each arm, 0 for one that is excluded or
// eliminated. Its errors are those of DecideFor. It serves to evaluate a policy on decisions that another policy
// made; a device needs only the propensity of the arm that it played, which is part of the Decision.
func (p *Policy) ProbabilitiesFor(arms [][]float64, choice Choice) ([]float64, error) {
	o, err := p.offer(arms, choice)
	if err != nil {
		return nil, err
	}
	l, err := p.lottery(o, choice.Unrecorded)
	if err != nil {
		return nil, err
	}
	all := make([]float64, len(arms))
	for position := range o.arms {
		all[o.index(position)] = p.total(l, o, position, choice)
	}
	return all, nil
}

package glm

import "fmt"

// Probabilities returns the probability with which Decide plays each arm, 0 for an eliminated one. Its errors are those
// of Decide. It serves to evaluate a policy on decisions that another policy made; a device needs only the propensity
// of the arm that it played, which is part of the Decision.
func (p *Policy) Probabilities(arms [][]float64) ([]float64, error) {
	arms, _, err := p.admit(arms)
	if err != nil {
		return nil, err
	}
	if p.Play == PlayOptimistic {
		arm, _, _, err := p.optimistic(arms)
		if err != nil {
			return nil, err
		}
		all := make([]float64, len(arms))
		all[arm] = 1
		return all, nil
	}
	survivors, err := p.Eliminate(arms)
	if err != nil {
		return nil, err
	}
	all := make([]float64, len(arms))
	switch p.Play {
	case PlayGreedy:
		all[survivors[p.greedy(arms, survivors)]] = 1
	case PlayUniform:
		for _, a := range survivors {
			all[a] = 1 / float64(len(survivors))
		}
	case PlayDesign:
		weights, err := p.mixture(arms, survivors)
		if err != nil {
			return nil, err
		}
		for i, a := range survivors {
			all[a] = weights[i]
		}
	default:
		return nil, fmt.Errorf("%w: play %q", ErrPolicy, p.Play)
	}
	return all, nil
}

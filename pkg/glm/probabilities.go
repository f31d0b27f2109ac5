package glm

import "fmt"

// Probabilities returns the probability with which Decide plays each arm: 0 for those eliminated. Its errors are those of Decide. It is
// for whoever values a policy on decisions that another one made; a device needs the propensity of the arm it played only, which comes
// with the Decision.
func (p *Policy) Probabilities(arms [][]float64) ([]float64, error) {
	arms, _, err := p.admit(arms)
	if err != nil {
		return nil, err
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

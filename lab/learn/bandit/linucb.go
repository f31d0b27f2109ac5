package bandit

import (
	"math"

	"github.com/riffle-dp/riffle/pkg/learn"
)

// LinUCB is Algorithm 3 of "Improved rate for locally differentially private linear bandits" with the confidence set of
// its Theorem A.1: the algorithm OFUL of Abbasi-Yadkori, Pal and Szepesvari, "Improved algorithms for linear stochastic
// bandits" (2011). It reads records and has no privacy.
//
// Options: ridge (lambda, default 1); noise (R, sub-Gaussian, default half of the rewards' range, which every reward
// has); width (a fixed width of the confidence set instead of the theorem's, default 0: the theorem's); lowest_reward.
func LinUCB(s learn.Setting) (*learn.Learner, error) {
	if err := s.Check(nil, []string{"ridge", "noise", "width", optionLowest}); err != nil {
		return nil, err
	}
	read, ridge := newLinearRecord(s), s.Option("ridge", 1)
	noise := s.Option("noise", read.span()/2)
	return learn.Start(func(ask func(learn.Policy, learn.Question) (learn.Answer, error)) (learn.Policy, error) {
		design, u := newGrowing(s.Dimension, ridge), make([]float64, s.Dimension)
		policy := func() learn.Policy {
			width := noise*math.Sqrt(design.logDet+2*math.Log(1/s.Failure)) + math.Sqrt(ridge)*s.Radius
			if fixed := s.Option("width", 0); fixed > 0 {
				width = fixed
			}
			return optimistic(s, design.around(u, width))
		}
		for range s.Horizon {
			a, err := ask(policy(), learn.Question{Form: learn.Records, People: 1})
			if err != nil {
				return nil, err
			}
			for _, r := range a.Records {
				x, y := read.arm(r.Arm), read.reward(r.Reward)
				if err := design.add(x); err != nil {
					return nil, err
				}
				for i, v := range x {
					u[i] += v * y
				}
			}
		}
		return policy(), nil
	})
}

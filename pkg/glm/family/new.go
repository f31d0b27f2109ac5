package family

import (
	"fmt"
	"strings"
)

// New builds a family by name. maxReward is R: 1 for logistic, probit and linear, an integer in
// [1, MaxPoissonReward] for poisson, a number in (0, MaxGaussianReward] for gaussian.
func New(name string, maxReward float64) (Family, error) {
	switch name {
	case NameLogistic, NameProbit:
		if maxReward != 1 {
			return nil, fmt.Errorf("%w: %s rewards lie in [0, 1], so the largest reward is 1, not %v",
				ErrMaxReward, name, maxReward)
		}
		if name == NameLogistic {
			return Logistic{}, nil
		}
		return Probit{}, nil
	case NameLinear:
		if maxReward != 1 {
			return nil, fmt.Errorf("%w: linear rewards lie in [-1, 1], so the largest reward is 1, not %v",
				ErrMaxReward, maxReward)
		}
		return Linear{}, nil
	case NamePoisson:
		return newPoisson(maxReward)
	case NameGaussian:
		return newGaussian(maxReward)
	}
	known := []string{NameLogistic, NameProbit, NamePoisson, NameGaussian, NameLinear}
	return nil, fmt.Errorf("%w %q: known are %s", ErrUnknown, name, strings.Join(known, ", "))
}

// RewardRange is the smallest and the largest reward of a family by its name, as it is announced: for those who must
// bring a reward into the range and need no more of the family. It does not check maxReward.
func RewardRange(name string, maxReward float64) (least, most float64) {
	if name == NameLinear {
		return Linear{}.MinReward(), maxReward
	}
	return 0, maxReward
}

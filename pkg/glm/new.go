package glm

import (
	"fmt"
	"strings"
)

// NewFamily builds a family by name. maxReward is R: 1 for logistic, probit and linear, an integer in
// [1, MaxPoissonReward] for poisson, a number in (0, MaxGaussianReward] for gaussian.
func NewFamily(name string, maxReward float64) (Family, error) {
	switch name {
	case FamilyLogistic, FamilyProbit:
		if maxReward != 1 {
			return nil, fmt.Errorf("%w: %s rewards lie in [0, 1], so the largest reward is 1, not %v",
				ErrMaxReward, name, maxReward)
		}
		if name == FamilyLogistic {
			return Logistic{}, nil
		}
		return Probit{}, nil
	case FamilyLinear:
		if maxReward != 1 {
			return nil, fmt.Errorf("%w: linear rewards lie in [-1, 1], so the largest reward is 1, not %v",
				ErrMaxReward, maxReward)
		}
		return Linear{}, nil
	case FamilyPoisson:
		return newPoisson(maxReward)
	case FamilyGaussian:
		return newGaussian(maxReward)
	}
	known := []string{FamilyLogistic, FamilyProbit, FamilyPoisson, FamilyGaussian, FamilyLinear}
	return nil, fmt.Errorf("%w %q: known are %s", ErrUnknownFamily, name, strings.Join(known, ", "))
}

// RewardRange is the smallest and the largest reward of a family by its name, as it is announced: for those who must
// bring a reward into the range and need no more of the family. It does not check maxReward.
func RewardRange(name string, maxReward float64) (least, most float64) {
	if name == FamilyLinear {
		return Linear{}.MinReward(), maxReward
	}
	return 0, maxReward
}

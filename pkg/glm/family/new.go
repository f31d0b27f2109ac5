package family

import (
	"fmt"
	"slices"
	"strings"
)

// entry is what New and RewardRange know of a family.
type entry struct {
	name  string
	least float64                                 // smallest reward
	build func(maxReward float64) (Family, error) // refuses a maxReward that the family cannot have
}

// registry has every family. Help texts list the names in this order.
var registry = []entry{
	{NameLogistic, Logistic{}.MinReward(), upToOne(Logistic{})},
	{NameProbit, Probit{}.MinReward(), upToOne(Probit{})},
	{NameLinear, Linear{}.MinReward(), upToOne(Linear{})},
	{NamePoisson, Poisson{}.MinReward(), newPoisson},
	{NameGaussian, Gaussian{}.MinReward(), newGaussian},
}

// upToOne builds a family whose largest reward is 1.
func upToOne(f Family) func(maxReward float64) (Family, error) {
	return func(maxReward float64) (Family, error) {
		if maxReward != 1 {
			return nil, fmt.Errorf("%w: %s rewards lie in [%g, 1], so the largest reward is 1, not %v",
				ErrMaxReward, f.Name(), f.MinReward(), maxReward)
		}
		return f, nil
	}
}

// Names are the names of all families.
func Names() []string {
	var all []string
	for _, e := range registry {
		all = append(all, e.name)
	}
	return all
}

// New builds a family by name. maxReward is R: 1 for logistic, probit and linear, an integer in
// [1, MaxPoissonReward] for poisson, a number in (0, MaxGaussianReward] for gaussian.
func New(name string, maxReward float64) (Family, error) {
	i := slices.IndexFunc(registry, func(e entry) bool { return e.name == name })
	if i < 0 {
		return nil, fmt.Errorf("%w %q: known are %s", ErrUnknown, name, strings.Join(Names(), ", "))
	}
	return registry[i].build(maxReward)
}

// RewardRange is the smallest and the largest reward of a family by its name, as it is announced: for those who must
// bring a reward into the range and need no more of the family. It does not check maxReward. The smallest reward of a
// family that New does not know is 0.
func RewardRange(name string, maxReward float64) (least, most float64) {
	for _, e := range registry {
		if e.name == name {
			least = e.least
		}
	}
	return least, maxReward
}

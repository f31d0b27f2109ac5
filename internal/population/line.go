package population

import (
	"fmt"

	"github.com/riffle-dp/riffle/pkg/glm/family"
	"github.com/riffle-dp/riffle/pkg/strict"
)

// example is a line of a file of people.
const example = `{"arms": [[0.1, 0.9], [0.3, -0.2]], "rewards": [1, 0]}`

// line is a person as a file has them: exactly these two fields.
type line struct {
	Arms    [][]float64 `json:"arms"`
	Rewards []float64   `json:"rewards"`
}

// check refuses a line without quoting a value of it. family is that of the rewards, and maxReward their largest.
func (l line) check(name string, maxReward float64) (field, problem string) {
	if len(l.Arms) == 0 {
		return "arms", "is empty: list the features of every arm"
	}
	for i, x := range l.Arms {
		name := fmt.Sprintf("arms[%d]", i)
		switch {
		case len(x) == 0:
			return name, "is empty: give at least one number"
		case len(x) != len(l.Arms[0]):
			return name, fmt.Sprintf("has dimension %d, arms[0] has %d: all arms must be alike", len(x), len(l.Arms[0]))
		}
	}
	if len(l.Rewards) != len(l.Arms) {
		return "rewards", fmt.Sprintf("has %d numbers for %d arms: give the reward of each arm", len(l.Rewards),
			len(l.Arms))
	}
	least, most := family.RewardRange(name, maxReward)
	for i, r := range l.Rewards {
		if !(r >= least && r <= most) {
			return fmt.Sprintf("rewards[%d]", i), fmt.Sprintf("is outside [%v, %v], the range of the %s family here: "+
				"say the family and the largest reward", least, most, name)
		}
	}
	return "", ""
}

// badLine is an error about a line of a file of people. It shows how a line looks.
func badLine(path string, e *strict.Error) error {
	return fmt.Errorf("%s: %w. People are JSON Lines, not CSV and not one list; a line is like %s", path, e, example)
}

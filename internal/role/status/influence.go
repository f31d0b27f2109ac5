package status

import (
	"github.com/riffle-dp/riffle/pkg/plan"
)

// Influence is how far dishonest devices can have moved the sums of one statistic of a round, number by number, in the
// statistic's own units: plan.Influence, computed from the announcement.
type Influence struct {
	Statistic string    `json:"statistic"`
	One       []float64 `json:"one_device"`        // the most by which one dishonest device can move each number
	Devices   int       `json:"dishonest_devices"` // that the plan expects among the reports at most
	All       []float64 `json:"all_devices"`       // the most by which so many can together
	Honest    []float64 `json:"honest_device"`     // the most by which one honest device can, apart from its noise
	Deviation float64   `json:"deviation"`         // standard deviation of each number's error from noise and rounding
}

// InfluenceOf is the influence of dishonest devices on the announced round with so many reports, and the most by which
// one of them can move a number in standard deviations of its error. It is nil where nothing is summed. The error is
// plan.Announcement.Influence's.
func InfluenceOf(a *plan.Announcement, reports uint32) (all []Influence, moved float64, err error) {
	expected := min(int(a.Cohort.MaxDishonest), int(reports))
	one, err := a.Influence(min(1, int(reports)), reports)
	if err != nil {
		return nil, 0, err
	}
	many, err := a.Influence(expected, reports)
	if err != nil {
		return nil, 0, err
	}
	for i, of := range one {
		moved = max(moved, of.Worst())
		all = append(all, Influence{Statistic: string(of.Statistic), One: of.Moves(), Devices: expected,
			All: many[i].Moves(), Honest: of.Honest, Deviation: of.Deviation})
	}
	return all, moved, nil
}

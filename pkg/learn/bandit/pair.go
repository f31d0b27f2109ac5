package bandit

import (
	"fmt"
	"math"

	"github.com/riffle-dp/riffle/pkg/glm/family"
	"github.com/riffle-dp/riffle/pkg/glm/statistic"
	"github.com/riffle-dp/riffle/pkg/learn"
)

// optionLowest is the smallest reward that people can have: a smaller range needs less noise.
const optionLowest = "lowest_reward"

// pair is the statistic of arm and reward. An announcement has no place for a lowest reward other than the family's,
// and none for rewards of a family that is not linear, which are moved to [-1, 1]: their mean at a score of 0 is then
// 0, as in a linear model, if the family is symmetric. Those are for simulations only.
func pair(s learn.Setting, lowest float64) (learn.Statistic, error) {
	linear := s.Family.Name() == family.NameLinear
	least := s.Family.MinReward()
	if linear && !(lowest >= least && lowest <= 0) { // who has nothing to report has a reward of 0
		return learn.Statistic{}, fmt.Errorf("bandit: the lowest reward %v must be in [%v, 0]", lowest, least)
	}
	var of family.Response = family.Linear{}
	if linear && lowest > least {
		of = narrowed{of, lowest}
	}
	data, err := statistic.NewPair(of, s.Dimension)
	if err != nil {
		return learn.Statistic{}, fmt.Errorf("bandit: %w", err)
	}
	data.Structure = s.Structure
	p, err := learn.Announced(data)
	if err != nil {
		return p, err
	}
	if linear && lowest == least {
		return p, nil
	}
	p.Data = nil
	if !linear {
		vector, lo, hi := p.Vector, least, s.Family.MaxReward()
		p.Vector = func(dst []float64, r learn.Record) []float64 {
			r.Reward = 2*(r.Reward-lo)/(hi-lo) - 1
			return vector(dst, r)
		}
	}
	return p, nil
}

// narrowed is a family whose rewards begin later.
type narrowed struct {
	family.Response
	lowest float64
}

// MinReward implements family.Response.
func (n narrowed) MinReward() float64 { return math.Max(n.lowest, n.Response.MinReward()) }

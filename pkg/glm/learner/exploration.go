package learner

import "math"

// Exploration says how a cohort of the practical profile explores. It is a function of the configuration and of numbers
// of people, and so is known before any device decides.
type Exploration struct {
	// Width is the number of standard deviations by which the greedy arm must beat another arm for that arm to be
	// dropped. It is +Inf in the first cohort, which drops none, and 0 where every device plays greedily.
	Width float64
	// Share in [0, 1] is the part of the cohort that draws from the design of the remaining arms; the others take the
	// greedy arm.
	Share float64
	// Ahead says that the standard deviations are the ones that will be left after the cohort, not the present ones.
	Ahead bool
}

// Exploration is the rule for the cohort of an epoch (from 0), after which a given number of people is still to come:
// see PracticalConfig.Width, AheadWidth, Explorers and Caution. With a HalfLife what is learnt serves as many people
// as come before it is forgotten, whatever the horizon, so that exploration never ends. The configuration must be
// resolved.
func (c Config) Exploration(epoch, cohort, after int) Exploration {
	p := c.Practical
	if p.HalfLife > 0 {
		after = max(1, int(math.Min(p.HalfLife/math.Ln2*float64(cohort), 1<<40)))
	}
	e := c.exploration(epoch, cohort, after)
	if p.Caution > 0 {
		e.Share = math.Min(e.Share, math.Max(0, p.ExplorerShare))
	}
	return e
}

func (c Config) exploration(epoch, cohort, after int) Exploration {
	p := c.Practical
	switch {
	case epoch == 0:
		return Exploration{Width: math.Inf(1), Share: 1}
	case after == 0 || !(p.Width > 0):
		return Exploration{}
	}
	e := Exploration{Width: p.Width, Share: 1}
	if epoch > 1 && p.AheadWidth > 0 {
		e.Width, e.Ahead = p.AheadWidth, true
	}
	explorers := float64(cohort)
	most := math.Max(p.Explorers*float64(p.FirstCohort), p.ExplorerShare*explorers)
	if p.Explorers > 0 && most < explorers {
		e.Share, explorers = most/explorers, most
	}
	if !p.ConstantWidth {
		e.Width *= math.Sqrt(math.Log1p(float64(after) / explorers))
	}
	return e
}

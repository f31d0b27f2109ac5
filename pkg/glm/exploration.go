package glm

import "math"

// Exploration says how a cohort of the practical profile explores. It is a function of the configuration and of numbers of people: known
// before anybody decides.
type Exploration struct {
	// Width is the number of standard deviations by which the greedy arm must beat another for that to be dropped. +Inf in the first cohort,
	// which drops none; 0 where all play greedily.
	Width float64
	// Share of the cohort who draw from the design of what is left, in [0, 1]. The others take the greedy arm.
	Share float64
	// Ahead says that the deviations are those which will be left after the cohort, rather than today's.
	Ahead bool
}

// Exploration is the rule for the cohort of an epoch (from 0) when so many people come after it: see PracticalConfig.Width, AheadWidth and
// Explorers. The configuration must be resolved.
func (c Config) Exploration(epoch, cohort, after int) Exploration {
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
	if most := math.Max(p.Explorers*float64(p.FirstCohort), p.ExplorerShare*explorers); p.Explorers > 0 && most < explorers {
		e.Share, explorers = most/explorers, most
	}
	if !p.ConstantWidth {
		e.Width *= math.Sqrt(math.Log1p(float64(after) / explorers))
	}
	return e
}

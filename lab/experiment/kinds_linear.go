package experiment

import (
	"github.com/riffle-dp/riffle/pkg/learn/bandit"
	"github.com/riffle-dp/riffle/pkg/plan"
)

// linearKinds are those of "Near-optimal private learning in linear contextual bandits".
var linearKinds = map[string]kind{
	// Action elimination: Algorithm 3, Theorems 5.1 (central) and 5.3 (local), and with Algorithm 12, Theorem 5.2.
	"elimination":            {start: bandit.NewElimination},
	"elimination-reweighted": {trusts: everySum, start: bandit.NewElimination},
	"elimination-linear":     {trusts: everySum, start: bandit.NewLinearElimination},
	// Inverse gap weighting: Algorithm 13, Theorem 6.4 (1) and (2).
	"squarecb": {trusts: []plan.Channel{plan.Central}, start: bandit.SquareCBJoint},
	"squarecb-local": {trusts: []plan.Channel{plan.Local, plan.Shuffle, plan.Shares, plan.Central},
		start: bandit.SquareCBLocal},
}

// everySum are the channels of learners that ask for sums only.
var everySum = []plan.Channel{plan.Central, plan.Local, plan.Shuffle, plan.Shares}

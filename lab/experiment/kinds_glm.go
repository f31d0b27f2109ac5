package experiment

import (
	"github.com/riffle-dp/riffle/lab/learn/bandit"
	"github.com/riffle-dp/riffle/pkg/learn/joint"
	"github.com/riffle-dp/riffle/pkg/plan"
)

// glmKinds are those of "Shuffle and joint differential privacy for generalized linear contextual bandits".
var glmKinds = map[string]kind{
	"joint": {trusts: []plan.Channel{plan.Central}, start: joint.NewLearner, oracleKappa: true},
	// The earlier private bandit with generalized linear rewards, by Han, Liang, Wang and Zhang (2021).
	"greedy-sgd": {trusts: []plan.Channel{plan.Local}, start: bandit.GreedySGD},
}

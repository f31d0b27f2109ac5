package experiment

import (
	"math"

	"github.com/riffle-dp/riffle/lab/learn/bandit"
	"github.com/riffle-dp/riffle/pkg/learn"
	deployed "github.com/riffle-dp/riffle/pkg/learn/bandit"
	"github.com/riffle-dp/riffle/pkg/plan"
)

// improvedKinds are those of "Improved rate for locally differentially private linear bandits".
var improvedKinds = map[string]kind{
	"linucb":                   {start: bandit.LinUCB},
	"linucb-spread":            {start: bandit.LinUCB, spread: true},
	"online-linucb-nonprivate": {start: withoutNoise(deployed.OnlineLinUCB)},
	"online-linucb":            {trusts: []plan.Channel{plan.Local}, start: deployed.OnlineLinUCB},
	"online-linucb-anytime":    {trusts: []plan.Channel{plan.Local}, start: deployed.AnytimeOnlineLinUCB},
	"online-linucb-combiner":   {trusts: []plan.Channel{plan.Local}, start: deployed.Combiner},
	"joint-linucb":             {trusts: []plan.Channel{plan.Central}, start: bandit.JointLinUCB},
	"local-linucb":             {trusts: []plan.Channel{plan.Local}, start: bandit.LocalLinUCB},
	"shuffle-linucb":           {trusts: []plan.Channel{plan.Shuffle}, start: bandit.ShuffleLinUCB},
}

// withoutNoise is the learner with an infinite epsilon.
func withoutNoise(start func(learn.Setting) (*learn.Learner, error)) func(learn.Setting) (*learn.Learner, error) {
	return func(s learn.Setting) (*learn.Learner, error) {
		s.Epsilon = math.Inf(1)
		return start(s)
	}
}

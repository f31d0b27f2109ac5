package experiment

import (
	"maps"
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
	"online-linucb-nonprivate": {start: withoutNoise(perPerson(deployed.OnlineLinUCB))},
	"online-linucb":            {trusts: []plan.Channel{plan.Local}, start: perPerson(deployed.OnlineLinUCB)},
	"online-linucb-anytime":    {trusts: []plan.Channel{plan.Local}, start: perPerson(deployed.AnytimeOnlineLinUCB)},
	"online-linucb-combiner":   {trusts: []plan.Channel{plan.Local}, start: perPerson(deployed.Combiner)},
	"joint-linucb":             {trusts: []plan.Channel{plan.Central}, start: bandit.JointLinUCB},
	"local-linucb":             {trusts: []plan.Channel{plan.Local}, start: bandit.LocalLinUCB},
	"shuffle-linucb":           {trusts: []plan.Channel{plan.Shuffle}, start: bandit.ShuffleLinUCB},
}

// perPerson is the learner as the paper has it, with a policy for each person where no batch is set.
func perPerson(start func(learn.Setting) (*learn.Learner, error)) func(learn.Setting) (*learn.Learner, error) {
	return func(s learn.Setting) (*learn.Learner, error) {
		options := map[string]float64{"batch": 1}
		maps.Copy(options, s.Options)
		s.Options = options
		return start(s)
	}
}

// withoutNoise is the learner with an infinite epsilon.
func withoutNoise(start func(learn.Setting) (*learn.Learner, error)) func(learn.Setting) (*learn.Learner, error) {
	return func(s learn.Setting) (*learn.Learner, error) {
		s.Epsilon = math.Inf(1)
		return start(s)
	}
}

package experiment

import (
	lab "github.com/riffle-dp/riffle/lab/learn/bandit"
	"github.com/riffle-dp/riffle/pkg/learn/bandit"
	"github.com/riffle-dp/riffle/pkg/learn/estimate"
	"github.com/riffle-dp/riffle/pkg/plan"
)

// layeredKinds are those of "On the optimal regret of locally private linear contextual bandit": its Algorithm 1 with
// one oracle for all actions, and as printed, with one for each.
var layeredKinds = map[string]kind{
	"regcb":         {trusts: layeredTrusts, pure: layeredPure, start: bandit.RegCB},
	"regcb-actions": {trusts: layeredTrusts, pure: layeredPure, start: lab.NewRegCBActions},
}

// layeredTrusts are the channels with noise of pure epsilon, and those with that of the variant gauss.
var layeredTrusts = []plan.Channel{plan.Local, plan.Central, plan.Shuffle, plan.Shares}

var layeredPure = []string{"", estimate.LayeredThirds}

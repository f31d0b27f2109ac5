package wire

import (
	"github.com/riffle-dp/riffle/pkg/glm"
	"github.com/riffle-dp/riffle/pkg/glm/statistic"
	"github.com/riffle-dp/riffle/pkg/plan"
)

// The words that messages have numbers for. UNSPECIFIED, 0, stands for none of them; channels have none such.
var (
	statistics = []statistic.Kind{
		1:  statistic.Hessian,
		2:  statistic.Gradient,
		3:  statistic.Covariance,
		4:  statistic.Row,
		5:  statistic.Rewards,
		6:  statistic.Pair,
		7:  statistic.Normalization,
		8:  statistic.ReweightedGradient,
		9:  statistic.ReweightedLinear,
		10: statistic.ClippedGradient,
		11: statistic.BinCount,
		12: statistic.BinFirst,
		13: statistic.BinSecond,
		14: statistic.BinErrors,
		15: statistic.Mean,
		16: statistic.Histogram,
		17: statistic.Fit,
	}
	channels = []plan.Channel{
		0: plan.Shuffle,
		1: plan.Shares,
		2: plan.Local,
		3: plan.Central,
	}
	profiles = []glm.Profile{
		1:  glm.Practical,
		2:  glm.Paper,
		3:  glm.Joint,
		4:  glm.LinUCB,
		5:  glm.OnlineLinUCB,
		6:  glm.OnlineLinUCBCombiner,
		7:  glm.EliminationReweighted,
		8:  glm.EliminationLinear,
		9:  glm.SquareCB,
		10: glm.RegCB,
	}
	plays = []glm.Play{
		1: glm.PlayDesign,
		2: glm.PlayGreedy,
		3: glm.PlayUniform,
		4: glm.PlayOptimistic,
		5: glm.PlayDefault,
		6: glm.PlaySampled,
		7: glm.PlaySpanner,
		8: glm.PlayInverseGap,
	}
)

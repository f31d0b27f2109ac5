package wire

import (
	"strconv"

	rifflev1 "github.com/riffle-dp/riffle/messages/riffle/v1"
	"github.com/riffle-dp/riffle/pkg/glm"
	"github.com/riffle-dp/riffle/pkg/glm/statistic"
	"github.com/riffle-dp/riffle/pkg/plan"
)

// The names that messages have numbers for. UNSPECIFIED, 0, stands for none of them; channels have none such.
var (
	statistics = map[rifflev1.Statistic]statistic.Kind{
		rifflev1.Statistic_STATISTIC_HESSIAN:             statistic.Hessian,
		rifflev1.Statistic_STATISTIC_GRADIENT:            statistic.Gradient,
		rifflev1.Statistic_STATISTIC_COVARIANCE:          statistic.Covariance,
		rifflev1.Statistic_STATISTIC_RECORD:              statistic.Row,
		rifflev1.Statistic_STATISTIC_REWARDS:             statistic.Rewards,
		rifflev1.Statistic_STATISTIC_PAIR:                statistic.Pair,
		rifflev1.Statistic_STATISTIC_NORMALIZATION:       statistic.Normalization,
		rifflev1.Statistic_STATISTIC_REWEIGHTED_GRADIENT: statistic.ReweightedGradient,
		rifflev1.Statistic_STATISTIC_REWEIGHTED_LINEAR:   statistic.ReweightedLinear,
		rifflev1.Statistic_STATISTIC_CLIPPED_GRADIENT:    statistic.ClippedGradient,
		rifflev1.Statistic_STATISTIC_BIN_COUNT:           statistic.BinCount,
		rifflev1.Statistic_STATISTIC_BIN_FIRST:           statistic.BinFirst,
		rifflev1.Statistic_STATISTIC_BIN_SECOND:          statistic.BinSecond,
		rifflev1.Statistic_STATISTIC_BIN_ERRORS:          statistic.BinErrors,
	}
	channels = map[rifflev1.Channel]plan.Channel{
		rifflev1.Channel_CHANNEL_SHUFFLE: plan.Shuffle,
		rifflev1.Channel_CHANNEL_SHARES:  plan.Shares,
		rifflev1.Channel_CHANNEL_LOCAL:   plan.Local,
		rifflev1.Channel_CHANNEL_CENTRAL: plan.Central,
	}
	profiles = map[rifflev1.Profile]glm.Profile{
		rifflev1.Profile_PROFILE_PRACTICAL: glm.Practical,
		rifflev1.Profile_PROFILE_PAPER:     glm.Paper,
		rifflev1.Profile_PROFILE_JOINT:     glm.Joint,

		rifflev1.Profile_PROFILE_LINUCB:                 glm.LinUCB,
		rifflev1.Profile_PROFILE_ONLINE_LINUCB:          glm.OnlineLinUCB,
		rifflev1.Profile_PROFILE_ONLINE_LINUCB_COMBINER: glm.OnlineLinUCBCombiner,
		rifflev1.Profile_PROFILE_ELIMINATION_REWEIGHTED: glm.EliminationReweighted,
		rifflev1.Profile_PROFILE_ELIMINATION_LINEAR:     glm.EliminationLinear,
		rifflev1.Profile_PROFILE_SQUARECB:               glm.SquareCB,
		rifflev1.Profile_PROFILE_REGCB:                  glm.RegCB,
	}
	plays = map[rifflev1.Play]glm.Play{
		rifflev1.Play_PLAY_DESIGN:      glm.PlayDesign,
		rifflev1.Play_PLAY_GREEDY:      glm.PlayGreedy,
		rifflev1.Play_PLAY_UNIFORM:     glm.PlayUniform,
		rifflev1.Play_PLAY_OPTIMISTIC:  glm.PlayOptimistic,
		rifflev1.Play_PLAY_DEFAULT:     glm.PlayDefault,
		rifflev1.Play_PLAY_SAMPLED:     glm.PlaySampled,
		rifflev1.Play_PLAY_SPANNER:     glm.PlaySpanner,
		rifflev1.Play_PLAY_INVERSE_GAP: glm.PlayInverseGap,
	}
)

// statisticOf keeps a number that is not known as its digits, so that the refusal can name it.
func statisticOf(s rifflev1.Statistic) statistic.Kind {
	if kind, known := statistics[s]; known {
		return kind
	}
	return statistic.Kind(strconv.Itoa(int(s)))
}

// channelOf keeps a number that is not known as its digits, so that the refusal can name it.
func channelOf(c rifflev1.Channel) plan.Channel {
	if channel, known := channels[c]; known {
		return channel
	}
	return plan.Channel(strconv.Itoa(int(c)))
}

// number returns the number of a name, 0 for a name that has none.
func number[N ~int32, S ~string](names map[N]S, name S) (n N) {
	for i, s := range names {
		if s == name {
			n = i
		}
	}
	return n
}

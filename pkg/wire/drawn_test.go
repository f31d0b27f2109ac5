package wire_test

import (
	"math"
	"time"

	"pgregory.net/rapid"

	"github.com/riffle-dp/riffle/pkg/glm"
	"github.com/riffle-dp/riffle/pkg/glm/family"
	"github.com/riffle-dp/riffle/pkg/glm/layered"
	"github.com/riffle-dp/riffle/pkg/glm/statistic"
	"github.com/riffle-dp/riffle/pkg/glm/structure"
	"github.com/riffle-dp/riffle/pkg/glm/symmetric"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/privacy"
	"github.com/riffle-dp/riffle/pkg/protocol"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// drawAnnouncement draws an announcement in range: final or not, with and without scaling, of 1 to 3 rounds.
func drawAnnouncement(t *rapid.T, key []byte) *plan.Announcement {
	dim := rapid.IntRange(1, 3).Draw(t, "dimension")
	a := &plan.Announcement{
		Deployment: deployment, Epoch: rapid.Uint64Min(2).Draw(t, "epoch"), Previous: digestOf(1),
		Policy: drawPolicy(t, dim), Final: rapid.IntRange(0, 3).Draw(t, "final") == 0,
	}
	if a.Final {
		return a
	}
	if rapid.Bool().Draw(t, "first") {
		a.Epoch, a.Previous = 1, nil
	}
	a.Reference = drawPoint(t, dim)
	a.Plan = plan.Plan{
		Epsilon: rapid.Float64Range(0.01, 10).Draw(t, "epsilon"), Delta: rapid.Float64Range(1e-9,
			privacy.MaxDelta).Draw(t, "delta"),
		TailDelta: 1e-10, Channel: rapid.SampledFrom([]plan.Channel{plan.Shuffle, plan.Shares}).Draw(t, "channel"),
	}
	kinds := rapid.SampledFrom([]statistic.Kind{statistic.Hessian, statistic.Gradient, statistic.Covariance,
		statistic.ReweightedLinear, statistic.ClippedGradient})
	for range rapid.IntRange(1, 3).Draw(t, "rounds") {
		var round plan.Round
		for range rapid.IntRange(1, 2).Draw(t, "releases") {
			round.Releases = append(round.Releases, plan.Release{
				Statistic: kinds.Draw(t, "statistic"), Shift: rapid.Float64Range(1e-3, 100).Draw(t, "shift"),
				NoiseBits: rapid.Uint32Range(1, 1000).Draw(t, "noise bits"),
				Bias:      protocol.Bias(rapid.Uint32Min(1).Draw(t, "bias")),

				ShufflerNoise: rapid.Uint64Range(0, plan.MaxServerNoise).Draw(t, "shuffler noise"),
			})
		}
		a.Plan.Rounds = append(a.Plan.Rounds, round)
	}
	if a.Epoch > 1 {
		a.Round = uint32(rapid.IntRange(0, len(a.Plan.Rounds)-1).Draw(t, "round"))
	}
	for _, r := range a.Plan.Rounds[a.Round].Releases {
		e := protocol.Encoding{Scale: rapid.Float64Range(0.1, 100).Draw(t, "scale"), NoiseBits: r.NoiseBits,
			Bias: r.Bias}
		for range (statistic.Statistic{Kind: r.Statistic, ArmDim: dim, Structure: a.Policy.Structure}).Dim() {
			e.Coordinates = append(e.Coordinates, protocol.Coordinate{
				Offset: drawNumber(t), Levels: rapid.Uint32Range(1, 1000).Draw(t, "levels"),
			})
		}
		a.Encodings = append(a.Encodings, e)
		if r.Statistic.Normalized() {
			a.Normalization = make(symmetric.Packed, symmetric.Dim(dim))
			a.Normalization[0] = drawNumber(t)
		}
	}
	if rapid.IntRange(0, 3).Draw(t, "curated") == 0 {
		noise, fits := rapid.Float64Range(1e-3, 1e3), rapid.Uint32Min(1)
		a.Round, a.Normalization = 0, nil
		a.Plan = plan.Plan{Epsilon: 1, Delta: 1e-6, Channel: plan.Central, Curator: &plan.Curator{
			Leaves: fits.Draw(t, "leaves"), ExplorerNoise: noise.Draw(t, "noise"), OtherNoise: noise.Draw(t, "noise"),
			ExplorerFits: fits.Draw(t, "fits"), OtherFits: fits.Draw(t, "fits"),
			ExplorerRho: noise.Draw(t, "rho"), OtherRho: noise.Draw(t, "rho"),
		}, Rounds: []plan.Round{{Releases: []plan.Release{{Statistic: statistic.Row}}}}}
		a.Encodings = []protocol.Encoding{plan.RecordEncoding(dim, family.NameLogistic, 1)}
	}
	if a.Plan.Curator == nil && len(a.Plan.Rounds) == 1 && rapid.Bool().Draw(t, "panel") {
		a.Plan.Panel = &plan.Panel{Registered: rapid.Uint32Min(1).Draw(t, "registered"),
			Dishonest: rapid.Float64Range(0, 0.9).Draw(t, "dishonest"), Tail: a.Plan.Delta / 2}
		a.Plan.Decisions = rapid.Uint32Range(1, wire.MaxDecisions).Draw(t, "decisions")
		a.Plan.Records = rapid.Uint32Range(1, 100).Draw(t, "records")
		a.Plan.Period = a.Plan.Records * rapid.Uint32Range(0, 3).Draw(t, "periods")
		a.Commitment = digestOf(11)
	}
	a.Cohort.Minimum = rapid.Uint32Range(1, math.MaxUint32).Draw(t, "minimum")
	a.Cohort.Size = rapid.Uint32Min(a.Cohort.Minimum).Draw(t, "size")
	a.Cohort.MaxDishonest = rapid.Uint32Max(a.Cohort.Minimum-1).Draw(t, "dishonest")
	a.Timing.RoundWindow = time.Millisecond
	for _, d := range []*time.Duration{&a.Timing.RewardWindow, &a.Timing.Jitter, &a.Timing.Grace, &a.Timing.Enrolment,
		&a.Timing.Every} {
		*d = time.Duration(rapid.Uint32Range(0, wire.MaxTiming).Draw(t, "time")) * time.Millisecond
	}
	a.AnalyzerKey = key
	return a
}

func drawPolicy(t *rapid.T, dim int) glm.Policy {
	stage := func(means bool) glm.Stage {
		covariance := make(symmetric.Packed, symmetric.Dim(dim))
		covariance[0] = rapid.Float64Range(0, 2).Draw(t, "covariance")
		return glm.Stage{
			Theta: drawPoint(t, dim), Covariance: covariance, Width: rapid.Float64Range(0, 5).Draw(t, "width"),
			Means: means && rapid.Bool().Draw(t, "means"),
		}
	}
	p := glm.Policy{
		Profile: rapid.SampledFrom(glm.Profiles()).Draw(t, "profile"),
		Epoch:   int(rapid.Uint32().Draw(t, "cohorts")), Family: "logistic", MaxReward: 1, Dimension: dim, Radius: 3,
		Theta: drawPoint(t, dim),
		Play: rapid.SampledFrom([]glm.Play{glm.PlayDesign, glm.PlayGreedy, glm.PlayUniform, glm.PlaySpanner,
			glm.PlayInverseGap}).Draw(t, "play"),
		Explore: math.Abs(drawNumber(t)),
	}
	if rapid.IntRange(0, 3).Draw(t, "optimistic") == 0 {
		p.Profile, p.Play = glm.Joint, glm.PlayOptimistic
		optimism := stage(false)
		if rapid.Bool().Draw(t, "criterion") {
			p.Criterion = &glm.Criterion{Covariance: stage(false).Covariance,
				Threshold: rapid.Float64Range(1e-6, 9).Draw(t, "threshold")}
		}
		p.Optimism = &optimism
	}
	if p.Play != glm.PlayOptimistic && rapid.Bool().Draw(t, "sampled") {
		p.Play = glm.PlaySampled
		for range rapid.IntRange(1, glm.MaxDraws).Draw(t, "draws") {
			p.Draws = append(p.Draws, drawPoint(t, dim))
		}
	}
	if p.Play == glm.PlayInverseGap {
		p.Gamma = rapid.Float64Range(0, 1e100).Draw(t, "gamma")
	}
	if dim > 1 && rapid.Bool().Draw(t, "structured") {
		p.Structure = structure.Structure{{From: rapid.IntRange(0, dim-2).Draw(t, "from"), Count: 2, Size: 1,
			Choice: rapid.IntRange(0, 3).Draw(t, "choice")}}
	}
	for range rapid.IntRange(0, 2).Draw(t, "stages") {
		p.Stages = append(p.Stages, stage(true))
	}
	if dim <= layered.MaxDimension && rapid.IntRange(0, 2).Draw(t, "trees") == 0 {
		p.Family = family.NameLinear
		tree := layered.Tree{Levels: 2, Gamma: 2, Cap: 2, Clip: 1}
		for k := range rapid.IntRange(0, 2).Draw(t, "bins") {
			direction := make([]float64, dim)
			direction[0] = 1
			tree.Bins = append(tree.Bins, layered.Bin{Level: k, Direction: direction, Value: drawNumber(t),
				Flat: math.Abs(drawNumber(t))})
		}
		p.Trees = append(p.Trees, tree)
	}
	if rapid.Bool().Draw(t, "scaling") {
		p.Scaling = &glm.Scaling{Stage: stage(false), Diameter: 6, SelfConcordance: 1, MaxWeight: 0.25}
	}
	return p
}

func drawPoint(t *rapid.T, dim int) []float64 {
	x := make([]float64, dim)
	for i := range x {
		x[i] = drawNumber(t)
	}
	return x
}

// drawNumber draws from [-1, 1], and often a zero of either sign.
func drawNumber(t *rapid.T) float64 {
	return rapid.OneOf(rapid.Just(0.0), rapid.Just(math.Copysign(0, -1)), rapid.Float64Range(-1, 1)).Draw(t, "number")
}

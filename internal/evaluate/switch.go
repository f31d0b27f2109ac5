package evaluate

import (
	"math"
	"slices"

	"github.com/riffle-dp/riffle/internal/play"
	"github.com/riffle-dp/riffle/internal/population/decisions"
)

// Switch is the estimate SWITCH of Wang, Agarwal and Dudik (2017): doubly robust where the weight is at most Threshold,
// and the reward model alone where it is larger. It gives up being unbiased for less variance. If the threshold is the
// largest weight, it is the doubly robust estimate.
type Switch struct {
	// Estimate has an interval only if nothing is left to the model: the log does not say how wrong that is.
	Estimate
	Threshold float64 `json:"threshold"`
	// Left is the share of the target's play with weights above Threshold, which is left to the model. The log has no
	// propensities of arms that were not played: they are taken to be alike, as with two arms, of uniform play, and of
	// play of a favourite that explores uniformly.
	Left float64 `json:"left_to_model"`
}

// The thresholds that are tried: evenly spaced in the logarithm between two quantiles of the weights. The
// largest weight is tried beside them.
const (
	thresholds  = 21
	lowQuantile = 0.05
)

// switched chooses the threshold for which the estimated variance and the square of the largest bias add up to the
// least. modelled is what the model alone says of each decision, robust its doubly robust score.
func switched(log []decisions.Decision, probabilities [][]float64, over *Overlap, modelled, robust []float64, z float64,
	in bounds,
) Switch {
	n := float64(len(robust))
	weights := slices.DeleteFunc(slices.Clone(over.weights), func(w float64) bool { return w == 0 })
	slices.Sort(weights)
	last := len(weights) - 1
	low, high := weights[int(lowQuantile*float64(last))], weights[int((1-lowQuantile)*float64(last))]
	tried := []float64{weights[last]}
	for k := range thresholds {
		tried = append(tried, low*math.Pow(high/low, float64(k)/(thresholds-1)))
	}
	least, best := math.Inf(1), Switch{}
	scores := make([]float64, len(robust))
	for _, threshold := range tried {
		left := 0.0
		for i, w := range over.weights {
			scores[i], left = robust[i], left+above(log[i], probabilities[i], threshold)/n
			if w > threshold*(1+rounding) {
				scores[i] = modelled[i]
			}
		}
		value, se := play.MeanAndError(scores)
		if loss := se*se + left*left*in.span*in.span; loss < least {
			least, best = loss, Switch{Estimate: over.interval(value, se, z, in), Threshold: threshold, Left: left}
		}
	}
	if best.Left > 0 {
		best.Interval = nil
	}
	return best
}

// above is the share of the target's play in a decision that has weights above the threshold.
func above(d decisions.Decision, p []float64, threshold float64) (share float64) {
	other := (1 - d.Propensity) / float64(max(1, len(d.Arms)-1))
	for a, v := range p {
		propensity := other
		if a == d.Arm {
			propensity = d.Propensity
		}
		if v > threshold*(1+rounding)*propensity {
			share += v
		}
	}
	return share
}

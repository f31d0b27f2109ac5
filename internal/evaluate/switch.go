package evaluate

import (
	"math"
	"slices"

	"github.com/riffle-dp/riffle/internal/play"
)

// Switch is the estimate SWITCH of Wang, Agarwal and Dudik (2017): doubly robust where the weight is at most Threshold,
// and the reward model alone where it is larger. It gives up being unbiased for less variance. If the threshold is the
// largest weight, it is the doubly robust estimate.
type Switch struct {
	// Estimate has an interval that is longer by Bias at either end.
	Estimate
	Threshold float64 `json:"threshold"`
	// Bias bounds what the model can be wrong by: the share of the target's play with weights above Threshold, as the
	// log has it, times the range of rewards.
	Bias float64 `json:"bias"`
}

// The thresholds that are tried: evenly spaced in the logarithm between two quantiles of the weights. The
// largest weight is tried beside them.
const (
	thresholds  = 21
	lowQuantile = 0.05
)

// switched chooses the threshold for which the estimated variance and the square of the bias bound add up to the
// least. modelled is what the model alone says of each decision, robust its doubly robust score.
func switched(over *Overlap, modelled, robust []float64, z float64, in bounds) Switch {
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
		bias := 0.0
		for i, w := range over.weights {
			scores[i] = robust[i]
			if w > threshold*(1+rounding) {
				scores[i], bias = modelled[i], bias+in.span*w/n
			}
		}
		value, se := play.MeanAndError(scores)
		bias = math.Min(bias, in.span)
		if loss := se*se + bias*bias; loss < least {
			least, best = loss, Switch{Estimate: over.interval(value, se, z, in), Threshold: threshold, Bias: bias}
		}
	}
	if i := best.Interval; i != nil {
		i.Low, i.High = math.Max(in.low, i.Low-best.Bias), math.Min(in.high, i.High+best.Bias)
	}
	return best
}

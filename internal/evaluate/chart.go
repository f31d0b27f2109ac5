package evaluate

import (
	"fmt"
	"slices"

	"github.com/riffle-dp/riffle/internal/chart"
)

// chartPoints is about the most steps of a line.
const chartPoints = 200

// Chart draws how the weights are distributed: how many decisions have at most a weight, and how much of all weight
// these carry. Where the second line rises at the far right only, a few decisions decide the estimates.
func (r *Estimates) Chart() chart.Chart {
	o := r.Overlap
	weights := slices.DeleteFunc(slices.Clone(o.weights), func(w float64) bool { return w == 0 })
	slices.Sort(weights)
	n, sum := float64(len(o.weights)), 0.0
	for _, w := range weights {
		sum += w
	}
	carried, decisions := chart.Series{Name: "of all weight", Width: 2.5}, chart.Series{Name: "of decisions"}
	weight, share, every := 0.0, o.NeverPlayed, max(1, len(weights)/chartPoints)
	to := func(x float64) { // a step
		carried.X, carried.Y = append(carried.X, x), append(carried.Y, weight/sum)
		decisions.X, decisions.Y = append(decisions.X, x), append(decisions.Y, share)
	}
	to(weights[0] / 2)
	for i, w := range weights {
		gap := i > 0 && w > 1.01*weights[i-1]
		if gap {
			to(weights[i-1])
		}
		drawn := gap || i%every == 0 || i == len(weights)-1
		if drawn {
			to(w)
		}
		if weight, share = weight+w, share+1/n; drawn {
			to(w)
		}
	}
	to(2 * weights[len(weights)-1])
	return chart.Chart{Title: "How the log overlaps with the policy", Subtitle: fmt.Sprintf(
		"%s decisions, of which %.3g %% have an arm that the policy never plays; effective size %s",
		chart.Number(n, 0), 100*o.NeverPlayed, chart.Number(o.EffectiveSize, 0)),
		X: "weight: probability of the arm by the policy, over its propensity", Y: "share with at most this weight",
		LogX: true, Series: []chart.Series{carried, decisions},
		Marks: []chart.Mark{{X: r.Switch.Threshold, Text: "SWITCH"}}}
}

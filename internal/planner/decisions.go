package planner

import (
	"math"
	"slices"
)

// kept is how many of a person's decisions a report of at most k holds, on average: E[min(N, k)], where the number N is
// Poisson with the mean, as for people who decide now and then, independently. It is the sum over j = 1 to k of P(N >=
// j).
func kept(mean float64, k int) float64 {
	below, sum := 0.0, 0.0 // P(N < j)
	for j := 1; j <= k; j++ {
		logarithm, _ := math.Lgamma(float64(j))
		below += math.Exp(float64(j-1)*math.Log(mean) - mean - logarithm)
		if below >= 1-1e-12 && float64(j) > mean {
			break
		}
		sum += math.Max(0, 1-below)
	}
	return math.Min(sum, mean)
}

// shown are the numbers of decisions that the table compares: around the mean, the advised one and the one asked
// for.
func shown(mean float64, advised, asked, most int) (all []int) {
	for _, factor := range []float64{0.25, 0.5, 1, 1.5, 2, 4} {
		all = append(all, int(math.Round(factor*mean)))
	}
	all = append(all, 1, advised, asked)
	slices.Sort(all)
	all = slices.Compact(all)
	return slices.DeleteFunc(all, func(k int) bool { return k < 1 || k > max(most, asked) })
}

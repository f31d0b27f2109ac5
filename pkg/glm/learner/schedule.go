package learner

import "math"

// PaperSchedule is the batch sizes of equation (7) of Riffle's seed paper for a given warm-up size: tau_2 = alpha and
// tau_k = alpha sqrt(tau_{k-1}) for k >= 3, on real numbers, each rounded up, the last truncated so that the sizes sum
// to horizon. second replaces tau_2 (alpha in the paper). The number of batches is O(log log T). horizon, warmup and
// second must be at least 1 and alpha above 1; the result has one batch if warmup >= horizon.
func PaperSchedule(horizon int, warmup, second, alpha float64) []int {
	var sizes []int
	left, next := horizon, warmup
	for left > 0 {
		size := left
		if c := math.Ceil(next); c < float64(left) {
			size = max(1, int(c))
		}
		sizes = append(sizes, size)
		left -= size
		if len(sizes) == 1 {
			next = second
		} else {
			next = alpha * math.Sqrt(next)
		}
	}
	return sizes
}

// GeometricSchedule is the cohorts of the practical profile: first, growth*first, growth^2*first, .. for at most epochs
// cohorts, the last taking the rest of the horizon. A remainder below smallest joins the cohort before it. horizon and
// first must be at least 1, growth at least 1.
func GeometricSchedule(horizon, first int, growth float64, epochs, smallest int) []int {
	var sizes []int
	left, next := horizon, float64(first)
	for left > 0 {
		size := left
		if c := math.Round(next); len(sizes) < epochs-1 && c < float64(left) {
			size = max(1, int(c))
		}
		sizes = append(sizes, size)
		left -= size
		next *= growth
	}
	return mergeRemainder(sizes, smallest)
}

// mergeRemainder adds a last size below smallest to the one before it, and again if that is not enough.
func mergeRemainder(sizes []int, smallest int) []int {
	for n := len(sizes); n > 1 && sizes[n-1] < smallest; n-- {
		sizes[n-2] += sizes[n-1]
		sizes = sizes[:n-1]
	}
	return sizes
}

// mostPanels bounds the number of panels of a deployment.
const mostPanels = 1 << 20

// panels is the cohorts of panels of one size: as many as the horizon has.
func panels(horizon, size int) []int {
	sizes := make([]int, horizon/size)
	for i := range sizes {
		sizes[i] = size
	}
	return sizes
}

package glm

import "math"

// PaperSchedule is equations (6)-(7) of Riffle's seed paper for a given warm-up size: tau_2 = alpha, tau_k = alpha sqrt(tau_{k-1})
// for k >= 3, on real numbers, each rounded up, the last truncated so that the sizes sum to horizon. second replaces tau_2 (alpha
// in the paper). The number of batches is O(log log T). horizon, warmup and second must be at least 1 and alpha above 1; the result has one
// batch if warmup >= horizon.
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

// PaperAlpha is the alpha with which batchSize(alpha, batches) = T, i.e. T^(1/(2(1-2^(1-M)))), M = batches >= 2: the choice when the
// number of batches is imposed. Without that, alpha = 2 sqrt(T).
func PaperAlpha(horizon, batches int) float64 {
	return math.Pow(float64(horizon), 1/(2*(1-math.Exp2(float64(1-batches)))))
}

// PaperBatch is the closed form of (7) from tau_2 = alpha on: tau_k = alpha^(2-2^(2-k)), k >= 2.
func PaperBatch(alpha float64, k int) float64 {
	return math.Pow(alpha, 2-math.Exp2(float64(2-k)))
}

// PaperWarmup is equation (6): (sqrt(kappa) e^{3S} d^2 gamma^2 alpha / S)^{2/3}, the size of the first batch that balances its regret
// against that of the later ones. It exceeds any horizon of today's deployments. (The formula is rebuilt from the surviving
// prose and the step of the proof that uses it; its constant is c_w = 1.)
func PaperWarmup(kappa, radius float64, dimension int, gamma, alpha float64) float64 {
	d := float64(dimension)
	return math.Ceil(math.Pow(math.Sqrt(kappa)*math.Exp(3*radius)*d*d*gamma*gamma*alpha/radius, 2.0/3))
}

// GeometricSchedule is the practical profile's: first, growth*first, growth^2*first, .. for at most epochs epochs, the last taking what
// is left. A remainder below smallest joins the epoch before it. horizon and first must be at least 1, growth at least 1.
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

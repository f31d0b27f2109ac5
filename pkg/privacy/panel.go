package privacy

import (
	"math"
	"sort"
)

// PanelTail bounds the probability that more than most of a panel are dishonest, where the panel is a uniformly random
// subset of size devices out of registered, of which so many are dishonest: the upper tail of the hypergeometric law,
// rounded up. Numbers that describe no panel (negative ones, more dishonest than registered devices) give 1. A size
// above registered stands for all of them.
func PanelTail(registered, dishonest, size, most int) float64 {
	if registered < 0 || dishonest < 0 || dishonest > registered || size < 0 {
		return 1
	}
	size = min(size, registered)
	n, m, honest := float64(size), float64(dishonest), float64(registered-dishonest)
	mode := int((n + 1) * (m + 1) / (float64(registered) + 2))
	return upperTail(max(0, size-(registered-dishonest)), min(size, dishonest), mode, most, func(k float64) float64 {
		return (m - k) * (n - k) / ((k + 1) * (honest - n + k + 1))
	})
}

// PanelDishonest is the smallest number for which the tail is proved: a panel of size devices holds more dishonest ones
// with probability at most tail, for every pool of at least size devices of which the dishonest ones are a share of at
// most share. share is in [0, 1); a tail of 0 or below, and numbers that are none, give size, which always holds.
//
// Proof. Let M of the N devices of a pool be dishonest, M <= share N. The number X of them in the panel is
// hypergeometric, and its generating function has real roots only (Vatutin and Mikhailov, "Limit theorems for the
// number of empty cells in an equiprobable scheme for group allocation of particles", 1982): X is a sum of size
// independent indicators, with the mean size M/N. Of all such sums with this mean, the binomial one has the largest
// upper tail beyond c >= size M/N: P(X > c) <= P(Bin(size, M/N) > c) (Hoeffding, "On the distribution of the number of
// successes in independent trials", 1956, Theorem 4). That grows with M/N, and so is at most P(Bin(size, share) > c).
// Pools without end come as near to it as one likes, so that no smaller number holds for all of them: how many devices
// are registered at least does not help.
func PanelDishonest(share float64, size int, tail float64) int {
	switch {
	case size <= 0 || share == 0:
		return 0
	case !(share > 0 && share < 1) || !(tail > 0):
		return size
	}
	product := float64(size) * share
	mean := int(math.Ceil(product))
	if float64(mean) == product && math.FMA(float64(size), share, -product) > 0 {
		mean++ // the product was rounded down to a whole number
	}
	return min(size, mean+sort.Search(max(0, size-mean), func(k int) bool {
		return binomialTail(size, share, mean+k) <= tail
	}))
}

// binomialTail bounds the probability that more than most of n independent trials succeed, each with probability p.
func binomialTail(n int, p float64, most int) float64 {
	trials, odds := float64(n), p/(1-p)
	return upperTail(0, n, int((trials+1)*p), most, func(k float64) float64 { return (trials - k) * odds / (k + 1) })
}

// leastWeight is where upperTail stops to add weights, relative to that of the mode.
const leastWeight = 1e-290

// upperTail bounds P(X > most), rounded up, of a law on the integers from first to last whose weights rise up to about
// mode and fall from there; ratio(k) is the weight of k+1 over that of k.
//
// All terms are positive, so that only relative errors add up: at most five roundings for each step away from the mode,
// and one for each addition, in the numerator and in the denominator. Weights that are left out make the denominator
// smaller; in the numerator each of them is counted as the least weight.
func upperTail(first, last, mode, most int, ratio func(float64) float64) float64 {
	if most >= last {
		return 0
	}
	if most < first {
		return 1
	}
	mode = min(max(mode, first), last)
	all, above, terms := 0.0, 0.0, 0
	count := func(k int, w float64) {
		all += w
		terms++
		if k > most {
			above += w
		}
	}
	count(mode, 1)
	for k, w := mode, 1.0; k > first; k-- {
		if w /= ratio(float64(k - 1)); w < leastWeight {
			above += float64(max(0, k-1-most)) * leastWeight
			break
		}
		count(k-1, w)
	}
	for k, w := mode, 1.0; k < last; k++ {
		if w *= ratio(float64(k)); w < leastWeight {
			above += float64(last-max(k, most)) * leastWeight
			break
		}
		count(k+1, w)
	}
	return math.Min(1, above/all*(1+float64(16*terms+64)*0x1p-53))
}

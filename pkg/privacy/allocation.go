package privacy

import (
	"math"
	"slices"
)

// moves returns, block by block, the shift of each of its coordinates in the allocation that maximises the
// certificate's sum: equal shifts as far as the levels allow, under sum Count*t^2 <= shift^2. The second result is the
// largest shift that any coordinate can make at all.
func moves(blocks []Block, shift float64) (t []float64, largest float64) {
	caps := make([]float64, len(blocks))
	order := make([]int, len(blocks))
	coordinates := 0
	for i, b := range blocks {
		// The encoder clamps to whole levels.
		caps[i] = math.Min(shift, math.Min(b.Levels+quantisation, math.Ceil(b.Levels)))
		largest = math.Max(largest, caps[i])
		order[i] = i
		coordinates += b.Count
	}
	slices.SortFunc(order, func(i, j int) int {
		switch {
		case caps[i] < caps[j]:
			return -1
		case caps[i] > caps[j]:
			return 1
		}
		return 0
	})
	// Fill the smallest caps first; what remains is shared equally by the coordinates with larger caps.
	t = make([]float64, len(blocks))
	left := shift * shift
	for _, i := range order {
		level := math.Sqrt(math.Max(0, left) / float64(coordinates))
		t[i] = math.Min(caps[i], level*(1+1e-14))
		left -= float64(blocks[i].Count) * t[i] * t[i]
		coordinates -= blocks[i].Count
	}
	return t, largest
}

// quantised returns the l2 shift with the quantisation of every coordinate added.
func quantised(blocks []Block, shift float64) float64 {
	coordinates := 0
	for _, b := range blocks {
		coordinates += b.Count
	}
	return shift + math.Sqrt(float64(coordinates))*quantisation
}

package envelope

import "slices"

// Each is what the counts of a round of pairs hold (wire.ReleaseCounts.Entries): the entries of every report, one
// report after the other, in ascending order. What is sorted by what it says does not tell who sent it, or when.
//
// The entries carry their device's own noise, which plan.Guarantee counts and nothing else: that is why they may be in
// anybody's hands.
func Each(reports [][]uint32) (entries []uint32) {
	sorted := slices.Clone(reports)
	slices.SortFunc(sorted, slices.Compare[[]uint32])
	return slices.Concat(sorted...)
}

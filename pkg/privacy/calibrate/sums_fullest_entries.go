package calibrate

import (
	"fmt"
	"math"
	"sort"
)

// sumRounds limits the search for the noise bits of one entry width.
const sumRounds = 8

// passMargin is the part of the poison that is allowed at which a width is known to be affordable before its noise is
// known.
const passMargin = 0.9

// fullestEntries takes the smallest entry width with which all releases meet the ratio, and all noise bits that fit
// into it. As long as that is affordable it takes wider entries, until all releases meet the finer ratio.
func (s *sums) fullestEntries() (*sumPoint, error) {
	var best *sumPoint
	guess := s.ideal
	for width := 1; width <= s.request.MaxEntryBits; width++ {
		enough := best != nil && s.worst(best.noise, best.factor) <= s.request.Ratio
		if enough && (s.worst(best.noise, best.factor) <= s.request.Finer || !s.affordable(width)) {
			break
		}
		noise := s.filled(width, guess)
		if noise == nil || s.worst(noise, s.ideal) > s.request.Ratio && width < s.request.MaxEntryBits {
			continue // not even Gaussian noise of this variance would do
		}
		if s.passable(width, noise) {
			continue // the next width will be taken in any case
		}
		p, err := s.filling(width, noise, guess)
		if err != nil {
			return nil, err
		}
		if p == nil {
			continue
		}
		if enough && s.poison(width, p.noise) > s.request.MaxPoison {
			break
		}
		best, guess = p, p.factor
	}
	if best == nil {
		return nil, &Infeasible{Constraint: "MinCohort",
			Reason: fmt.Sprintf("the noise of %d honest reports in entries of %d bits certifies no release",
				s.request.Counted, s.request.MaxEntryBits),
			Remedy: "raise the minimum cohort or epsilon, or release fewer statistics"}
	}
	return best, nil
}

// affordable reports whether entries of this width may be taken for the finer ratio, before the noise is known.
func (s *sums) affordable(width int) bool {
	entries := 0
	for _, r := range s.request.Releases {
		entries += len(r.Lower)
	}
	return s.request.Finer > 0 && entries*width <= s.request.FineBits
}

// passable reports whether this width, with the noise that fits into it, need not be tried, because the next one is
// surely better and affordable. What is sure is left a margin for what the noise that is found in the end differs by.
func (s *sums) passable(width int, noise []uint64) bool {
	if width+1 > s.request.MaxEntryBits || !s.affordable(width+1) ||
		s.worst(noise, s.ideal) <= s.request.Finer {
		return false
	}
	next := s.filled(width+1, s.ideal)
	return next != nil && s.poison(width+1, next) <= passMargin*s.request.MaxPoison
}

// poison is by how many standard deviations of its error a report can move a sum that says the most an entry of this
// width can say, and not an honest report's lowest value.
func (s *sums) poison(width int, noise []uint64) float64 {
	worst := 0.0
	for _, n := range noise {
		most := float64(int(1)<<width-1) - float64(n)*bias.Float()
		worst = math.Max(worst, most/math.Sqrt(s.variance(n, 1)))
	}
	return worst
}

// filled is the most noise that leaves room for the levels in entries of this width; nil if there is none.
func (s *sums) filled(width int, factor float64) []uint64 {
	room := 1<<width - 1
	noise := make([]uint64, len(s.request.Releases))
	for i := range noise {
		if noise[i] = s.filledOne(i, room, factor); noise[i] == 0 {
			return nil
		}
	}
	return noise
}

// filling finds a point whose entries have this width, starting from noise for a guessed factor; nil if none was found.
func (s *sums) filling(width int, noise []uint64, guess float64) (*sumPoint, error) {
	room := 1<<width - 1
	var best *sumPoint
	for range sumRounds {
		p, err := s.at(noise, guess)
		if err != nil || p == nil {
			return best, err
		}
		guess = p.factor
		next, fits := make([]uint64, len(noise)), true
		for i := range noise {
			most, _ := s.levels(i, p.scales[i])
			excess := most + int(noise[i]) - room
			fits = fits && excess <= 0
			next[i] = uint64(max(1, int(noise[i])-excess)) // noise bits that are left are used, too
			if excess < 0 {
				next[i] = max(noise[i], s.filledOne(i, room, guess))
			}
		}
		if fits && (best == nil || s.worst(p.noise, p.factor) < s.worst(best.noise, best.factor)) {
			best = p
		}
		same := true
		for i := range noise {
			same = same && next[i] == noise[i]
		}
		if same {
			break
		}
		noise = next
	}
	return best, nil
}

// filledOne is the most noise of release i whose levels fit at this factor; 0 if none does.
func (s *sums) filledOne(i, room int, factor float64) uint64 {
	return uint64(sort.Search(room-1, func(n int) bool {
		most, _ := s.levels(i, s.scale(i, uint64(n+1), factor))
		return most+n+1 > room
	}))
}

package privacy

import (
	"errors"
	"fmt"
	"math"
	"math/bits"
	"slices"
	"sort"

	"github.com/riffle-dp/riffle/pkg/protocol"
)

// Limits of the search.
const (
	sumSteps  = 14    // towards the factor at which the budget is used
	sumEnough = 0.999 // of the budget
	sumRounds = 8     // towards a number of noise bits
	// firstLoss is what the search expects binomial noise to lose against Gaussian noise, as a factor of the variance.
	firstLoss = 1.006
	// leastNoise is the least that the search for noise of servers or of a single device begins with, in bits.
	leastNoise = 256
	// passMargin is the part of the poison that is allowed at which a width is known to be affordable before its noise is
	// known.
	passMargin = 0.9
)

// sumPoint is one choice of noise with the largest scales that the budget allows it.
type sumPoint struct {
	noise     []uint64
	scales    []float64
	factor    float64 // of all releases' mu
	guarantee Guarantee
}

// SolveSums finds encodings for devices that send numbers: noise as SumRequest asks, and for it the largest scales at
// which all releases together keep to the budget, so that nothing of it is left over. The guarantee is computed from
// the encodings themselves, as a device does it. An *Infeasible error names the constraint that cannot be met;
// ErrRequest and ErrTarget mean a field out of range.
func SolveSums(r SumRequest) (Solution, error) {
	s, err := newSums(r)
	if err != nil {
		return Solution{}, err
	}
	var p *sumPoint
	if r.Fill {
		p, err = s.fill()
	} else {
		p, err = s.fewest()
	}
	if err != nil {
		return Solution{}, err
	}
	return s.solution(p)
}

// fill takes the smallest entry width with which all releases meet the ratio, and all noise bits that fit into it. As
// long as that is affordable it takes wider entries, until all releases meet the finer ratio.
func (s *sums) fill() (*sumPoint, error) {
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

// affordable says whether entries of this width may be taken for the finer ratio, before the noise is known.
func (s *sums) affordable(width int) bool {
	entries := 0
	for _, r := range s.request.Releases {
		entries += len(r.Lower)
	}
	return s.request.Finer > 0 && entries*width <= s.request.FineBits
}

// passable says whether this width, with the noise that fits into it, need not be tried, because the next one is surely
// better and affordable. What is sure is left a margin for what the noise that is found in the end differs by.
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
		most := float64(int(1)<<width-1) - float64(n)*s.bias.Float()
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

// fewest takes the fewest noise bits, up to a tenth, with which all releases meet the ratio, or as many as the limits
// leave room for. If the first guess does, it is taken, although fewer may do: at ratios near 1 a server or curator adds
// up to some tenths more bits than it must, at the same error.
func (s *sums) fewest() (*sumPoint, error) {
	var best *sumPoint
	guess := s.ideal
	for lo, x := 0.0, s.needed(firstLoss); ; {
		if x > MaxNoise {
			break
		}
		p, err := s.at(s.all(x), guess)
		if err != nil {
			return nil, err
		}
		loss := math.Inf(1) // so little noise hides nothing
		if p != nil {
			guess, loss = p.factor, s.ideal*s.ideal/(p.factor*p.factor)
			if !s.fits(p) && best == nil {
				return s.shrink(p)
			}
		}
		switch {
		case p != nil && s.worst(p.noise, p.factor) <= s.request.Ratio:
			best = p
		default:
			lo = x
		}
		if best == nil {
			x = math.Ceil(math.Min(2*lo, math.Max(1.3*lo, s.needed(loss))))
			continue
		}
		hi := float64(best.noise[0])
		if x = math.Round(math.Sqrt(lo * hi)); hi <= 1.1*lo || x <= 1 {
			return best, nil
		}
	}
	return nil, &Infeasible{Constraint: "VarianceRatio",
		Reason: fmt.Sprintf("no noise was found that certifies the releases and keeps to a ratio of %g", s.request.Ratio),
		Remedy: "allow a larger ratio, or raise epsilon or delta"}
}

// needed is the noise that would meet the ratio if binomial noise lost that much against Gaussian noise.
func (s *sums) needed(loss float64) float64 {
	room := s.request.Ratio/loss - 1
	if !(room > 0) {
		return math.Inf(1)
	}
	return math.Max(leastNoise,
		math.Ceil(float64(s.request.Cohort)*roundingVariance/(s.added*s.unitVariance()*room)))
}

// all is the same noise for all releases.
func (s *sums) all(x float64) []uint64 {
	return slices.Repeat([]uint64{uint64(x)}, len(s.request.Releases))
}

// room is what the limits of the request leave to the scale of release i, as a factor of p's.
func (s *sums) room(p *sumPoint) (factors []float64) {
	factors = make([]float64, len(p.scales))
	total := 0
	for i, scale := range p.scales {
		most, sum := s.levels(i, scale)
		total += sum
		if s.request.Counted > 0 {
			most += int(p.noise[i])
		}
		factors[i] = math.Min(1, float64(int(1)<<s.request.MaxEntryBits-1)/float64(most))
		if c := s.request.MaxShift; c > 0 {
			factors[i] = math.Min(factors[i], c/(s.request.Releases[i].Diameter*scale))
		}
	}
	if m := s.request.MaxMessages; m > 0 && total > m {
		for i := range factors {
			factors[i] = math.Min(factors[i], float64(m)/float64(total))
		}
	}
	return factors
}

func (s *sums) fits(p *sumPoint) bool {
	for _, f := range s.room(p) {
		if f < 1 {
			return false
		}
	}
	return true
}

// shrink lowers the noise, and with it the scale that it allows, until the limits are kept.
func (s *sums) shrink(p *sumPoint) (*sumPoint, error) {
	for range 4 * sumRounds {
		noise := make([]uint64, len(p.noise))
		for i, f := range s.room(p) {
			noise[i] = p.noise[i]
			if f < 1 {
				noise[i] = uint64(float64(p.noise[i]) * f * f * 0.999)
			}
			if noise[i] == 0 {
				break
			}
		}
		next, err := s.at(noise, p.factor)
		if err != nil {
			return nil, err
		}
		if next == nil {
			break
		}
		if s.fits(next) {
			return next, nil
		}
		p = next
	}
	return nil, &Infeasible{Constraint: "MaxMessages",
		Reason: "no noise was found whose levels keep to the limits on messages, shift and entry bits",
		Remedy: "raise the limits, or epsilon"}
}

// worst is the largest ratio of a release at a factor.
func (s *sums) worst(noise []uint64, factor float64) float64 {
	worst := 0.0
	for i, n := range noise {
		worst = math.Max(worst, s.ratio(i, n, s.scale(i, n, factor)))
	}
	return worst
}

// at finds the largest factor at which releases with this noise keep to the budget together; nil if none does.
func (s *sums) at(noise []uint64, guess float64) (*sumPoint, error) {
	goal := s.mu
	if s.request.Joint != nil {
		goal *= 1 - jointMargin
	}
	unknown := make([]uint64, len(noise))
	for i, n := range noise {
		unknown[i] = s.bits(n)
	}
	var best *sumPoint
	lo, hi := 0.0, math.Inf(1)
	for factor, step := guess, 0; step < sumSteps && hi-lo > 2e-4*lo; step++ {
		p := &sumPoint{noise: noise, factor: factor}
		encodings, err := s.encodings(p)
		if err != nil {
			return nil, err
		}
		p.guarantee, err = s.certify(encodings, unknown)
		next := factor * goal / p.guarantee.Mu * (1 - 2e-5) // 0 where the guarantee is none
		switch {
		case err != nil && !errors.Is(err, ErrUncertified):
			return nil, err
		case err == nil && p.guarantee.Mu <= goal:
			best, lo = p, factor
			if p.guarantee.Mu >= sumEnough*goal {
				return best, nil
			}
		default:
			hi = factor
		}
		if !(next > lo && next < hi) {
			next = (lo + hi) / 2
		}
		factor = next
	}
	return best, nil
}

// encodings are those of a point, whose scales it fills in.
func (s *sums) encodings(p *sumPoint) ([]protocol.Encoding, error) {
	out := make([]protocol.Encoding, len(p.noise))
	p.scales = make([]float64, len(p.noise))
	for i, n := range p.noise {
		deviceBits := uint32(0)
		if s.request.Counted > 0 {
			deviceBits = uint32(n)
		}
		p.scales[i] = s.scale(i, n, p.factor)
		var err error
		if out[i], err = EncodingAt(s.request.Releases[i], p.scales[i], deviceBits, s.bias); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// solution turns a point into a Solution.
func (s *sums) solution(p *sumPoint) (Solution, error) {
	r := s.request
	out := Solution{Delta: r.Delta, TailDelta: s.budget.TailDelta, Guarantee: p.guarantee, Messages: 1,
		Unused: math.Max(0, 1-p.guarantee.Mu*p.guarantee.Mu/(s.mu*s.mu))}
	encodings, err := s.encodings(p)
	if err != nil {
		return Solution{}, err
	}
	unknown := make([]uint64, len(p.noise))
	most := 0
	for i, e := range encodings {
		unknown[i] = s.bits(p.noise[i])
		for j := range e.Coordinates {
			most = max(most, e.MessagesAt(j))
		}
	}
	if out.EntryBits = bits.Len(uint(most)); out.EntryBits > r.MaxEntryBits {
		return Solution{}, &Infeasible{Constraint: "MaxEntryBits",
			Reason: fmt.Sprintf("an entry needs %d bits, %d are allowed", out.EntryBits, r.MaxEntryBits),
			Remedy: "allow wider entries or a larger variance ratio"}
	}
	releases, _, err := s.releases(encodings, unknown)
	if err != nil {
		return Solution{}, err
	}
	for i, e := range encodings {
		v := r.Releases[i]
		variance, central := s.variance(p.noise[i], e.Scale), v.Diameter/s.budget.Mu[i]
		rel := SolvedRelease{
			Statistic: v.Name, Encoding: e, Shift: v.Diameter * e.Scale * (1 + scaleSlack),
			Deviation: math.Sqrt(variance), Central: central, VarianceRatio: variance / (central * central),
			IdealRatio: s.ratio(i, p.noise[i], e.Scale), Limit: LimitPrivacy, release: releases[i],
		}
		if r.Counted == 0 {
			rel.ServerNoise = p.noise[i]
		}
		if rel.Guarantee, err = s.certifiers[unknown[i]].Certify(releases[i].Blocks, releases[i].Shift); err != nil {
			return Solution{}, err
		}
		out.Releases = append(out.Releases, rel)
	}
	out.certify = func(encodings []protocol.Encoding, honest int) (Guarantee, error) {
		known := make([]uint64, len(encodings))
		for i, e := range encodings {
			switch {
			case r.Counted == 0:
				known[i] = p.noise[i]
			case r.Own:
				known[i] = uint64(e.NoiseBits)
			default:
				known[i] = uint64(honest) * uint64(e.NoiseBits)
			}
		}
		return s.certify(encodings, known)
	}
	if out.Epsilon = out.Guarantee.Epsilon(r.Delta); !(out.Epsilon <= r.Epsilon) {
		return Solution{}, fmt.Errorf("privacy: the solution's own certificate gives epsilon %v instead of %v: "+
			"this is a defect of the solver", out.Epsilon, r.Epsilon)
	}
	return out, nil
}

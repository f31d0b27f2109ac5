package calibrate

import (
	"fmt"
	"math"
	"slices"

	"github.com/riffle-dp/riffle/pkg/privacy"
)

// Limits of the search for the fewest noise bits.
const (
	// firstLoss is what the search expects binomial noise to lose against Gaussian noise, as a factor of the variance.
	firstLoss = 1.006
	// leastNoise is the least that the search for noise of servers or of a single device begins with, in bits.
	leastNoise = 256
	// shrinkSteps limits how often noise is lowered until the limits of a request are kept.
	shrinkSteps = 32
)

// fewestNoiseBits takes the fewest noise bits, up to a tenth, with which all releases meet the ratio, or as many as the
// limits leave room for. If the first guess does, it is taken, although fewer may do: at ratios near 1 a server or
// curator adds up to some tenths more bits than it must, at the same error.
func (s *sums) fewestNoiseBits() (*sumPoint, error) {
	var best *sumPoint
	guess := s.ideal
	for lo, x := 0.0, s.needed(firstLoss); ; {
		if x > privacy.MaxNoise {
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
		Reason: fmt.Sprintf("no noise was found that certifies the releases and keeps to a ratio of %g",
			s.request.Ratio),
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
	for range shrinkSteps {
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

package calibrate

import (
	"fmt"
	"math"

	"github.com/riffle-dp/riffle/pkg/protocol"
)

// cheapestAll finds the fewest messages of every release for a common variance ratio.
func (s *solver) cheapestAll(mu []float64, ratio float64) (options []option, total int, err error) {
	type key struct {
		shape    int
		mu, base float64
	}
	done := map[key]option{}
	options = make([]option, len(mu))
	for i := range mu {
		k := key{s.shapeOf[i], mu[i], s.budget.Mu[i]}
		o, ok := done[k]
		if !ok {
			if o, err = s.cheapest(i, mu[i], ratio); err != nil {
				return nil, 0, err
			}
			done[k] = o
		}
		options[i] = o
		total += o.messages
	}
	return options, total, nil
}

// cheapest finds the fewest messages of one release for a variance ratio. For a given ratio more noise bits need a
// larger scale. So the fewest noise bits that can reach the ratio are best, and if some number of bits can, so can
// every larger one.
func (s *solver) cheapest(i int, mu, ratio float64) (best option, err error) {
	least := math.Inf(1)
	for _, bias := range s.biases {
		o, reached, err := s.cheapestOfBias(i, mu, ratio, bias, best.messages)
		if err != nil {
			return best, err
		}
		least = math.Min(least, reached)
		if o.messages > 0 && (best.messages == 0 || o.messages < best.messages ||
			o.messages == best.messages && o.ratio < best.ratio) {
			best = o
		}
	}
	name := s.request.Releases[i].Name
	switch {
	case best.messages > 0:
		return best, nil
	case math.IsInf(least, 1):
		return best, &Infeasible{Constraint: "MinCohort",
			Reason: fmt.Sprintf("the noise of %d honest reports certifies no release of %q at mu %.4g",
				s.honest, name, mu),
			Remedy: "raise the minimum cohort or epsilon, or release fewer statistics"}
	default:
		return best, &Infeasible{Constraint: "VarianceRatio",
			Reason: fmt.Sprintf("the best found for %q is %.4f", name, math.Ceil(least*1e4)/1e4),
			Remedy: fmt.Sprintf("allow a ratio of %.4f, or count on more honest reports",
				math.Ceil(least*1.001*1e4)/1e4)}
	}
}

// eagerBits is the number of noise bits beyond which the search first asks whether any number will do.
const eagerBits = 64

// cheapestOfBias is cheapest for one bias. reached is the smallest ratio seen that was not enough. An option with
// messages 0 means that there is none, or none with fewer messages than known (0: nothing known).
func (s *solver) cheapestOfBias(i int, mu, ratio float64, bias protocol.Bias, known int) (
	best option, reached float64, err error) {
	sh := s.shapes[s.shapeOf[i]]
	reached = math.Inf(1)
	// needed is the scale that reaches the ratio.
	needed := func(bits uint32) float64 {
		return math.Sqrt(s.variance(bits, bias, 1)/ratio) * s.budget.Mu[i] / sh.diameter * (1 + 1e-12)
	}
	try := func(bits uint32) (o option, ok bool, err error) {
		n := noise{bits, bias}
		c, err := s.ceiling(s.shapeOf[i], n, mu)
		if err != nil || c.scale == 0 {
			return o, false, err
		}
		need := needed(bits)
		if need > c.scale {
			o = s.option(i, n, c.scale, c.limit)
			if c.limit != LimitShift {
				reached = math.Min(reached, o.ratio)
			}
			return o, c.limit == LimitShift, nil
		}
		if up := sh.stepUp(need); up < c.scale {
			return s.option(i, n, up, LimitMessages), true, nil
		}
		return s.option(i, n, c.scale, c.limit), true, nil
	}
	if s.request.NoiseBits > 0 {
		o, ok, err := try(s.request.NoiseBits)
		if err != nil || !ok {
			return option{}, reached, err
		}
		return o, reached, nil
	}
	// No certificate allows more than the Gaussian of the same variance, so fewer bits than these cannot do. The 1 % is
	// for the binomial's deviation from the Gaussian.
	p := bias.Float()
	room := ratio*float64(s.honest)/float64(s.request.Cohort)*(mu/s.budget.Mu[i])*(mu/s.budget.Mu[i])*1.01 - 1
	first := 1.0
	if s.request.MaxShift == 0 {
		first = math.Min(MaxNoiseBits, math.Max(1, math.Floor(1/(4*p*(1-p)*math.Max(room, 1e-9)))))
	}
	if first > eagerBits {
		if _, ok, err := try(MaxNoiseBits); err != nil || !ok {
			return option{}, reached, err
		}
	}
	lo, hi := uint32(first)-1, uint32(first)
	for {
		// Any number of bits that is left to try costs at least this, unless a cap on the scale exempts the release
		// from its ratio.
		least := needed(lo + 1)
		if s.request.MaxShift > 0 {
			least = math.Min(least, s.request.MaxShift/sh.diameter*(1-8*stepMargin))
		}
		if known > 0 && sh.messages(least, lo+1) >= known {
			return option{}, reached, nil
		}
		o, ok, err := try(hi)
		if err != nil {
			return option{}, reached, err
		}
		if ok {
			best = o
			break
		}
		if hi == MaxNoiseBits {
			return option{}, reached, nil
		}
		lo, hi = hi, min(2*hi, MaxNoiseBits)
	}
	for hi-lo > 1 {
		mid := lo + (hi-lo)/2
		o, ok, err := try(mid)
		if err != nil {
			return option{}, reached, err
		}
		if ok {
			best, hi = o, mid
		} else {
			lo = mid
		}
	}
	return best, reached, nil
}

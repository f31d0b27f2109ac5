package calibrate

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
)

// Bounds of the search for the least variance ratio under a number of messages.
const (
	leastRatio     = 1.0005
	largestRatio   = 1 << 30
	ratioTolerance = 5e-4
)

// leastVariance finds the smallest common variance ratio that keeps to a number of messages (0: no limit; the noise
// bits are then fixed and the scales as large as they may be), and spends what messages are left where the ratio is
// worst.
func (s *solver) leastVariance(mu []float64, most int) ([]option, error) {
	if most == 0 {
		return s.widest(mu)
	}
	best, total, err := s.cheapestAll(mu, largestRatio)
	if err != nil {
		return nil, err
	}
	if total > most {
		return nil, &Infeasible{Constraint: "MaxMessages", Messages: total,
			Reason: fmt.Sprintf("at least %d messages per device are needed whatever the error, %d are allowed",
				total, most),
			Remedy: fmt.Sprintf("allow %d messages or more", total)}
	}
	lo, hi := math.Log(leastRatio), math.Log(largestRatio)
	if l := math.Log(summarise(best).largest); l < hi && l > lo { // the steps of one level are small there already
		hi = l
	}
	for hi-lo > ratioTolerance {
		mid := lo + (hi-lo)/2
		options, total, err := s.cheapestAll(mu, math.Exp(mid))
		var infeasible *Infeasible
		switch {
		case err == nil && total <= most:
			best, hi = options, mid
		case err == nil || errors.As(err, &infeasible):
			lo = mid
		default:
			return nil, err
		}
	}
	left := most - summarise(best).messages
	order := make([]int, len(best))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(i, j int) int { return cmp.Compare(best[j].ratio, best[i].ratio) })
	for _, i := range order {
		if left < 1 {
			break
		}
		o, err := s.bestWithin(i, mu[i], best[i].messages+left)
		if err != nil {
			return nil, err
		}
		if o.messages > 0 && o.ratio < best[i].ratio {
			left -= o.messages - best[i].messages
			best[i] = o
		}
	}
	return s.finish(mu, best)
}

// widest takes the largest scale with the fixed noise bits.
func (s *solver) widest(mu []float64) ([]option, error) {
	options := make([]option, len(mu))
	for i := range mu {
		for _, bias := range s.biases {
			n := noise{s.request.NoiseBits, bias}
			c, err := s.ceiling(s.shapeOf[i], n, mu[i])
			if err != nil {
				return nil, err
			}
			if o := s.option(i, n, c.scale, c.limit); c.scale > 0 &&
				(options[i].messages == 0 || o.ratio < options[i].ratio) {
				options[i] = o
			}
		}
		if options[i].messages == 0 {
			return nil, &Infeasible{Constraint: "NoiseBits",
				Reason: fmt.Sprintf("%d noise bits of %d honest reports certify no release of %q at mu %.4g",
					s.request.NoiseBits, s.honest, s.request.Releases[i].Name, mu[i]),
				Remedy: "allow more noise bits, raise the minimum cohort or epsilon"}
		}
	}
	return s.certifyAll(options)
}

// bestWithin finds the least variance of one release within a number of messages. More noise bits leave fewer levels to
// the messages and allow more to the certificate: the best is where the two meet.
func (s *solver) bestWithin(i int, mu float64, messages int) (best option, err error) {
	sh := s.shapes[s.shapeOf[i]]
	for _, bias := range s.biases {
		try := func(bits uint32) (o option, full bool, err error) {
			c, err := s.ceiling(s.shapeOf[i], noise{bits, bias}, mu)
			if err != nil {
				return o, false, err
			}
			affordable := sh.within(messages, bits)
			if affordable == 0 {
				return o, true, nil
			}
			if c.scale == 0 {
				return o, false, nil
			}
			if affordable < c.scale {
				return s.option(i, noise{bits, bias}, affordable, LimitMessages), true, nil
			}
			return s.option(i, noise{bits, bias}, c.scale, c.limit), c.limit == LimitShift, nil
		}
		consider := func(o option) {
			if o.messages > 0 && o.messages <= messages && (best.messages == 0 || o.ratio < best.ratio) {
				best = o
			}
		}
		lo, hi := uint32(0), uint32(min(MaxNoiseBits, max(1, messages/sh.coordinates)))
		if s.request.NoiseBits > 0 {
			lo, hi = s.request.NoiseBits-1, s.request.NoiseBits
		}
		for hi-lo > 1 { // the fewest bits with which the certificate is not the limit
			mid := lo + (hi-lo)/2
			o, full, err := try(mid)
			if err != nil {
				return best, err
			}
			consider(o)
			if full {
				hi = mid
			} else {
				lo = mid
			}
		}
		o, _, err := try(hi)
		if err != nil {
			return best, err
		}
		consider(o)
	}
	return best, nil
}

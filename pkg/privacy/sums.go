package privacy

import (
	"fmt"
	"math"
	"slices"

	"github.com/riffle-dp/riffle/pkg/protocol"
)

// SumRequest describes the releases that will use one record where a device sends numbers and not bit messages: its
// cost is the width of an entry, the same for all entries, so that levels and noise bits are nearly free.
type SumRequest struct {
	Epsilon, Delta float64 // the guarantee for one record over all its releases
	Cohort         int     // reports expected; errors are predicted for it
	// Releases, Shares and TailShare are those of Request.
	Releases  []Vector
	Shares    []float64
	TailShare float64

	Bias protocol.Bias // of noise bits; 0: one half
	// Counted is the number of devices whose noise an observer does not know: the fewest reports less the most dishonest
	// ones. 0: devices add no noise, and the servers' protects.
	Counted int
	// Own says that each device's own noise is its whole protection: Counted is then 1.
	Own bool
	// Servers is, where Counted is 0, the number of servers that add noise, each of them all that the guarantee needs:
	// an observer who is one of them still faces the others'.
	Servers int

	// Ratio is the largest IdealRatio of a release; above 1. A release that MaxEntryBits or MaxMessages hold back may
	// miss it.
	Ratio float64
	// Fill makes as much of the entry width that Ratio needs as can be had: the most noise bits that fit, and with them
	// the least error. Otherwise the fewest noise bits are taken.
	Fill bool
	// Finer, with Fill, is a ratio below Ratio that is worth wider entries, but only while all entries of a report
	// together have at most FineBits bits, and a report that says the most an entry can say moves a sum by at most
	// MaxPoison standard deviations of its error. 0: Ratio is all that is asked for.
	Finer        float64
	FineBits     int
	MaxPoison    float64
	MaxEntryBits int // entries are integers below 2^MaxEntryBits; 1 to MaxSumEntryBits
	// MaxMessages limits the levels of all coordinates together, where each is a message; 0: no limit.
	MaxMessages int
	MaxShift    float64 // caps diameter times scale, in levels; 0: no cap
	ShiftOnly   bool    // as in Request
	// Joint bounds how far the releases can move together; nil: each is certified by itself.
	Joint Spread
}

// MaxSumEntryBits bounds SumRequest.MaxEntryBits.
const MaxSumEntryBits = 16

// sumSlack is the relative amount by which shifts and scales are raised for the certificate: a device does the same
// with what an announcement says (package plan), against the rounding of a product of a diameter and a scale.
const sumSlack = 1e-9

func (r SumRequest) validate() error {
	switch {
	case r.Cohort < 1:
		return fmt.Errorf("%w: Cohort %d, want at least 1", ErrRequest, r.Cohort)
	case r.Counted < 0 || r.Counted > r.Cohort:
		return fmt.Errorf("%w: Counted %d, want 0 to Cohort, %d", ErrRequest, r.Counted, r.Cohort)
	case r.Own && r.Counted != 1:
		return fmt.Errorf("%w: Counted %d where a device counts on its own noise, want 1", ErrRequest, r.Counted)
	case r.Counted == 0 && (r.Servers < 1 || r.Servers > 2):
		return fmt.Errorf("%w: no device's noise counts and %d servers add noise, want 1 or 2", ErrRequest, r.Servers)
	case !(r.Ratio > 1) || math.IsInf(r.Ratio, 1):
		return fmt.Errorf("%w: Ratio %v, want a finite number above 1", ErrRequest, r.Ratio)
	case !(r.Finer >= 0 && r.Finer <= r.Ratio) || r.FineBits < 0 || !(r.MaxPoison >= 0):
		return fmt.Errorf("%w: Finer %v, FineBits %d, MaxPoison %v: want a number from 0 to Ratio, %v, and numbers >= 0",
			ErrRequest, r.Finer, r.FineBits, r.MaxPoison, r.Ratio)
	case r.MaxEntryBits < 1 || r.MaxEntryBits > MaxSumEntryBits:
		return fmt.Errorf("%w: MaxEntryBits %d, want 1 to %d", ErrRequest, r.MaxEntryBits, MaxSumEntryBits)
	case r.MaxMessages < 0 || !(r.MaxShift >= 0):
		return fmt.Errorf("%w: MaxMessages %d, MaxShift %v: want numbers >= 0", ErrRequest, r.MaxMessages, r.MaxShift)
	}
	return nil
}

// sums solves one SumRequest. The noise of release i is noise[i] units: noise bits of each device, or bits of a server.
type sums struct {
	request SumRequest
	budget  Budget
	mu      float64 // of all releases together
	bias    protocol.Bias
	counted float64 // bits that an observer does not know, per unit of noise
	added   float64 // bits that are added to a coordinate, per unit of noise
	// ideal is the factor by which joint certification raises every release's mu, for Gaussian noise.
	ideal      float64
	certifiers map[uint64]*Certifier // by bits
}

func newSums(r SumRequest) (*sums, error) {
	if err := r.validate(); err != nil {
		return nil, err
	}
	budget, err := Divide(r.Epsilon, r.Delta, r.TailShare, r.Releases, r.Shares)
	if err != nil {
		return nil, err
	}
	s := &sums{request: r, budget: budget, bias: r.Bias, ideal: 1, certifiers: map[uint64]*Certifier{},
		counted: float64(r.Counted), added: float64(r.Cohort)}
	if r.Counted == 0 {
		s.counted, s.added = 1, float64(r.Servers)
	}
	if s.bias == 0 {
		s.bias = protocol.BiasHalf
	}
	var squares float64
	weights := make([]float64, len(r.Releases))
	for i, m := range budget.Mu {
		squares += m * m
		weights[i] = m * m / (r.Releases[i].Diameter * r.Releases[i].Diameter)
	}
	s.mu = math.Sqrt(squares)
	if r.Joint != nil {
		if together := r.Joint(weights); together > 0 && together < squares {
			s.ideal = math.Sqrt(squares / together)
		}
	}
	return s, nil
}

// bits is what an observer does not know of a coordinate's noise.
func (s *sums) bits(noise uint64) uint64 { return uint64(max(1, s.request.Counted)) * noise }

// unitVariance is that of one noise bit.
func (s *sums) unitVariance() float64 {
	p := s.bias.Float()
	return p * (1 - p)
}

// scale is that of release i at a factor of its budget, if its noise were Gaussian.
func (s *sums) scale(i int, noise uint64, factor float64) float64 {
	return s.budget.Mu[i] * factor * math.Sqrt(s.counted*float64(noise)*s.unitVariance()) / s.request.Releases[i].Diameter
}

// levels is the largest number of levels of a coordinate of release i, and the sum over all of them.
func (s *sums) levels(i int, scale float64) (most, total int) {
	v := s.request.Releases[i]
	for j := range v.Lower {
		l := int(math.Max(1, math.Ceil((v.Upper[j]-v.Lower[j])*scale*(1+stepMargin))))
		most, total = max(most, l), total+l
	}
	return most, total
}

// variance of a coordinate of release i, in squared data units.
func (s *sums) variance(noise uint64, scale float64) float64 {
	return (float64(s.request.Cohort)*roundingVariance + s.added*float64(noise)*s.unitVariance()) / (scale * scale)
}

// ratio is the IdealRatio of release i.
func (s *sums) ratio(i int, noise uint64, scale float64) float64 {
	deviation := s.request.Releases[i].Diameter / (s.budget.Mu[i] * s.ideal)
	return s.variance(noise, scale) / (deviation * deviation * s.sources())
}

// sources is the number of ideal Gaussian noises that IdealRatio compares with: one curator's, each server's, or each
// device's where a device has no other protection.
func (s *sums) sources() float64 {
	switch {
	case s.request.Own:
		return float64(s.request.Cohort)
	case s.request.Counted == 0:
		return float64(s.request.Servers)
	}
	return 1
}

// releases describes encodings for the certificate, as a device will.
func (s *sums) releases(encodings []protocol.Encoding, bits []uint64) (rs []Release, scales []float64, err error) {
	rs, scales = make([]Release, len(encodings)), make([]float64, len(encodings))
	for i, e := range encodings {
		r, err := ReleaseOf(s.request.Releases[i], e, 1, s.budget.TailDelta)
		if err != nil {
			return nil, nil, err
		}
		r.Noise, r.Shift = bits[i], r.Shift*(1+sumSlack)
		if s.request.ShiftOnly {
			r.Blocks = shiftOnly(len(e.Coordinates))
		}
		rs[i], scales[i] = r, e.Scale*(1+2*sumSlack)
	}
	return rs, scales, nil
}

// certify is what releases with these encodings reveal together if an observer does not know so many noise bits on each
// coordinate.
func (s *sums) certify(encodings []protocol.Encoding, bits []uint64) (Guarantee, error) {
	releases, scales, err := s.releases(encodings, bits)
	if err != nil {
		return NoGuarantee(), err
	}
	certifiers := make([]*Certifier, len(releases))
	for i, r := range releases {
		if certifiers[i] = s.certifiers[bits[i]]; certifiers[i] != nil {
			continue
		}
		if certifiers[i], err = NewCertifier(bits[i], s.bias.Float(), s.budget.TailDelta); err != nil {
			return NoGuarantee(), fmt.Errorf("release %q: %w", r.Name, err)
		}
		s.certifiers[bits[i]] = certifiers[i]
	}
	if s.request.Joint != nil {
		return certifyJoint(certifiers, releases, scales, s.request.Joint)
	}
	all := make([]Guarantee, len(releases))
	for i, r := range releases {
		if i > 0 && bits[i] == bits[i-1] && r.Shift == releases[i-1].Shift &&
			slices.Equal(r.Blocks, releases[i-1].Blocks) {
			all[i] = all[i-1]
			continue
		}
		if all[i], err = certifiers[i].Certify(r.Blocks, r.Shift); err != nil {
			return NoGuarantee(), err
		}
	}
	return Compose(all...), nil
}

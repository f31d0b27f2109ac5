package calibrate

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/riffle-dp/riffle/pkg/privacy"
	"github.com/riffle-dp/riffle/pkg/protocol"
)

// sums solves one SumRequest. The noise of release i is noise[i] units: noise bits of each device, or bits of a server.
type sums struct {
	request SumRequest
	budget  privacy.Budget
	mu      float64 // of all releases together
	counted float64 // bits that an observer does not know, per unit of noise
	added   float64 // bits that are added to a coordinate, per unit of noise
	// ideal is the factor by which joint certification raises every release's mu, for Gaussian noise.
	ideal      float64
	certifiers map[uint64]*privacy.Certifier // by bits
}

func newSums(r SumRequest) (*sums, error) {
	if err := r.validate(); err != nil {
		return nil, err
	}
	budget, err := privacy.Divide(r.Epsilon, r.Delta, r.Releases, r.Shares)
	if err != nil {
		return nil, err
	}
	s := &sums{request: r, budget: budget, ideal: 1, certifiers: map[uint64]*privacy.Certifier{},
		counted: float64(r.Counted), added: float64(r.Cohort)}
	if r.Counted == 0 {
		s.counted, s.added = 1, float64(r.Servers)
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
	p := bias.Float()
	return p * (1 - p)
}

// scale is that of release i at a factor of its budget, if its noise were Gaussian.
func (s *sums) scale(i int, noise uint64, factor float64) float64 {
	return s.budget.Mu[i] * factor * math.Sqrt(s.counted*float64(
		noise)*s.unitVariance()) / s.request.Releases[i].Diameter
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
func (s *sums) releases(encodings []protocol.Encoding, bits []uint64) (rs []privacy.Release, scales []float64,
	err error) {
	rs, scales = make([]privacy.Release, len(encodings)), make([]float64, len(encodings))
	for i, e := range encodings {
		r, err := privacy.ReleaseOf(s.request.Releases[i], e, 1, s.budget.TailDelta)
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
func (s *sums) certify(encodings []protocol.Encoding, bits []uint64) (privacy.Guarantee, error) {
	releases, scales, err := s.releases(encodings, bits)
	if err != nil {
		return privacy.NoGuarantee(), err
	}
	certifiers := make([]*privacy.Certifier, len(releases))
	for i, r := range releases {
		if certifiers[i] = s.certifiers[bits[i]]; certifiers[i] != nil {
			continue
		}
		if certifiers[i], err = privacy.NewCertifier(bits[i], bias.Float(), s.budget.TailDelta); err != nil {
			return privacy.NoGuarantee(), fmt.Errorf("release %q: %w", r.Name, err)
		}
		s.certifiers[bits[i]] = certifiers[i]
	}
	if s.request.Joint != nil {
		return privacy.CertifyJointBy(certifiers, releases, scales, s.request.Joint)
	}
	all := make([]privacy.Guarantee, len(releases))
	for i, r := range releases {
		if i > 0 && bits[i] == bits[i-1] && r.Shift == releases[i-1].Shift &&
			slices.Equal(r.Blocks, releases[i-1].Blocks) {
			all[i] = all[i-1]
			continue
		}
		if all[i], err = certifiers[i].Certify(r.Blocks, r.Shift); err != nil {
			return privacy.NoGuarantee(), err
		}
	}
	return privacy.Compose(all...), nil
}

// Limits of the search for the factor at which the budget is used.
const (
	sumSteps  = 14
	sumEnough = 0.999 // of the budget
)

// bias is that of all noise bits.
const bias = protocol.BiasHalf

// sumPoint is one choice of noise with the largest scales that the budget allows it.
type sumPoint struct {
	noise     []uint64
	scales    []float64
	factor    float64 // of all releases' mu
	guarantee privacy.Guarantee
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
		case err != nil && !errors.Is(err, privacy.ErrUncertified):
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
		if out[i], err = privacy.EncodingAt(s.request.Releases[i], p.scales[i], deviceBits, bias); err != nil {
			return nil, err
		}
	}
	return out, nil
}

package calibrate

import (
	"fmt"
	"math"
	"math/bits"

	"github.com/riffle-dp/riffle/pkg/privacy"
	"github.com/riffle-dp/riffle/pkg/protocol"
)

// Sums finds encodings for devices that send numbers: noise as SumRequest asks, and for it the largest scales at
// which all releases together keep to the budget, so that nothing of it is left over. The guarantee is computed from
// the encodings themselves, as a device does it. An *Infeasible error names the constraint that cannot be met;
// privacy.ErrRequest and privacy.ErrTarget mean a field out of range.
func Sums(r SumRequest) (Solution, error) {
	s, err := newSums(r)
	if err != nil {
		return Solution{}, err
	}
	var p *sumPoint
	if r.Fill {
		p, err = s.fullestEntries()
	} else {
		p, err = s.fewestNoiseBits()
	}
	if err != nil {
		return Solution{}, err
	}
	return s.solution(p)
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
			Statistic: v.Name, Encoding: e, Shift: v.Shift(e.Scale),
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
	out.certify = func(encodings []protocol.Encoding, honest int) (privacy.Guarantee, error) {
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
	if out.Epsilon = out.Guarantee.Epsilon(r.Delta); !(out.Epsilon <= r.Epsilon*(1-privacy.Agreement)) {
		return Solution{}, fmt.Errorf("privacy: the solution's own certificate gives epsilon %v instead of %v: "+
			"this is a defect of the solver", out.Epsilon, r.Epsilon)
	}
	return out, nil
}

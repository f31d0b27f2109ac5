package privacy

import (
	"fmt"
	"math"
)

// A Spread bounds how far the vectors of several releases about one record can move together: for nonnegative weights,
// one per release, it returns at least the largest sum over releases of weight * squared l2 distance, over all pairs of
// records, in squared data units. Releases of one record share it: the records that are farthest apart in one statistic
// may be close in another, and then the sum is smaller than the sum of the largest terms.
type Spread func(weights []float64) float64

// CertifyJoint bounds what releases made at the same time about one record reveal together. Release r's Shift must be
// at least its own largest distance times scales[r] (levels per data unit), as for Certify. The result is never worse
// than Compose of the separate certificates.
//
// Proof sketch. For any lambda >= 0, the squares of one release satisfy sum U(t_c)^2 <= lambda * sum t_c^2 + I(lambda),
// where I(lambda) = sum over c of max over 0 < t <= Levels_c of U(t)^2 - lambda t^2 depends on no record. The sum over
// the releases for one pair of records is therefore at most sum I_r(lambda_r) + sum lambda_r scale_r^2 distance_r^2,
// and the second sum is at most spread(lambda_r scale_r^2). Every choice of the lambdas is valid; a few are tried. The
// coins of the releases are independent, so the squares of all coordinates add. Quantisation moves a release by up to e
// = sqrt(D) quanta more: (s D + e)^2 <= s^2 D^2 + 2 e Shift + e^2.
func CertifyJoint(releases []Release, scales []float64, spread Spread) (Guarantee, error) {
	if len(releases) == 0 || len(scales) != len(releases) || spread == nil {
		return NoGuarantee(), fmt.Errorf("%w: %d releases with %d scales, want one scale each and a Spread",
			ErrRelease, len(releases), len(scales))
	}
	certifiers := make([]*Certifier, len(releases))
	for i, r := range releases {
		if !(scales[i] > 0) || math.IsInf(scales[i], 1) {
			return NoGuarantee(), fmt.Errorf("release %q: %w: scale %v, want a finite number > 0",
				r.Name, ErrRelease, scales[i])
		}
		var err error
		if certifiers[i], err = NewCertifier(r.Noise, r.Bias, r.TailDelta); err != nil {
			return NoGuarantee(), fmt.Errorf("release %q: %w", r.Name, err)
		}
	}
	return CertifyJointBy(certifiers, releases, scales, spread)
}

// CertifyJointBy is CertifyJoint with certifiers that were made for the noise of each release, which a search keeps.
func CertifyJointBy(certifiers []*Certifier, releases []Release, scales []float64, spread Spread) (Guarantee, error) {
	separate := make([]Guarantee, len(releases))
	parts := make([]*jointPart, len(releases))
	weights := make([]float64, len(releases))
	for i, r := range releases {
		var err error
		if separate[i], err = certifiers[i].Certify(r.Blocks, r.Shift); err != nil {
			return NoGuarantee(), fmt.Errorf("release %q: %w", r.Name, err)
		}
		parts[i] = newJointPart(certifiers[i], r)
	}
	g := Compose(separate...)
	total := func() float64 {
		sum := 0.0
		for i, p := range parts {
			sum += p.intercept
			weights[i] = p.lambda * scales[i] * scales[i]
		}
		return sum + spread(weights)
	}
	best := total()
	// Lower points of tangency suit releases that the worst pair moves by less than their own largest distance.
	for _, p := range parts {
		for _, fraction := range []float64{0.6, 0.25} {
			lambda, intercept := p.lambda, p.intercept
			p.tangent(fraction)
			if t := total(); t < best {
				best = t
			} else {
				p.lambda, p.intercept = lambda, intercept
			}
		}
	}
	if mu := math.Sqrt(best) * (1 + safety); mu < g.Mu { // false for NaN
		g.Mu = mu
	}
	return g, nil
}

// jointPart is an affine bound of one release's squares as a function of its squared l2 shift.
type jointPart struct {
	envelope          *envelope
	release           Release
	lambda, intercept float64
}

func newJointPart(c *Certifier, r Release) *jointPart {
	p := &jointPart{envelope: newEnvelope(c.scores, r.Blocks, r.Shift), release: r}
	p.envelope.minimise()
	p.tangent(1)
	return p
}

// tangent sets the bound to touch near the given fraction of the largest squared shift.
func (p *jointPart) tangent(fraction float64) {
	full := quantised(p.release.Blocks, p.release.Shift)
	extra := full - p.release.Shift
	t, _ := moves(p.release.Blocks, full*math.Sqrt(fraction))
	free := 0.0 // the common shift of the coordinates that their levels do not hold back
	for _, x := range t {
		free = math.Max(free, x)
	}
	p.envelope.improve(free)
	slope, rise := 0.0, math.Inf(1)
	for _, l := range p.envelope.lines {
		if l.at(free) < slope*free+rise || math.IsInf(rise, 1) {
			slope, rise = l.slope, l.rise
		}
	}
	p.lambda = slope * (slope + rise/free)
	p.intercept = p.lambda * (2*extra*p.release.Shift + extra*extra)
	for _, b := range p.release.Blocks {
		limit := math.Min(full, math.Min(b.Levels+quantisation, math.Ceil(b.Levels)))
		worst := math.Inf(1)
		for _, l := range p.envelope.lines {
			worst = math.Min(worst, l.above(p.lambda, limit))
		}
		p.intercept += float64(b.Count) * worst
	}
}

// above returns the largest value of (slope t + rise)^2 - lambda t^2 over 0 < t <= limit.
func (l line) above(lambda, limit float64) float64 {
	t := limit
	if curvature := lambda - l.slope*l.slope; curvature > 0 {
		t = math.Min(limit, l.slope*l.rise/curvature)
	}
	v := l.at(t)
	return v*v - lambda*t*t
}

package calibrate

import (
	"fmt"
	"slices"

	"github.com/riffle-dp/riffle/pkg/privacy"
	"github.com/riffle-dp/riffle/pkg/protocol"
)

// SolvedRelease is one release of a Solution.
type SolvedRelease struct {
	Statistic string            `json:"statistic"` // name of the vector
	Encoding  protocol.Encoding `json:"encoding"`
	Shift     float64           `json:"shift"` // diameter times scale: what the guarantee is computed from
	Guarantee privacy.Guarantee `json:"guarantee"`
	Messages  int               `json:"messages"` // of one device
	// Deviation is the standard deviation of each released sum at worst, in data units; Central that of a trusted
	// curator's Gaussian mechanism which divides the same budget by the same shares; VarianceRatio the square of their
	// ratio.
	Deviation     float64 `json:"deviation"`
	Central       float64 `json:"central_deviation"`
	VarianceRatio float64 `json:"variance_ratio"`
	// Limit says what keeps the scale from being larger: the privacy budget, or something else that leaves budget to
	// spare.
	Limit Limit `json:"limit"`
	// What SolveSums adds. IdealRatio is the variance over that of Gaussian noise in the same place, certified in the
	// same way: one curator's, each server's where several add noise, or each device's where a device has no other
	// protection. ServerNoise is what each server must add, in noise bits per coordinate.
	IdealRatio  float64 `json:"ideal_ratio,omitempty"`
	ServerNoise uint64  `json:"server_noise,omitempty"`
	// Poison is by how many standard deviations of a coordinate's error one dishonest report can move that coordinate.
	Poison float64 `json:"poison,omitempty"`

	release privacy.Release
}

// Limit names what bounds the scale of a release.
type Limit string

const (
	// LimitPrivacy: a larger scale would exceed the release's part of the budget.
	LimitPrivacy Limit = "privacy"
	// LimitMessages: a larger scale would need more messages than are allowed or useful.
	LimitMessages Limit = "messages"
	// LimitShift: a larger scale would exceed MaxShift or privacy.MaxLevels. The privacy is better than asked.
	LimitShift Limit = "shift"
)

// Solution is what a Request costs and gives.
type Solution struct {
	Releases  []SolvedRelease   `json:"releases"`
	Guarantee privacy.Guarantee `json:"guarantee"`
	Epsilon   float64           `json:"epsilon"` // what the guarantee gives at Delta; at most what was asked
	Delta     float64           `json:"delta"`
	TailDelta float64           `json:"tail_delta"` // per coordinate
	Messages  int               `json:"messages"`   // of one device over all releases
	// Unused is the part of the budget mu^2 that no release can use, because each of them is limited by something else.
	Unused float64 `json:"unused_budget"`
	// EntryBits is the width of an entry of a report of numbers (SolveSums); 0 for bit messages.
	EntryBits int `json:"entry_bits,omitempty"`

	certify func(encodings []protocol.Encoding, honest int) (privacy.Guarantee, error)
}

// At is the guarantee of the solution when the given number of honest devices report: with the whole cohort present, it
// is better than promised. Fewer than one device is privacy.ErrRequest.
func (p Solution) At(honest int) (privacy.Guarantee, error) {
	if honest < 1 || len(p.Releases) == 0 {
		return privacy.NoGuarantee(), fmt.Errorf("%w: %d honest reports for %d releases", privacy.ErrRequest, honest,
			len(p.Releases))
	}
	if p.certify != nil {
		encodings := make([]protocol.Encoding, len(p.Releases))
		for i, rel := range p.Releases {
			encodings[i] = rel.Encoding
		}
		return p.certify(encodings, honest)
	}
	gs := make([]privacy.Guarantee, 0, len(p.Releases))
	for i, rel := range p.Releases {
		r := rel.release
		r.Noise = uint64(honest) * uint64(rel.Encoding.NoiseBits)
		if i > 0 && sameRelease(p.Releases[i-1], rel) {
			gs = append(gs, gs[i-1])
			continue
		}
		g, err := privacy.Certify(r)
		if err != nil {
			return privacy.NoGuarantee(), err
		}
		gs = append(gs, g)
	}
	return privacy.Compose(gs...), nil
}

func sameRelease(a, b SolvedRelease) bool {
	x, y := a.release, b.release
	return x.Shift == y.Shift && x.Bias == y.Bias && x.TailDelta == y.TailDelta &&
		a.Encoding.NoiseBits == b.Encoding.NoiseBits && slices.Equal(x.Blocks, y.Blocks)
}

package shares

import (
	"errors"
	"fmt"
	"math/bits"

	"github.com/cloudflare/circl/vdaf/prio3/arith/fp128"
	"github.com/cloudflare/circl/vdaf/prio3/sumvec"

	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/protocol"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// ErrSum says that two shares do not make sums that the reports can have: they are of different sets of reports, or the
// shuffler's was changed.
var ErrSum = errors.New("shares: the two shares make no sums that these reports can have")

// running is one server's share of the sums over the reports so far, without server noise.
type running struct {
	round   *Round
	total   sumvec.AggShare
	reports uint64
}

func (r *Round) newRunning() (running, error) {
	vdaf, err := r.vdaf(nil)
	if err != nil {
		return running{}, err
	}
	return running{round: r, total: vdaf.AggregateInit()}, nil
}

func (s *running) add(vdaf *sumvec.SumVec, out *sumvec.OutShare) {
	vdaf.AggregateUpdate(&s.total, out)
	s.reports++
}

// Reports is how many reports are in the sum.
func (s *running) Reports() uint64 { return s.reports }

// elements are the sums as field elements.
func (s *running) elements() (fp128.Vec, error) {
	b, err := s.total.MarshalBinary()
	if err != nil {
		return nil, fmt.Errorf("shares: %w", err)
	}
	return s.round.parse(b)
}

// merge moves the reports of another sum of the same round into this one.
func (s *running) merge(other *running) error {
	if s.round.digest != other.round.digest || s == other {
		return errors.New("shares: sums of two rounds are not added, nor one to itself")
	}
	mine, err := s.elements()
	if err != nil {
		return err
	}
	theirs, err := other.elements()
	if err != nil {
		return err
	}
	mine.AddAssign(theirs)
	b, err := mine.MarshalBinary()
	if err != nil {
		return fmt.Errorf("shares: %w", err)
	}
	if err := s.total.UnmarshalBinary(b); err != nil {
		return fmt.Errorf("shares: %w", err)
	}
	empty, err := s.round.newRunning()
	if err != nil {
		return err
	}
	s.reports += other.reports
	*other = empty
	return nil
}

// addNoise returns the sums with a server's noise: of each coordinate as many bits as the plan says of its release,
// drawn exactly.
func (s *running) addNoise(bitsOf func(plan.Release) uint64, src protocol.Source) (fp128.Vec, error) {
	v, err := s.elements()
	if err != nil {
		return nil, err
	}
	j := 0
	for i, e := range s.round.encodings {
		release := s.round.releases[i]
		for range e.Coordinates {
			var noise fp128.Fp
			if err := noise.SetUint64(protocol.Binomial(bitsOf(release), release.Bias, src)); err != nil {
				return nil, fmt.Errorf("shares: %w", err)
			}
			v[j].AddAssign(&noise)
			j++
		}
	}
	return v, nil
}

// parse reads field elements, one for each entry. The error wraps wire.ErrSize or wire.ErrShare.
func (r *Round) parse(b []byte) (fp128.Vec, error) {
	if len(b) != r.AggregateSize() {
		return nil, fmt.Errorf("%w: a share of the sums of %d bytes, must have %d",
			wire.ErrSize, len(b), r.AggregateSize())
	}
	v := make(fp128.Vec, r.entries)
	if err := v.UnmarshalBinary(b); err != nil {
		return nil, fmt.Errorf("%w: %w", wire.ErrShare, err)
	}
	return v, nil
}

// LeaderSum is the shuffler's share of the sums over the reports that were finished. It has no bytes: what leaves is
// NoisedShare.
type LeaderSum struct{ running }

// NewLeaderSum is the shuffler's share of the sums over no reports.
func (r *Round) NewLeaderSum() (*LeaderSum, error) {
	s, err := r.newRunning()
	return &LeaderSum{s}, err
}

// Merge moves the reports of another sum of the same round into this one: a caller that has to begin again with merging
// adds none twice.
func (s *LeaderSum) Merge(other *LeaderSum) error { return s.merge(&other.running) }

// Noise draws the shuffler's noise, as the plan announces it, and adds it: what the shuffler makes durable and sends,
// once. Noise that has left must not be drawn again; the caller keeps the result.
func (s *LeaderSum) Noise(src protocol.Source) (NoisedShare, error) {
	v, err := s.addNoise(func(r plan.Release) uint64 { return r.ShufflerNoise }, src)
	return NoisedShare{v}, err
}

// NoisedShare is the shuffler's share of the sums with the shuffler's noise. It is the only form of the share that has
// bytes.
type NoisedShare struct{ elements fp128.Vec }

// ParseNoisedShare reads what Bytes returns. Errors, for wire.Reason: wire.ErrSize, wire.ErrShare.
func (r *Round) ParseNoisedShare(b []byte) (NoisedShare, error) {
	v, err := r.parse(b)
	return NoisedShare{v}, err
}

// Bytes are AggregateSize bytes: one field element of 16 bytes, little endian, for each coordinate of each release.
func (s NoisedShare) Bytes() []byte {
	b, err := s.elements.MarshalBinary()
	if err != nil {
		return nil // a vector of fixed length always has bytes
	}
	return b
}

// HelperSum is the analyzer's share of the sums over the reports that were added.
type HelperSum struct{ running }

// NewHelperSum is the analyzer's share of the sums over no reports.
func (r *Round) NewHelperSum() (*HelperSum, error) {
	s, err := r.newRunning()
	return &HelperSum{s}, err
}

// Merge moves the reports of another sum of the same round into this one: a caller that has to begin again with merging
// adds none twice.
func (s *HelperSum) Merge(other *HelperSum) error { return s.merge(&other.running) }

// Counts draws the analyzer's noise, as the plan announces it, and joins the two shares: the sums of entries and noise
// bits of all parties, by release and coordinate. Sums without the noise never exist. The caller keeps the result and
// does not draw again once anyone has seen it.
//
// A count that the reports and servers cannot make together, each report at the largest value that it can prove, is
// ErrSum. A count above what devices send that follow the encoding is cut to that: an entry of a dishonest device may
// be larger, as the width of entries is that of the widest coordinate. Cutting is a function of noised counts and gives
// nothing away.
func (s *HelperSum) Counts(shuffler NoisedShare, src protocol.Source) ([][]uint64, error) {
	if len(shuffler.elements) != int(s.round.entries) {
		return nil, fmt.Errorf("%w: %d sums instead of %d", ErrSum, len(shuffler.elements), s.round.entries)
	}
	v, err := s.addNoise(func(r plan.Release) uint64 { return r.AnalyzerNoise }, src)
	if err != nil {
		return nil, err
	}
	v.AddAssign(shuffler.elements)
	counts := make([][]uint64, len(s.round.encodings))
	j := 0
	for i, e := range s.round.encodings {
		counts[i] = make([]uint64, len(e.Coordinates))
		for k := range e.Coordinates {
			server := s.round.releases[i].ServerNoise()
			count, err := v[j].GetUint64()
			if err != nil || count > most(s.reports, 1<<s.round.bits-1, server) {
				return nil, fmt.Errorf("%w: release %d, coordinate %d", ErrSum, i, k)
			}
			counts[i][k] = min(count, most(s.reports, uint64(e.MessagesAt(k)), server))
			j++
		}
	}
	return counts, nil
}

// most is reports*each + server, or the largest number where that is larger.
func most(reports, each, server uint64) uint64 {
	high, low := bits.Mul64(reports, each)
	sum, carry := bits.Add64(low, server, 0)
	if high != 0 || carry != 0 {
		return ^uint64(0)
	}
	return sum
}

package privacy

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/riffle-dp/riffle/pkg/protocol"
)

// TailShare is the share of delta that all tails of all coordinates and releases of a record may take together.
// A few per cent are a good balance: a larger share leaves less mu, a smaller one a worse certificate.
const TailShare = 0.02

// MaxLevels bounds the levels of a coordinate that is certified: up to here the arithmetic of encoding a value (2^-32 +
// 2^-51*levels per coordinate, see protocol's Encoding.ShiftSlack) stays within the 2^-31 levels that the certificate
// adds to every coordinate.
const MaxLevels = 1 << 18

// ErrRequest says that what is asked of the accountant is out of range. It is wrapped with the field and its value.
var ErrRequest = errors.New("privacy: invalid request")

// Vector is what the accountant must know of a vector that devices release.
type Vector struct {
	Name string
	// Lower and Upper bound each coordinate, in data units, for every record; the null record's zero vector lies
	// between.
	Lower, Upper []float64
	// Diameter bounds the l2 distance between the vectors of any two records, in data units.
	Diameter float64
}

// Blocks groups the coordinates by their range; Levels are in data units, as LargestScale takes them.
func (s Vector) Blocks() []Block {
	var blocks []Block
	index := map[float64]int{}
	for j := range s.Lower {
		r := s.Upper[j] - s.Lower[j]
		i, ok := index[r]
		if !ok {
			i = len(blocks)
			index[r] = i
			blocks = append(blocks, Block{Levels: r})
		}
		blocks[i].Count++
	}
	return blocks
}

func (s Vector) validate() error {
	if len(s.Lower) == 0 || len(s.Lower) != len(s.Upper) {
		return fmt.Errorf("%w: statistic %q has %d lower and %d upper bounds",
			ErrRequest, s.Name, len(s.Lower), len(s.Upper))
	}
	if !(s.Diameter > 0) || math.IsInf(s.Diameter, 1) {
		return fmt.Errorf("%w: statistic %q has diameter %v, want a finite number > 0", ErrRequest, s.Name, s.Diameter)
	}
	for j := range s.Lower {
		if !(s.Lower[j] < s.Upper[j]) || math.IsInf(s.Upper[j]-s.Lower[j], 1) {
			return fmt.Errorf("%w: coordinate %d of statistic %q ranges from %v to %v",
				ErrRequest, j, s.Name, s.Lower[j], s.Upper[j])
		}
	}
	return nil
}

// Even are equal shares of a budget for n releases.
func Even(n int) []float64 { return slices.Repeat([]float64{1}, n) }

// Budget is how a guarantee is divided over releases: it is all that the calibration of a single release needs.
type Budget struct {
	Mu        []float64 // of each release, rounded down
	TailDelta float64   // per coordinate
}

// Divide splits (epsilon, delta) over the releases: MuFor(epsilon, (1-TailShare) delta)^2 by shares, and TailShare of
// delta evenly over all coordinates. Composing releases that keep to their parts gives at most (epsilon, delta).
// Errors: ErrRequest, ErrTarget.
func Divide(epsilon, delta float64, releases []Vector, shares []float64) (Budget, error) {
	if len(releases) == 0 {
		return Budget{}, fmt.Errorf("%w: no Releases", ErrRequest)
	}
	if len(shares) != len(releases) {
		return Budget{}, fmt.Errorf("%w: %d Shares for %d Releases", ErrRequest, len(shares), len(releases))
	}
	var sum float64
	coordinates := 0
	for i, s := range releases {
		if err := s.validate(); err != nil {
			return Budget{}, err
		}
		if !(shares[i] > 0) || math.IsInf(shares[i], 1) {
			return Budget{}, fmt.Errorf("%w: Shares[%d] %v, want a finite number > 0", ErrRequest, i, shares[i])
		}
		sum += shares[i]
		coordinates += len(s.Lower)
	}
	if math.IsInf(sum, 1) {
		return Budget{}, fmt.Errorf("%w: the Shares sum to infinity", ErrRequest)
	}
	total, err := MuFor(epsilon, (1-TailShare)*delta)
	if err != nil {
		return Budget{}, err
	}
	b := Budget{TailDelta: TailShare * delta / float64(coordinates) * (1 - 1e-12)}
	for _, s := range shares {
		b.Mu = append(b.Mu, total*math.Sqrt(s/sum)*(1-muMargin))
	}
	return b, nil
}

// muMargin is held back of every mu, relatively: it covers the many roundings of the shares, and the tolerance of the
// certificate's own search, by which a device's mu for the same release may differ from the solver's (2e-7; see
// envelope.improve).
const muMargin = 1e-6

// scaleSlack is the relative amount by which products of a data unit and a scale are raised, against their rounding.
const scaleSlack = 1e-12

// Shift is the most by which one record moves the vector at a scale (levels per data unit), in levels.
func (s Vector) Shift(scale float64) float64 { return s.Diameter * scale * (1 + scaleSlack) }

// ReleaseOf describes, for the certificate, one release of a vector encoded as given when the noise of honest devices
// counts: the shift is the vector's diameter times the encoding's scale, and each coordinate moves at most its levels.
// It trusts no claim about the plan; the vector's bounds must be the caller's own. It refuses (ErrRequest) an encoding
// that does not fit the vector or has more than MaxLevels on a coordinate.
func ReleaseOf(s Vector, e protocol.Encoding, honest int, tailDelta float64) (Release, error) {
	if honest < 1 {
		return Release{}, fmt.Errorf("%w: %d honest reports", ErrRequest, honest)
	}
	if err := s.validate(); err != nil {
		return Release{}, err
	}
	if err := e.Validate(); err != nil {
		return Release{}, fmt.Errorf("%w: statistic %q: %w", ErrRequest, s.Name, err)
	}
	if len(e.Coordinates) != len(s.Lower) {
		return Release{}, fmt.Errorf("%w: statistic %q has %d coordinates, its encoding %d",
			ErrRequest, s.Name, len(s.Lower), len(e.Coordinates))
	}
	r := Release{Name: s.Name, Shift: s.Shift(e.Scale),
		Noise: uint64(honest) * uint64(e.NoiseBits), Bias: e.Bias.Float(), TailDelta: tailDelta}
	for j, c := range e.Coordinates {
		if c.Levels > MaxLevels {
			return Release{}, fmt.Errorf("%w: coordinate %d of statistic %q has %d levels, at most %d can be "+
				"certified", ErrRequest, j, s.Name, c.Levels, MaxLevels)
		}
		// A coordinate moves by at most its range with quantisation added, and by no more than its levels, to which the
		// encoding clamps it: a whole number, which the certificate does not raise.
		levels := math.Min(float64(c.Levels), (s.Upper[j]-s.Lower[j])*e.Scale*(1+scaleSlack)+quantisation)
		if n := len(r.Blocks); n > 0 && r.Blocks[n-1].Levels == levels {
			r.Blocks[n-1].Count++
			continue
		}
		r.Blocks = append(r.Blocks, Block{Count: 1, Levels: levels})
	}
	return r, nil
}

// EncodingAt is the encoding of a vector at a scale (levels per data unit) such that every coordinate's whole range
// fits.
func EncodingAt(s Vector, scale float64, noiseBits uint32, bias protocol.Bias) (protocol.Encoding, error) {
	e := protocol.Encoding{Scale: scale, NoiseBits: noiseBits, Bias: bias}
	for j := range s.Lower {
		c, err := protocol.NewCoordinate(s.Lower[j], s.Upper[j], scale)
		if err != nil {
			return e, fmt.Errorf("statistic %q, coordinate %d: %w", s.Name, j, err)
		}
		e.Coordinates = append(e.Coordinates, c)
	}
	return e, e.Validate()
}

package protocol

import (
	"errors"
	"fmt"
	"math"
)

var (
	// ErrEncoding is wrapped by every error about the parameters of an encoding.
	ErrEncoding = errors.New("invalid encoding")
	// ErrVector is wrapped by every error about a vector to encode.
	ErrVector = errors.New("invalid vector")
	// ErrCounts is wrapped by every error about bits or counts that the encoding cannot have produced.
	ErrCounts = errors.New("invalid counts")
)

// Limits on what Validate accepts. They are far outside any use; they keep every sum and variance finite.
const (
	MinScale  = 1e-100 // levels per data unit
	MaxScale  = 1e100  // levels per data unit
	MaxOffset = 1e100  // absolute value, data units
)

// Coordinate is the range of one coordinate: value x is sent as clamp((x-Offset)*Scale, 0, Levels).
type Coordinate struct {
	Offset float64 `json:"offset"` // lower end of the range, data units
	Levels uint32  `json:"levels"` // width of the range in levels, at least 1
}

// Encoding says how a vector becomes bits. It is public, and the same for every device of a release.
type Encoding struct {
	// Scale is the number of levels per data unit, from MinScale to MaxScale; it may be below one level per unit. It is
	// 1/s for the paper's step s, and the same on all coordinates, so that lengths of vectors keep their proportions.
	Scale float64 `json:"scale"`
	// Coordinates are the ranges, one per entry of the vector.
	Coordinates []Coordinate `json:"coordinates"`
	// NoiseBits is the paper's b, the noise bits per device and coordinate. 0 means no noise and no privacy.
	NoiseBits uint32 `json:"noise_bits"`
	// Bias is the probability of a noise bit being one.
	Bias Bias `json:"bias"`
}

// NewCoordinate returns the range that covers [lower, upper] (data units) at the given scale: ceil((upper-lower)*scale)
// levels, at least one. The error wraps ErrEncoding.
func NewCoordinate(lower, upper, scale float64) (Coordinate, error) {
	levels := math.Ceil((upper - lower) * scale)
	if !(lower <= upper) || !(levels <= math.MaxUint32) || !(scale >= MinScale && scale <= MaxScale) ||
		!(math.Abs(lower) <= MaxOffset) {
		return Coordinate{}, fmt.Errorf("%w: no range from %v to %v at scale %v: it needs lower <= upper, "+
			"a finite scale and fewer than 2^32 levels", ErrEncoding, lower, upper, scale)
	}
	return Coordinate{Offset: lower, Levels: max(1, uint32(levels))}, nil
}

// Validate reports the first reason why e is not a valid encoding; the error wraps ErrEncoding. All other functions
// that return an error call it themselves.
func (e Encoding) Validate() error {
	if !(e.Scale >= MinScale && e.Scale <= MaxScale) {
		return fmt.Errorf("%w: scale %v is not a number of levels per unit between %g and %g",
			ErrEncoding, e.Scale, MinScale, MaxScale)
	}
	if len(e.Coordinates) == 0 {
		return fmt.Errorf("%w: no coordinates", ErrEncoding)
	}
	if uint64(len(e.Coordinates)) > math.MaxUint32 {
		return fmt.Errorf("%w: %d coordinates; a bit message can name 2^32", ErrEncoding, len(e.Coordinates))
	}
	if e.NoiseBits > 0 && e.Bias == 0 {
		return fmt.Errorf("%w: %d noise bits of bias 0 are no noise; set a bias", ErrEncoding, e.NoiseBits)
	}
	var total uint64
	for j, c := range e.Coordinates {
		if !(math.Abs(c.Offset) <= MaxOffset) {
			return fmt.Errorf("%w: offset %v of coordinate %d is not a number within %g of zero",
				ErrEncoding, c.Offset, j, MaxOffset)
		}
		if c.Levels == 0 {
			return fmt.Errorf("%w: coordinate %d has no levels and would carry nothing; give it one or leave it out",
				ErrEncoding, j)
		}
		messages := uint64(c.Levels) + uint64(e.NoiseBits)
		if messages > math.MaxUint32 {
			return fmt.Errorf("%w: coordinate %d needs %d messages; fewer than 2^32 can be counted",
				ErrEncoding, j, messages)
		}
		total += messages // no overflow: fewer than 2^32 terms below 2^32
	}
	if total > math.MaxInt {
		return fmt.Errorf("%w: %d messages per device", ErrEncoding, total)
	}
	return nil
}

// Messages is the number of bit messages that every device sends, whatever its vector: the sum of Levels+NoiseBits.
func (e Encoding) Messages() int {
	total := len(e.Coordinates) * int(e.NoiseBits)
	for _, c := range e.Coordinates {
		total += int(c.Levels)
	}
	return total
}

// MessagesAt is the number of bit messages that every device sends for coordinate j: Levels+NoiseBits.
func (e Encoding) MessagesAt(j int) int { return int(e.Coordinates[j].Levels) + int(e.NoiseBits) }

// Variance returns, per coordinate, the largest variance that rounding and noise can give to the decoded sum of n
// reports to which servers added S noise bits: (n/4 + (n b + S) p(1-p)) / Scale^2, in squared data units. Rounding
// alone has at most 1/4 per report, reached at a fraction of one half; the noise term is exact. Errors of different
// coordinates are independent.
func (e Encoding) Variance(reports, serverBits uint64) []float64 {
	p := e.Bias.Float()
	one := (0.25 + float64(e.NoiseBits)*p*(1-p)) / (e.Scale * e.Scale)
	once := float64(serverBits) * p * (1 - p) / (e.Scale * e.Scale)
	variance := make([]float64, len(e.Coordinates))
	for j := range variance {
		variance[j] = float64(float64(reports)*one) + once
	}
	return variance
}

// ShiftSlack bounds, in levels, how much arithmetic can widen the l2 distance between the encoded vectors of two
// records beyond Scale times the distance of the vectors. An accountant adds it to the shift that it certifies; package
// privacy adds more, and its tests compare. Per coordinate, each record is moved by at most 2^-33 (the fraction is
// rounded to a multiple of 2^-32) and by 2^-52 of the number of levels (two floating-point operations); the two records
// may move in opposite directions.
func (e Encoding) ShiftSlack() float64 {
	var squares float64
	for _, c := range e.Coordinates {
		slack := 0x1p-32 + 0x1p-51*float64(c.Levels)
		squares += slack * slack
	}
	return math.Sqrt(squares) * (1 + 1e-6)
}

package protocol

import (
	"fmt"
	"math"
	"math/bits"
)

// Count adds the number of ones among bits to ones, which has one entry per coordinate. If a bit names a coordinate out
// of range, nothing is added and the error wraps ErrCounts. Zeros are not counted: a receiver that checks how many
// messages came for each coordinate must count those itself.
func Count(ones []uint64, bits []Bit) error {
	for _, bit := range bits {
		if uint64(bit.Coordinate) >= uint64(len(ones)) {
			return fmt.Errorf("%w: a bit for coordinate %d of a release with %d", ErrCounts, bit.Coordinate, len(ones))
		}
	}
	for _, bit := range bits {
		if bit.One {
			ones[bit.Coordinate]++
		}
	}
	return nil
}

// Decode turns counts of ones into an unbiased estimate of the sum of the reports' vectors (seed paper, Algorithm 6),
// in data units: (ones - (reports*NoiseBits + serverBits)*Bias/2^32)/Scale + reports*Offset per coordinate.
//
// reports is the number of reports that were counted, not the number that was planned, and serverBits the number of
// noise bits that servers added to each coordinate once (AddServerNoise; 0 if none did). Counts that these cannot have
// produced are refused with ErrCounts. The subtraction is done in integers; each sum is then rounded at most five
// times, in the same way on every machine.
func (e Encoding) Decode(ones []uint64, reports, serverBits uint64) ([]float64, error) {
	if err := e.checkCounts(ones, reports, serverBits); err != nil {
		return nil, err
	}
	// The expected noise of one coordinate in units of 2^-32. The bits fit, as reports*MessagesAt(j)+serverBits does.
	meanHigh, meanLow := bits.Mul64(reports*uint64(e.NoiseBits)+serverBits, uint64(e.Bias))
	sums := make([]float64, len(ones))
	for j, count := range ones {
		low, borrow := bits.Sub64(count<<32, meanLow, 0)
		high, borrow := bits.Sub64(count>>32, meanHigh, borrow)
		levels := float128(high, low)
		if borrow != 0 {
			low, borrow = bits.Sub64(0, low, 0)
			high, _ = bits.Sub64(0, high, borrow)
			levels = -float128(high, low)
		}
		// The conversions keep compilers from fusing multiplication and addition on some machines and not on others.
		sums[j] = float64(levels*0x1p-32/e.Scale) + float64(float64(reports)*e.Coordinates[j].Offset)
	}
	return sums, nil
}

// checkCounts refuses counts that the given number of reports, with the given number of servers' noise bits on each
// coordinate, cannot produce.
func (e Encoding) checkCounts(ones []uint64, reports, serverBits uint64) error {
	if err := e.Validate(); err != nil {
		return err
	}
	if serverBits > 0 && e.Bias == 0 {
		return fmt.Errorf("%w: %d noise bits of servers of bias 0 are no noise; set a bias", ErrEncoding, serverBits)
	}
	if len(ones) != len(e.Coordinates) {
		return fmt.Errorf("%w: %d counts for %d coordinates", ErrCounts, len(ones), len(e.Coordinates))
	}
	for j, count := range ones {
		high, most := bits.Mul64(reports, uint64(e.MessagesAt(j)))
		if high != 0 {
			return fmt.Errorf("%w: %d reports of %d bits on coordinate %d overflow a counter",
				ErrCounts, reports, e.MessagesAt(j), j)
		}
		most, carry := bits.Add64(most, serverBits, 0)
		if carry != 0 {
			return fmt.Errorf("%w: %d reports of %d bits and %d noise bits of servers on coordinate %d overflow a "+
				"counter",
				ErrCounts, reports, e.MessagesAt(j), serverBits, j)
		}
		if count > most {
			return fmt.Errorf("%w: %d ones on coordinate %d, but %d reports and %d noise bits of servers make only %d "+
				"bits for it", ErrCounts, count, j, reports, serverBits, most)
		}
	}
	return nil
}

// float128 returns high*2^64 + low rounded once, to the nearest even.
func float128(high, low uint64) float64 {
	if high == 0 {
		return float64(low)
	}
	shift := bits.LeadingZeros64(high)
	top := high<<shift | low>>(64-shift) // a shift by 64 gives 0
	if low<<shift != 0 {
		top |= 1 // below the last of 53 digits: it only tells a tie from more than a tie
	}
	return math.Ldexp(float64(top), 64-shift)
}

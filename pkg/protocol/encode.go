package protocol

import (
	"fmt"
	"math"
)

// Encode is the device's randomizer (seed paper, Algorithm 4). It returns the number of ones among the MessagesAt(j)
// bits of each coordinate j: the level of x[j], rounded at random to one of its two neighbours with the right mean,
// plus Bin(NoiseBits, Bias).
//
// x has one entry per coordinate, in data units. Entries outside a coordinate's range are clamped into it. A vector of
// another length, or with NaN or an infinity in it, is refused with ErrVector before any random word is drawn. dst is
// overwritten and returned if its capacity suffices.
//
// One call is one use of the record: encode once, keep the ones, and send the same bits again on a retry. Encoding the
// same record twice spends its budget twice.
func (e Encoding) Encode(dst []uint32, x []float64, src Source) ([]uint32, error) {
	dst, err := e.Round(dst, x, src)
	if err != nil {
		return nil, err
	}
	for j := range dst {
		dst[j] += uint32(Binomial(uint64(e.NoiseBits), e.Bias, src))
	}
	return dst, nil
}

// Round is Encode without the noise bits: the randomly rounded levels. It hides nothing. It is for simulations, which
// add the noise of a whole cohort at once (AddNoise).
func (e Encoding) Round(dst []uint32, x []float64, src Source) ([]uint32, error) {
	if err := e.checkVector(x); err != nil {
		return nil, err
	}
	if cap(dst) < len(x) {
		dst = make([]uint32, len(x))
	}
	dst = dst[:len(x)]
	for j, c := range e.Coordinates {
		level := e.fixed(c, x[j])
		dst[j] = uint32(level >> 32)
		// The coin is tossed even where the fraction is zero: the number of words drawn must not depend on the data.
		if coin := uint32(src.Uint64() >> 32); coin < uint32(level) {
			dst[j]++
		}
	}
	return dst, nil
}

// RoundTimes adds to ones the randomly rounded levels of so many equal vectors, each rounded by itself: the number that
// is rounded up is binomial, so that a simulation of many people with one record need not go through them. It hides
// nothing. ones has one entry per coordinate; the law is that of calling Round so many times, the random words are not.
func (e Encoding) RoundTimes(ones []uint64, x []float64, times uint32, src Source) error {
	if err := e.checkVector(x); err != nil {
		return err
	}
	if len(ones) != len(x) {
		return fmt.Errorf("%w: %d counts for %d coordinates", ErrCounts, len(ones), len(x))
	}
	for j, c := range e.Coordinates {
		level := e.fixed(c, x[j])
		ones[j] += uint64(times)*(level>>32) + Binomial(uint64(times), Bias(uint32(level)), src)
	}
	return nil
}

// fixed returns the level of value x as a fixed-point number with 32 binary digits after the point, at most
// c.Levels<<32. ShiftSlack bounds its error.
func (e Encoding) fixed(c Coordinate, x float64) uint64 {
	// The level may be infinite and is then clamped; no operand is NaN, and the scale is not zero.
	level := (x - c.Offset) * e.Scale
	level = min(max(level, 0), float64(c.Levels))
	return uint64(math.RoundToEven(level * 0x1p32)) // scaling by a power of two is exact; below 2^64 as Levels < 2^32
}

// AddNoise adds to each count the noise bits of the given number of reports, drawn exactly from Bin(reports*NoiseBits,
// Bias): the sum of Encode's noise bits over a cohort. It is for simulations in one process. ones holds sums of Round
// over those reports, one entry per coordinate; sums that this number of reports cannot have are refused with ErrCounts
// and left alone.
func (e Encoding) AddNoise(ones []uint64, reports uint64, src Source) error {
	if err := e.checkCounts(ones, reports, 0); err != nil {
		return err
	}
	for j, c := range e.Coordinates {
		if most := reports * uint64(c.Levels); ones[j] > most {
			return fmt.Errorf("%w: %d ones on coordinate %d before noise, but %d reports have %d levels; "+
				"was the noise added already?", ErrCounts, ones[j], j, reports, most)
		}
	}
	for j := range ones {
		ones[j] += Binomial(reports*uint64(e.NoiseBits), e.Bias, src)
	}
	return nil
}

// AddServerNoise adds serverBits noise bits to each count, drawn exactly from Bin(serverBits, Bias): what one server
// adds once per release, whatever the number of reports, so it takes no counts into account and refuses none. Noise
// that was drawn for a release must be drawn no second time: two noisy copies of one sum have less noise together. An
// encoding without a bias is refused with ErrEncoding, and a count that the noise could overflow with ErrCounts; the
// counts are then left alone. It takes serverBits/64 to serverBits/32 random words per coordinate.
func (e Encoding) AddServerNoise(ones []uint64, serverBits uint64, src Source) error {
	if serverBits > 0 && e.Bias == 0 {
		return fmt.Errorf("%w: %d noise bits of a server of bias 0 are no noise; set a bias", ErrEncoding, serverBits)
	}
	for j, count := range ones {
		if count > math.MaxUint64-serverBits {
			return fmt.Errorf("%w: %d noise bits on coordinate %d may overflow a counter", ErrCounts, serverBits, j)
		}
	}
	for j := range ones {
		ones[j] += Binomial(serverBits, e.Bias, src)
	}
	return nil
}

func (e Encoding) checkVector(x []float64) error {
	if err := e.Validate(); err != nil {
		return err
	}
	if len(x) != len(e.Coordinates) {
		return fmt.Errorf("%w: it has %d entries, the encoding has %d coordinates",
			ErrVector, len(x), len(e.Coordinates))
	}
	for j, value := range x {
		if math.IsNaN(value) || math.IsInf(value, 0) {
			// The value itself is not named: an error text may end up in a log.
			return fmt.Errorf("%w: entry %d is not a finite number", ErrVector, j)
		}
	}
	return nil
}

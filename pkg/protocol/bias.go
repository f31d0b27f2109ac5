package protocol

import (
	"fmt"
	"math"
)

// Bias is the probability that a noise bit is one, in units of 2^-32: exactly Bias/2^32. Everything that depends on the
// probability (sampling, debiasing, variance, privacy accounting) uses this dyadic number and no rounded neighbour of
// it.
type Bias uint32

const (
	// BiasHalf is probability 1/2: the most noise per bit, and one random word per 64 noise bits.
	BiasHalf Bias = 1 << 31
	// BiasQuarter is probability 1/4, the value of the seed paper.
	BiasQuarter Bias = 1 << 30
)

// biasOne is probability 1 in the units of Bias; it does not fit into one.
const biasOne = 1 << 32

// Float returns the probability, without rounding.
func (b Bias) Float() float64 { return float64(b) / biasOne }

// BiasFrom returns the Bias nearest to probability p, which must lie in [2^-32, 1-2^-32]; otherwise the error wraps
// ErrEncoding. Use the result's Float from there on.
func BiasFrom(p float64) (Bias, error) {
	scaled := math.RoundToEven(p * biasOne)
	if !(p > 0 && scaled >= 1 && scaled < biasOne) {
		return 0, fmt.Errorf("%w: bias %v is not a probability between 2^-32 and 1-2^-32", ErrEncoding, p)
	}
	return Bias(scaled), nil
}

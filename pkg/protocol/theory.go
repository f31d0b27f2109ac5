package protocol

import (
	"fmt"
	"math"
)

// Constants of the protocol's published analysis: Cheu, Joseph, Mao and Peng, "Shuffle Private Stochastic Convex Optimization",
// Theorem 3.2, which the seed paper builds on.
const (
	TheoryNoiseConstant = 24e4        // factor of the number of noise bits
	TheoryMinLevels     = 4           // least number of levels
	TheoryMaxEpsilon    = 15          // the theorem's range of epsilon
	TheoryBias          = BiasQuarter // probability of a noise bit
)

// Theory is the protocol with the parameters of its published analysis. They are proved and unusable: hundreds of millions of
// noise bits per device and coordinate at epsilon 1, and noise that does not fall with the cohort. Plans come from the
// accountant; this is for comparing with the paper.
type Theory struct {
	Reports   int     // n, devices of the release, at least 1
	Dimension int     // d of the theorem, at least 1
	Bound     float64 // L > 0: every coordinate lies in [-L, L], data units
	Epsilon   float64 // of the release, in (0, 15]
	Delta     float64 // of the release, in (0, 1/2)
}

// Levels is the paper's g = max(2 sqrt n, d, 4), rounded up.
func (t Theory) Levels() float64 {
	return math.Ceil(max(2*math.Sqrt(float64(t.Reports)), float64(t.Dimension), TheoryMinLevels))
}

// NoiseBits is the paper's b = 24*10^4 g^2 ln(4(d^2+1)/delta)^2 / (epsilon^2 n), rounded up.
func (t Theory) NoiseBits() float64 {
	d := float64(t.Dimension)
	log := math.Log(4 * (d*d + 1) / t.Delta)
	return math.Ceil(TheoryNoiseConstant * t.Levels() * t.Levels() * log * log / (t.Epsilon * t.Epsilon * float64(t.Reports)))
}

// Encoding is the paper's encoding of a vector of so many coordinates: g levels over the whole width 2L (see the package comment
// on the range of the encoding).
func (t Theory) Encoding(coordinates int) (Encoding, error) {
	switch {
	case t.Reports < 1 || t.Dimension < 1 || coordinates < 1:
		return Encoding{}, fmt.Errorf("%w: theory needs at least one report, dimension and coordinate; got %d, %d, %d",
			ErrEncoding, t.Reports, t.Dimension, coordinates)
	case !(t.Epsilon > 0 && t.Epsilon <= TheoryMaxEpsilon):
		return Encoding{}, fmt.Errorf("%w: theory covers epsilon in (0, %d], not %v", ErrEncoding, TheoryMaxEpsilon, t.Epsilon)
	case !(t.Delta > 0 && t.Delta < 0.5):
		return Encoding{}, fmt.Errorf("%w: theory covers delta in (0, 1/2), not %v", ErrEncoding, t.Delta)
	case !(t.Bound > 0 && t.Bound <= MaxOffset):
		return Encoding{}, fmt.Errorf("%w: bound %v is not a positive finite number", ErrEncoding, t.Bound)
	}
	levels, noise := t.Levels(), t.NoiseBits()
	if levels+noise > math.MaxUint32 {
		return Encoding{}, fmt.Errorf("%w: theory asks for %.4g noise bits per device and coordinate; fewer than 2^32 can be counted", ErrEncoding, noise)
	}
	e := Encoding{Scale: levels / (2 * t.Bound), Coordinates: make([]Coordinate, coordinates), NoiseBits: uint32(noise), Bias: TheoryBias}
	for j := range e.Coordinates {
		e.Coordinates[j] = Coordinate{Offset: -t.Bound, Levels: uint32(levels)}
	}
	return e, e.Validate()
}

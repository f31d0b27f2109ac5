package protocol

import "math"

// Constants of the protocol's published analysis: Cheu, Joseph, Mao and Peng, "Shuffle Private Stochastic Convex
// Optimization", Theorem 3.2, which the seed paper builds on.
const (
	theoryNoiseConstant = 24e4 // factor of the number of noise bits
	theoryMinLevels     = 4    // least number of levels
)

// Theory computes the parameters of the protocol's published analysis, whose noise bits have BiasQuarter. They are
// proved and cannot be used in practice: hundreds of millions of noise bits per device and coordinate at epsilon 1, and
// noise that does not fall as the cohort grows. Plans come from the accountant (package privacy); this type is for
// comparing with the paper. The fields are not checked.
type Theory struct {
	Reports   int     // n, devices of the release, at least 1
	Dimension int     // d of the theorem, at least 1
	Epsilon   float64 // of the release, in (0, 15]
	Delta     float64 // of the release, in (0, 1/2)
}

// Levels is the paper's g = max(2 sqrt n, d, 4), rounded up, over the whole width 2L of a coordinate in [-L, L].
func (t Theory) Levels() float64 {
	return math.Ceil(max(2*math.Sqrt(float64(t.Reports)), float64(t.Dimension), theoryMinLevels))
}

// NoiseBits is the paper's b = 24*10^4 g^2 ln(4(d^2+1)/delta)^2 / (epsilon^2 n), rounded up.
func (t Theory) NoiseBits() float64 {
	d := float64(t.Dimension)
	log := math.Log(4 * (d*d + 1) / t.Delta)
	return math.Ceil(theoryNoiseConstant * t.Levels() * t.Levels() * log * log /
		(t.Epsilon * t.Epsilon * float64(t.Reports)))
}

// Package protocol is P_VEC, the vector-summation protocol of Riffle's seed paper (arXiv 2602.00417v2, "Shuffle and Joint
// Differential Privacy for GLM Contextual Bandits", Algorithms 4 to 6; after Cheu, Joseph, Mao and Peng, "Shuffle Private
// Stochastic Convex Optimization").
//
// A device holds a vector x. On every coordinate it sends a fixed number of single-bit messages: the coordinate's level, rounded
// at random so that its mean is right, plus the noise bits that came up one (Encode). The shuffler permutes the bits of a whole
// cohort (Permute). The analyzer counts ones (Tally) and removes the bias (Decode). The result is the sum of the cohort's vectors
// plus noise of known variance and mean zero.
//
//	Algorithm 4 (device)    encode.go, bits.go
//	Algorithm 5 (shuffler)  permute.go
//	Algorithm 6 (analyzer)  tally.go, decode.go
//
// # Exactness
//
// No floating-point number decides a random bit. A value is brought to levels once in floating point, rounded to a multiple of
// 2^-32, and handled as an integer from there on: the rounding coin compares 32 random bits with the fraction, and every noise
// bit is one with probability Bias/2^32 exactly. How many random words a device draws depends on the encoding and on the random
// words themselves, never on the data.
//
// # The range of the encoding
//
// The paper encodes values of [-L, L]. If the step is L/g and a device sends g + b bits, a value near L overflows: its level goes
// up to 2g, and either the count of messages or a saturated device betrays the value. Here a coordinate has a range of its own,
// [Offset, Offset + Levels/Scale], values outside are clamped, and every device sends exactly Levels + NoiseBits messages for
// it. Theory's encoding puts the paper's g levels over the whole width 2L.
//
// # Order
//
// AppendBits writes the bits of one report in a fixed order, ones first. Nothing may leave the device in that order in the
// clear: each bit is encrypted to the analyzer on its own and the shuffler permutes them all.
//
// The package does no I/O and keeps no state. Every source of randomness is passed in.
package protocol

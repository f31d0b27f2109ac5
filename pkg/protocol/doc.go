// Package protocol is P_VEC, the vector-summation protocol of Riffle's seed paper (arXiv 2602.00417v2, "Shuffle and
// Joint Differential Privacy for GLM Contextual Bandits", Algorithms 4 to 6; after Cheu, Joseph, Mao and Peng, "Shuffle
// Private Stochastic Convex Optimization").
//
// A device holds a vector x. On every coordinate it sends a fixed number of single-bit messages: the coordinate's
// level, rounded at random so that its mean is right, plus the noise bits that came up one (Encode). The shuffler
// permutes the bits of a whole cohort (Permute). The analyzer counts the ones (Count) and removes the bias (Decode).
// The result is the sum of the cohort's vectors plus noise of known variance and mean zero.
//
//	Algorithm 4 (device)    encode.go, bits.go
//	Algorithm 5 (shuffler)  permute.go
//	Algorithm 6 (analyzer)  decode.go
//
// # What the package guarantees
//
// No floating-point number decides a random bit. A value is brought to levels once in floating point, rounded to a
// multiple of 2^-32, and handled as an integer from there on: the rounding coin compares 32 random bits with the
// fraction, and every noise bit is one with probability Bias/2^32 exactly. The number of random words that a device
// draws depends on the encoding and on the random words themselves, never on the data.
//
// Every device sends exactly Levels + NoiseBits messages for a coordinate, whatever its value. In the paper, values lie
// in [-L, L]; if the step is L/g and a device sends g + b bits, a value near L overflows: its level goes up to 2g, and
// either the number of messages or a saturated device betrays the value. Here each coordinate has a range of its own,
// [Offset, Offset + Levels/Scale], and values outside it are clamped. Theory spreads the paper's g levels over the
// whole width 2L.
//
// # What the package does not guarantee
//
// It does not say how private a release is; package privacy does, under conditions on who counts the noise. It does not
// make encodings safe: NoiseBits may be 0. It hides no bit in transit: AppendBits writes the bits of one report in a
// fixed order, ones first, and nothing may leave the device in that order in the clear. Each bit must be encrypted to
// the analyzer on its own, and the shuffler must permute all of them. A device that does not follow the protocol can
// move every sum by as many levels as it sends messages.
//
// The package does no I/O and keeps no state. Every source of randomness is passed in.
package protocol

package protocol

import "math/bits"

// Binomial draws exactly from Bin(n, p): no table, no approximation, no floating point.
//
// It compares n uniform numbers with p, binary digit by binary digit from the top, all n at once. At a digit 1 of p, a
// number whose own digit is 0 is below p and counts; at a digit 0 of p, a number whose digit is 1 is above it. All
// others go on to the next digit. The number of n undecided numbers that have digit 0 is Bin(n, 1/2), the count of ones
// among n random bits. Each digit decides half of them on average, so the expected cost is under 2n random bits, and n
// for p = 1/2.
func Binomial(n uint64, p Bias, src Source) uint64 {
	var below uint64
	for digits := uint32(p); digits != 0 && n != 0; digits <<= 1 {
		zeros := coins(n, src)
		if digits&(1<<31) != 0 {
			below += zeros
			n -= zeros
		} else {
			n = zeros
		}
	}
	return below // numbers still undecided agree with p in every digit: not below it
}

// coins draws from Bin(n, 1/2): the number of ones among n random bits.
func coins(n uint64, src Source) uint64 {
	var ones uint64
	for ; n >= 64; n -= 64 {
		ones += uint64(bits.OnesCount64(src.Uint64()))
	}
	if n > 0 {
		ones += uint64(bits.OnesCount64(src.Uint64() >> (64 - n)))
	}
	return ones
}

package panel

import (
	"encoding/binary"
	"math"
)

// Doubt is how improbable a rank must be before it proves that a server lies: a device that is told the truth meets
// such a rank about once in so many draws.
const Doubt = 1e-12

// Plausible reports whether a device of this rank can have been drawn, or not drawn, into a panel of the given size out
// of so many registered devices. The ranks of the others are uniform, so as many of them as a Binomial(registered, x)
// are smaller than x, the rank as a fraction of the largest one. A device is drawn if fewer than size are. Plausible is
// false if what is claimed has a probability below Doubt: at least
//
//	P(Binomial(registered, x) < size)   for a device that is drawn
//	P(Binomial(registered, x) >= size)  for one that is not
//
// Who cannot see the other devices can check no more than that: a server that moves a device across the boundary of a
// panel by a few places is not found. registered is 1 to 2^32-1 and size at least 1; anything else is not plausible.
func Plausible(rank Rank, registered, size int, drawn bool) bool {
	if registered < 1 || int64(registered) > math.MaxUint32 || size < 1 {
		return false
	}
	// The fraction and what is left of 1, each without a loss of digits.
	u := binary.BigEndian.Uint64(rank[:8])
	x, left := (float64(u)+0.5)/(1<<64), (float64(^u)+0.5)/(1<<64)
	if drawn {
		return below(registered, x, left, size-1)
	}
	// As many as size are below x if and only if at most registered - size are above it.
	return size <= registered && below(registered, left, x, registered-size)
}

// below reports whether P(Binomial(n, x) <= k) is at least Doubt, for k >= 0 and left = 1 - x.
func below(n int, x, left float64, k int) bool {
	if float64(k) >= float64(n+1)*x-1 {
		return true // from the mode on it is at least the mode's probability, and that is at least 1/(n+1), above 2e-10
	}
	// Under the mode the terms fall, the faster the further down: the sum is nearly its first ones.
	term := math.Exp(logChoose(n, k) + float64(k)*math.Log(x) + float64(n-k)*math.Log(left))
	for sum := 0.0; ; k-- {
		if sum += term; sum >= Doubt {
			return true
		}
		if k == 0 || term < Doubt*1e-12 {
			return false
		}
		term *= float64(k) / float64(n-k+1) * (left / x)
	}
}

// logChoose is the logarithm of the binomial coefficient.
func logChoose(n, k int) float64 {
	a, _ := math.Lgamma(float64(n) + 1)
	b, _ := math.Lgamma(float64(k) + 1)
	c, _ := math.Lgamma(float64(n-k) + 1)
	return a - b - c
}

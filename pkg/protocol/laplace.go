package protocol

// MaxLaplace bounds numerator and denominator of a DiscreteLaplace.
const MaxLaplace = 1 << 31

// DiscreteLaplace is noise for pure differential privacy: the law on the integers with P(x) proportional to
// e^(-|x| Denominator/Numerator), so that its scale is t/s for t = Numerator and s = Denominator. Added to an integer
// that one record moves by at most D, it gives (D s/t, 0)-differential privacy.
type DiscreteLaplace struct {
	Numerator, Denominator uint64 // each from 1 to MaxLaplace
}

// Sample draws exactly from the law: integers and random words only. The scale must be in range.
//
// It is Algorithm 2 of Canonne, Kamath and Steinke, "The Discrete Gaussian for Differential Privacy" (2020). Proof that
// it is exact: with t = Numerator, u uniform on {0, ..., t-1} is kept with probability e^(-u/t), and v counts successes
// of coins of probability e^-1 before the first failure, so x = u + t v has P(x) proportional to e^(-u/t) e^-v =
// e^(-x/t) on all x >= 0. Then y = floor(x/s) sums s neighbouring terms of a geometric sequence, which makes P(y)
// proportional to e^(-y s/t). A fair sign doubles every y > 0; the draw y = 0 with a negative sign is thrown away, or
// zero would count twice. What is thrown away depends on random words alone, and the number of words says nothing about
// the value that the noise is added to. v stops at 2^32-1, so that nothing overflows; that has probability e^(-2^32).
func (l DiscreteLaplace) Sample(src Source) int64 {
	for {
		u := below(l.Numerator, src)
		if !exponentialCoin(u, l.Numerator, src) {
			continue
		}
		v := uint64(0)
		for v < 1<<32-1 && exponentialCoin(1, 1, src) {
			v++
		}
		y := int64((u + l.Numerator*v) / l.Denominator)
		if src.Uint64()>>63 == 0 {
			return y
		}
		if y != 0 {
			return -y
		}
	}
}

// exponentialCoin is true with probability e^(-a/b), exactly, for 0 <= a <= b and b >= 1 (Algorithm 1 of the same
// paper). Coins of probability g/k, with g = a/b and k = 1, 2, ..., are tossed until the first that fails, the K-th. It
// is P(K > k) = g^k/k!, so P(K odd) = 1 - g + g^2/2! - ... = e^-g. A coin of probability a/(b k) is two independent
// ones of a/b and 1/k.
func exponentialCoin(a, b uint64, src Source) bool {
	for k := uint64(1); ; k++ {
		if below(b, src) >= a || below(k, src) != 0 {
			return k%2 == 1
		}
	}
}

package protocol

// MaxGaussian bounds the deviation of a DiscreteGaussian.
const MaxGaussian = 1 << 30

// DiscreteGaussian is the law on the integers with P(x) proportional to e^(-x^2 / (2 Sigma^2)). Added to an integer
// vector that one record moves by at most D in the l2 norm, one draw for each coordinate, it gives D^2/(2 Sigma^2)-zCDP
// (Canonne, Kamath and Steinke, "The Discrete Gaussian for Differential Privacy", 2020, Theorem 14).
type DiscreteGaussian struct{ Sigma uint64 } // 1 to MaxGaussian

// Sample draws exactly from the law: integers and random words only. The deviation must be in range.
//
// It is Algorithm 3 of the same paper with t = Sigma: a discrete Laplace draw y of scale Sigma is kept with probability
// e^(-(|y|-Sigma)^2 / (2 Sigma^2)), and e^(-|y|/Sigma) times that is proportional to e^(-y^2 / (2 Sigma^2)). With
// ||y|-Sigma| = q Sigma + r the exponent is q^2/2 + q r/Sigma + r^2/(2 Sigma^2), one coin for each term.
func (g DiscreteGaussian) Sample(src Source) int64 {
	laplace := DiscreteLaplace{Numerator: g.Sigma, Denominator: 1}
	for {
		y := laplace.Sample(src)
		a := uint64(max(y, -y))
		if a >= g.Sigma {
			a -= g.Sigma
		} else {
			a = g.Sigma - a
		}
		if g.keep(a/g.Sigma, a%g.Sigma, src) {
			return y
		}
	}
}

// keep is true with probability e^-(q^2/2 + q r/Sigma + r^2/(2 Sigma^2)).
func (g DiscreteGaussian) keep(q, r uint64, src Source) bool {
	for i := uint64(0); i < q; i++ {
		if !exponentialCoin(r, g.Sigma, src) {
			return false
		}
		for j := uint64(0); j < q; j++ {
			if !exponentialCoin(1, 2, src) {
				return false
			}
		}
	}
	return exponentialCoin(r*r, 2*g.Sigma*g.Sigma, src)
}

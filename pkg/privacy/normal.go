package privacy

import (
	"math"

	"gonum.org/v1/gonum/mathext"
)

// lowerTail returns P(Z <= z) of a standard normal Z with full relative accuracy for z <= 0.
func lowerTail(z float64) float64 { return 0.5 * math.Erfc(-z/math.Sqrt2) }

// quantile returns z with P(Z <= z) = p. Its relative accuracy is about 1e-15 for p down to 1e-300 (Wichura's AS 241);
// an upper tail probability s must be passed as -quantile(s), never as quantile(1-s), which would lose the tail.
func quantile(p float64) float64 {
	switch {
	case math.IsNaN(p):
		return math.NaN()
	case p <= 0:
		return math.Inf(-1)
	case p >= 1:
		return math.Inf(1)
	}
	return mathext.NormalQuantile(p)
}

// scaledErfc returns exp(u*u)*erfc(u) for u > -1 with a relative error below 2e-14.
func scaledErfc(u float64) float64 {
	if u < 6 {
		return math.Exp(u*u) * math.Erfc(u)
	}
	// Asymptotic series; at u = 6 its terms shrink until the 36th, far below the double precision floor.
	sum, term, w := 1.0, 1.0, 1/(2*u*u)
	for k := 1; k < 30; k++ {
		term *= -float64(2*k-1) * w
		sum += term
		if math.Abs(term) < 1e-17 {
			break
		}
	}
	return sum / (u * sqrtPi)
}

const sqrtPi = 1.77245385090551602729816748334

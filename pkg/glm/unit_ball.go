package glm

import (
	"math"

	"github.com/riffle-dp/riffle/pkg/convex"
)

// ToUnitBall returns x itself when its norm is at most 1, and otherwise a copy scaled down to norm 1 and true. x must
// be finite.
func ToUnitBall(x []float64) ([]float64, bool) {
	squares := 0.0
	for _, v := range x {
		squares += v * v
	}
	if squares < 1-1e-9 { // far from where rounding matters; underflow only makes it smaller
		return x, false
	}
	length := convex.Norm(x)
	if length <= 1 {
		return x, false
	}
	unit := make([]float64, len(x))
	if !convex.IsFinite(length) { // finite coordinates whose norm overflows
		for j, v := range x {
			unit[j] = v / math.MaxFloat64
		}
		x, length = unit, convex.Norm(unit)
	}
	for j, v := range x {
		unit[j] = v / length
	}
	for convex.Norm(unit) > 1 { // a rounding above
		for j := range unit {
			unit[j] *= 1 - 0x1p-52
		}
	}
	return unit, true
}

// intoBall projects theta onto the ball of the given radius; the result's norm is at most radius in floating point too.
// It reports false when theta is not finite.
func intoBall(theta []float64, radius float64) ([]float64, bool) {
	if firstNotFinite(theta) >= 0 {
		return nil, false
	}
	scaled := make([]float64, len(theta))
	for i, v := range theta {
		scaled[i] = v / radius
	}
	projected, long := ToUnitBall(scaled)
	if !long {
		return theta, true
	}
	for i := range projected {
		projected[i] *= radius
	}
	for convex.Norm(projected) > radius { // a rounding above
		for i := range projected {
			projected[i] *= 1 - 0x1p-52
		}
	}
	return projected, true
}

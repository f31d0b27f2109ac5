package convex

import "math"

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
	length := Norm(x)
	if length <= 1 {
		return x, false
	}
	unit := make([]float64, len(x))
	if !IsFinite(length) { // finite coordinates whose norm overflows
		for j, v := range x {
			unit[j] = v / math.MaxFloat64
		}
		x, length = unit, Norm(unit)
	}
	for j, v := range x {
		unit[j] = v / length
	}
	for Norm(unit) > 1 { // a rounding above
		for j := range unit {
			unit[j] *= 1 - 0x1p-52
		}
	}
	return unit, true
}

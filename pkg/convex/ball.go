package convex

import (
	"fmt"
	"math"
)

// Ball is the set of points at Euclidean distance at most Radius from the origin.
type Ball struct{ Radius float64 }

// Project writes the point of the ball nearest to x into dst[:0] and returns it; dst may be x[:0]. The result's norm is
// at most Radius up to one rounding (a relative 2^-52), which a check of it must allow. A point inside is returned
// unchanged, so that projecting twice is projecting once, to the bit.
func (b Ball) Project(dst, x []float64) ([]float64, error) {
	if !(b.Radius >= 0) || math.IsInf(b.Radius, 0) {
		return nil, fmt.Errorf("%w: the ball's radius is %v, it must be finite and at least 0", ErrParameter, b.Radius)
	}
	if err := checkVector("the point", x, len(x)); err != nil {
		return nil, err
	}
	dst = append(dst[:0], x...)
	if Norm(dst) <= b.Radius {
		return dst, nil
	}
	largest := MaxAbs(dst)
	for i := range dst { // first to a size whose norm cannot overflow
		dst[i] /= largest
	}
	n := Norm(dst)
	for i := range dst {
		dst[i] *= b.Radius / n
	}
	for Norm(dst) > b.Radius { // a rounding above
		for i := range dst {
			dst[i] *= 1 - 0x1p-52
		}
	}
	return dst, nil
}

// project is the projection on the ball of the radius, in place; +Inf stands for no ball.
func project(radius float64, x []float64) ([]float64, error) {
	if math.IsInf(radius, 1) {
		return x, nil
	}
	return Ball{radius}.Project(x, x)
}

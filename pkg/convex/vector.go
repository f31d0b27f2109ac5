package convex

import (
	"fmt"
	"math"
)

// Dot is the inner product of two vectors of the same length, summed in the order of the coordinates. (The order of
// gonum's floats.Dot depends on the processor, and a policy must come out the same to the last bit.)
func Dot(x, y []float64) float64 {
	sum := 0.0
	for i, v := range x {
		sum += v * y[i]
	}
	return sum
}

// MaxAbs is the largest absolute value of the coordinates, 0 for none. With a NaN it is NaN or +Inf.
func MaxAbs(x []float64) float64 {
	largest := 0.0
	for _, v := range x {
		largest = math.Max(largest, math.Abs(v))
	}
	return largest
}

// Norm is the Euclidean norm, without intermediate overflow: +Inf only when the norm itself overflows. With a NaN it is
// NaN or +Inf.
func Norm(x []float64) float64 {
	largest := MaxAbs(x)
	if largest == 0 || math.IsInf(largest, 0) {
		return largest
	}
	sum := 0.0
	for _, v := range x {
		sum += (v / largest) * (v / largest)
	}
	return largest * math.Sqrt(sum)
}

// IsFinite reports whether v is neither NaN nor infinite.
func IsFinite(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }

// AllFinite reports whether no coordinate is NaN or infinite.
func AllFinite(x []float64) bool { return FirstNotFinite(x) < 0 }

// FirstNotFinite is the index of the first NaN or infinity of x, or -1.
func FirstNotFinite(x []float64) int {
	for i, v := range x {
		if !IsFinite(v) {
			return i
		}
	}
	return -1
}

func checkVector(what string, x []float64, d int) error {
	if len(x) != d {
		return fmt.Errorf("%w: %s has %d coordinates, want %d", ErrDimension, what, len(x), d)
	}
	if i := FirstNotFinite(x); i >= 0 {
		return fmt.Errorf("%w: coordinate %d of %s is %v", ErrNotFinite, i, what, x[i])
	}
	return nil
}

package glm

import (
	"errors"
	"fmt"
	"math"
)

var (
	// ErrNotFinite is returned for a NaN or an infinity in a record, a parameter or a release.
	ErrNotFinite = errors.New("glm: not a finite number")
	// ErrDimension is returned for a vector of the wrong length.
	ErrDimension = errors.New("glm: wrong dimension")
)

// Record is what one device remembers of one decision. It never leaves the device in the clear.
type Record struct {
	// Arm is the played arm x, unscaled, with Euclidean norm at most 1; a longer one is scaled down.
	Arm []float64
	// Reward is r in [0, R] of the family; outside it is clipped.
	Reward float64
	// Weight is s(x)^2, the weight of the outer product in a Covariance statistic; the other statistics ignore it.
	Weight float64
	// Null marks the record of a device that has nothing to report: every statistic of it is the zero vector, and the
	// other fields are ignored.
	Null bool
}

// Clipping says which parts of a record had to be changed to fit the bounds. It depends on the record: it may be counted
// on the device, and must not leave it.
type Clipping uint8

// The parts of a record that can be clipped.
const (
	ClippedArm Clipping = 1 << iota
	ClippedReward
	ClippedWeight
)

// Clip returns the record with the arm scaled down to norm 1, the reward clipped to [0, maxReward] and the weight to [0,
// maxWeight]. The arm's memory is shared unless it is scaled. A NaN or infinity anywhere is ErrNotFinite, an arm of
// another length than dim ErrDimension; a device that gets an error reports the null record instead, never silence.
func (r Record) Clip(dim int, maxReward, maxWeight float64) (Record, Clipping, error) {
	if r.Null {
		return Record{Null: true}, 0, nil
	}
	if len(r.Arm) != dim {
		return Record{}, 0, fmt.Errorf("%w: the arm has %d coordinates, the statistic takes %d", ErrDimension, len(r.Arm), dim)
	}
	if i := firstNotFinite(r.Arm); i >= 0 {
		return Record{}, 0, fmt.Errorf("%w: coordinate %d of the arm", ErrNotFinite, i)
	}
	if !isFinite(r.Reward) {
		return Record{}, 0, fmt.Errorf("%w: the reward", ErrNotFinite)
	}
	if !isFinite(r.Weight) {
		return Record{}, 0, fmt.Errorf("%w: the weight", ErrNotFinite)
	}
	var c Clipping
	if scaled, long := ToUnitBall(r.Arm); long {
		// A norm of 1 + rounding error is what a caller gets who scaled the arm themselves; that is no clipping worth counting.
		if norm(r.Arm) > 1+1e-12 {
			c |= ClippedArm
		}
		r.Arm = scaled
	}
	if clipped := math.Max(0, math.Min(r.Reward, maxReward)); clipped != r.Reward {
		r.Reward, c = clipped, c|ClippedReward
	}
	if clipped := math.Max(0, math.Min(r.Weight, maxWeight)); clipped != r.Weight {
		r.Weight, c = clipped, c|ClippedWeight
	}
	return r, c, nil
}

func isFinite(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }

// firstNotFinite is the index of the first NaN or infinity of x, or -1.
func firstNotFinite(x []float64) int {
	for i, v := range x {
		if !isFinite(v) {
			return i
		}
	}
	return -1
}

// norm is the Euclidean norm: without intermediate overflow, NaN for a NaN, +Inf when the norm itself overflows.
func norm(x []float64) float64 {
	largest := 0.0
	for _, v := range x {
		if math.IsNaN(v) {
			return v
		}
		largest = math.Max(largest, math.Abs(v))
	}
	if largest == 0 || math.IsInf(largest, 0) {
		return largest
	}
	sum := 0.0
	for _, v := range x {
		sum += (v / largest) * (v / largest)
	}
	return largest * math.Sqrt(sum)
}

// dot is the inner product of two vectors of the same length.
func dot(x, y []float64) float64 {
	sum := 0.0
	for i, v := range x {
		sum += v * y[i]
	}
	return sum
}

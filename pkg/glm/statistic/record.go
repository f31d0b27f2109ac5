package statistic

import (
	"errors"
)

var (
	// ErrNotFinite is returned for a NaN or an infinity in a record.
	ErrNotFinite = errors.New("glm: not a finite number")
	// ErrDimension is returned for an arm of the wrong length.
	ErrDimension = errors.New("glm: wrong dimension")
	// ErrStructure is returned for an arm that does not fit the structure of the statistic.
	ErrStructure = errors.New("glm: the arm does not fit the structure")
)

// Record is what one device remembers of one decision. It never leaves the device in the clear.
type Record struct {
	// Arm is the played arm x, unscaled, with Euclidean norm at most 1; a longer one is scaled down.
	Arm []float64
	// Reward is r in [MinReward, R] of the family; a reward outside this range is clipped.
	Reward float64
	// Weight is s(x)^2, the weight of the outer product in a Covariance statistic; the other statistics ignore it.
	Weight float64
	// Explored is Decision.Explored. Only the statistic Row reads it.
	Explored bool
	// Control is Decision.Control. Only the statistic Rewards reads it.
	Control bool
	// Null marks the record of a device that has nothing to report: every statistic of it is the zero vector, and the
	// other fields are ignored.
	Null bool
}

package glm

import (
	"errors"
	"fmt"
	"math"

	"github.com/riffle-dp/riffle/pkg/convex"
)

var (
	// ErrNotFinite is returned for a NaN or an infinity in a record.
	ErrNotFinite = errors.New("glm: not a finite number")
	// ErrDimension is returned for an arm of the wrong length.
	ErrDimension = errors.New("glm: wrong dimension")
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

// clip returns the record with the arm scaled down to norm 1, and with the reward clipped to the family's range or
// the weight to [0, WeightBound], whichever the statistic uses. The arm's memory is shared unless it is scaled.
func (s Statistic) clip(r Record) (Record, error) {
	if r.Null {
		return Record{Null: true}, nil
	}
	if len(r.Arm) != s.ArmDim {
		return Record{}, fmt.Errorf("%w: the arm has %d coordinates, the statistic takes %d",
			ErrDimension, len(r.Arm), s.ArmDim)
	}
	if i := convex.FirstNotFinite(r.Arm); i >= 0 {
		return Record{}, fmt.Errorf("%w: coordinate %d of the arm", ErrNotFinite, i)
	}
	if !convex.IsFinite(r.Reward) {
		return Record{}, fmt.Errorf("%w: the reward", ErrNotFinite)
	}
	if !convex.IsFinite(r.Weight) {
		return Record{}, fmt.Errorf("%w: the weight", ErrNotFinite)
	}
	r.Arm, _ = convex.ToUnitBall(r.Arm)
	if s.Kind == Covariance {
		r.Weight = math.Max(0, math.Min(r.Weight, s.WeightBound))
	} else { // Row, too
		r.Reward = math.Max(s.Family.MinReward(), math.Min(r.Reward, s.Family.MaxReward()))
	}
	return r, nil
}
